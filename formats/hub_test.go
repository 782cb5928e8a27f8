package formats_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
)

// oneTensor is a safetensors file with a tensor of that name, and oneGGUF a GGUF file.
func oneTensor(name string) string {
	return string(testmodel.Safetensors([]testmodel.SafeTensor{{Name: name, DType: tensorfs.F16, Shape: []int64{4}}}, nil))
}

func oneGGUF(name string) string {
	return string(testmodel.GGUF{Tensors: []testmodel.GGUFTensor{{Name: name, Shape: []int64{4}, Data: make([]byte, 16)}}}.Bytes())
}

const (
	commit1 = "0123456789abcdef0123456789abcdef01234567"
	commit2 = "0123456fffffffffffffffffffffffffffffffff"
	commit3 = "89abcdef0123456789abcdef0123456789abcdef"
)

// cached makes a Hugging Face cache, and uses it. Files are of "FOLDER/COMMIT/FILE",
// and links to blobs, as the cache has them; refs of "FOLDER@REF".
func cached(t *testing.T, files map[string]string) (cache string) {
	t.Helper()
	all := map[string]string{}
	for name, content := range files {
		if folder, ref, ok := strings.Cut(name, "@"); ok {
			all["models--"+folder+"/refs/"+ref] = content
			continue
		}
		folder, rest, _ := strings.Cut(name, "/")
		blob := fmt.Sprintf("models--%s/blobs/%x", folder, len(all))
		link := "models--" + folder + "/snapshots/" + rest
		all[blob] = content
		target, err := filepath.Rel(filepath.Dir(link), blob)
		if err != nil {
			t.Fatal(err)
		}
		all[link] = "->" + target
	}
	cache = tempFiles(t, all)
	t.Setenv("HF_HUB_CACHE", cache)
	return cache
}

// TestHub opens models of the cache by every form of their names, as users and as
// root do it, who keeps links inside.
func TestHub(t *testing.T) {
	const config = `{"model_type":"llama"}`
	shards := testmodel.NewLogical("llama", 0).AsGGUF(tensorfs.F16, false).Shards("Big-F16", 2)
	files := map[string]string{
		"org--name/" + commit1 + "/config.json": config, "org--name/" + commit1 + "/model.safetensors": oneTensor("one"),
		"org--name/" + commit3 + "/config.json": config, "org--name/" + commit3 + "/model.safetensors": oneTensor("three"), "org--name/" + commit3 + "/x.gguf": oneGGUF("x"),
		"org--name@main": commit3 + "\n", "org--name@v1.0": commit1, "org--name@refs/pr/1": commit1, "org--name@pr/1": commit1, "org--name@feature/x": commit1,
		"gpt2/c1/config.json": config, "gpt2/c1/model.safetensors": oneTensor("one"),
		"solo--Q4-GGUF/" + commit1 + "/Solo-Q4_K_M.gguf": oneGGUF("q4"), "solo--Q4-GGUF/" + commit1 + "/mmproj-F16.gguf": oneGGUF("mm"), "solo--Q4-GGUF/" + commit1 + "/config.json": config,
		"bart--L-GGUF/" + commit1 + "/L-Q8_0.gguf": oneGGUF("q8"), "bart--L-GGUF/" + commit1 + "/L-Q4_K_M.gguf": oneGGUF("q4"), "bart--L-GGUF/" + commit1 + "/L-Q4_K_S.gguf": oneGGUF("q4s"), "bart--L-GGUF@main": commit1,
		"bart--L-GGUF/" + commit1 + "/F16/Big-F16-00001-of-00002.gguf": string(shards["Big-F16-00001-of-00002.gguf"]), "bart--L-GGUF/" + commit1 + "/F16/Big-F16-00002-of-00002.gguf": string(shards["Big-F16-00002-of-00002.gguf"]),
		"acme--pipe/" + commit1 + "/model_index.json": "{}", "acme--pipe/" + commit1 + "/unet/config.json": "{}", "acme--pipe/" + commit1 + "/unet/diffusion_pytorch_model.safetensors": oneTensor("u"),
		"acme--pipe/" + commit1 + "/scheduler/scheduler_config.json": "{}",
		"org--gone/" + commit1 + "/model.safetensors":                oneTensor("one"), "org--gone@main": commit3,
		"org--many/" + commit1 + "/model.safetensors": oneTensor("one"), "org--many/" + commit2 + "/model.safetensors": oneTensor("two"),
		"org--none@main": commit1, "org--evil/c1/model.safetensors": oneTensor("one"), "org--evil@main": "../../models--org--name/snapshots/" + commit1,
		"org--part/" + commit1 + "/config.json": config, "org--text/" + commit1 + "/README.md": "#",
	}
	cache := cached(t, files)
	if err := os.Symlink("../../blobs/x.incomplete", filepath.Join(cache, "models--org--part/snapshots", commit1, "model.safetensors")); err != nil {
		t.Fatal(err)
	}
	snapshot := func(folder, file string) string {
		return filepath.Join(cache, "models--"+folder, "snapshots", commit1, file)
	}
	for _, x := range []struct {
		name, tensor string
		path         string // below the cache
		pinned       string
	}{
		{"hf:org/name", "three", "models--org--name", "hf:org/name@89abcdef0123"},
		{"hf://org/name", "three", "models--org--name", "hf:org/name@89abcdef0123"},
		{"hf:org/name/", "three", "models--org--name", "hf:org/name@89abcdef0123"},
		{"hf:org/name@main", "three", "models--org--name", "hf:org/name@89abcdef0123"},
		{"hf:org/name@v1.0", "one", "models--org--name", "hf:org/name@0123456789ab"},
		{"hf:org/name@pr/1", "one", "models--org--name", "hf:org/name@0123456789ab"},
		{"hf:org/name@refs/pr/1", "one", "models--org--name", "hf:org/name@0123456789ab"},
		{"hf:org/name@refs%2Fpr%2F1", "one", "models--org--name", "hf:org/name@0123456789ab"},
		{"hf:org/name@feature/x", "one", "models--org--name", "hf:org/name@0123456789ab"},
		{"hf:org/name@" + commit1, "one", "models--org--name", "hf:org/name@0123456789ab"},
		{"hf:org/name@0123456", "one", "models--org--name", "hf:org/name@0123456789ab"},
		{"hf:org/name@0123456789AB", "one", "models--org--name", "hf:org/name@0123456789ab"},
		{"hf:org/many@0123456f", "two", "models--org--many", "hf:org/many@0123456fffff"},
		{"hf:org/name:X", "x", "models--org--name/snapshots/" + commit3 + "/x.gguf", "hf:org/name@89abcdef0123:X"},
		{"hf:org/name/x.gguf", "x", "models--org--name/snapshots/" + commit3 + "/x.gguf", "hf:org/name@89abcdef0123:x.gguf"},
		{"hf:org/name@main:x.gguf", "x", "models--org--name/snapshots/" + commit3 + "/x.gguf", "hf:org/name@89abcdef0123:x.gguf"},
		{"hf://org/name@main/x.gguf", "x", "models--org--name/snapshots/" + commit3 + "/x.gguf", "hf:org/name@89abcdef0123:x.gguf"},
		{"hf:org/name@feature/x/model.safetensors", "one", "models--org--name/snapshots/" + commit1 + "/model.safetensors", "hf:org/name@0123456789ab:model.safetensors"},
		{"hf:gpt2", "one", "models--gpt2", "hf:gpt2@c1"},
		{"hf:gpt2:model.safetensors", "one", "models--gpt2/snapshots/c1/model.safetensors", "hf:gpt2@c1:model.safetensors"},
		{"hf:solo/Q4-GGUF", "q4", "models--solo--Q4-GGUF/snapshots/" + commit1 + "/Solo-Q4_K_M.gguf", "hf:solo/Q4-GGUF@0123456789ab"},
		{"hf:solo/Q4-GGUF:mmproj", "mm", "models--solo--Q4-GGUF/snapshots/" + commit1 + "/mmproj-F16.gguf", "hf:solo/Q4-GGUF@0123456789ab:mmproj"},
		{"hf:bart/L-GGUF:q8_0", "q8", "models--bart--L-GGUF/snapshots/" + commit1 + "/L-Q8_0.gguf", "hf:bart/L-GGUF@0123456789ab:q8_0"},
		{"hf:bart/L-GGUF:Q4_K_M", "q4", "models--bart--L-GGUF/snapshots/" + commit1 + "/L-Q4_K_M.gguf", ""},
		{"hf:bart/L-GGUF:F16", "", "models--bart--L-GGUF/snapshots/" + commit1 + "/F16/Big-F16-00001-of-00002.gguf", ""},
		{"hf:bart/L-GGUF/F16", "", "models--bart--L-GGUF/snapshots/" + commit1 + "/F16/Big-F16-00001-of-00002.gguf", "hf:bart/L-GGUF@0123456789ab:F16/"},
		{"hf:bart/L-GGUF/F16/Big-F16-00002-of-00002.gguf", "", "models--bart--L-GGUF/snapshots/" + commit1 + "/F16/Big-F16-00002-of-00002.gguf", ""},
		{"hf:acme/pipe/unet", "u", "models--acme--pipe/snapshots/" + commit1 + "/unet", "hf:acme/pipe@0123456789ab:unet/"},
		{"hf:acme/pipe@0123456/unet", "u", "models--acme--pipe/snapshots/" + commit1 + "/unet", "hf:acme/pipe@0123456789ab:unet/"},
		{"hf:org/gone", "one", "models--org--gone", "hf:org/gone@0123456789ab"},
		{cache + "/models--org--name", "three", "models--org--name", ""},
		{cache + "/models--org--gone", "one", "models--org--gone", ""},
		{cache + "/models--solo--Q4-GGUF", "q4", "models--solo--Q4-GGUF/snapshots/" + commit1 + "/Solo-Q4_K_M.gguf", ""},
		{snapshot("org--name", ""), "one", "models--org--name/snapshots/" + commit1, ""},
		{snapshot("solo--Q4-GGUF", ""), "q4", "models--solo--Q4-GGUF/snapshots/" + commit1 + "/Solo-Q4_K_M.gguf", ""},
		{snapshot("acme--pipe", "unet"), "u", "models--acme--pipe/snapshots/" + commit1 + "/unet", ""},
	} {
		t.Run(strings.ReplaceAll(x.name, cache, "CACHE"), func(t *testing.T) {
			for _, keep := range []bool{false, true} {
				m, err := formats.Options{KeepInside: keep}.Open(x.name)
				if err != nil {
					t.Fatal(err)
				}
				defer m.Close()
				if x.tensor != "" && m.Tensors[0].Source != x.tensor || x.tensor == "" && len(m.Tensors) < 10 {
					t.Errorf("%d tensors, the first is %s", len(m.Tensors), m.Tensors[0].Source)
				}
				if m.Path != filepath.Join(cache, x.path) {
					t.Errorf("path %s, want %s", m.Path, x.path)
				}
				if x.pinned != "" && m.Name != x.pinned || filepath.IsAbs(x.name) && m.Name != "" {
					t.Errorf("name %s, want %s", m.Name, x.pinned)
				}
				if gone := strings.Contains(x.name, "gone"); len(m.Warnings) > 0 != gone {
					t.Errorf("warnings %q", m.Warnings)
				}
				if m.Name == "" {
					continue
				}
				if !formats.IsName(x.name) {
					t.Error("it is not a name")
				}
				again, err := open(t, m.Name)
				if err != nil || again.Path != m.Path || again.Name != m.Name {
					t.Errorf("%s: %+v, %v", m.Name, again, err)
				}
			}
		})
	}
	for _, x := range []struct {
		name string
		kind error
		says string
	}{
		{"hf:bart/L-GGUF", tensorfs.ErrUnsupported, "hf:bart/L-GGUF: it has 4 GGUF models: Big-F16, L-Q4_K_M, L-Q4_K_S, L-Q8_0; name one, such as hf:bart/L-GGUF:Big-F16"},
		{"hf:bart/L-GGUF@main", tensorfs.ErrUnsupported, "name one, such as hf:bart/L-GGUF@main:Big-F16"},
		{cache + "/models--bart--L-GGUF", tensorfs.ErrUnsupported, snapshot("bart--L-GGUF", "") + ": it has 4 GGUF models: F16/Big-F16-00001-of-00002.gguf, L-Q4_K_M.gguf, L-Q4_K_S.gguf, L-Q8_0.gguf; name one, such as " + snapshot("bart--L-GGUF", "F16/Big-F16-00001-of-00002.gguf")},
		{"hf:bart/L-GGUF:Q4_K", tensorfs.ErrUnsupported, `hf:bart/L-GGUF:Q4_K: "Q4_K" is part of the names of 2 GGUF models: L-Q4_K_M, L-Q4_K_S; name one, such as hf:bart/L-GGUF:L-Q4_K_M`},
		{"hf:bart/L-GGUF:Q2_K", fs.ErrNotExist, `hf:bart/L-GGUF:Q2_K: it has no GGUF model "Q2_K", only Big-F16, L-Q4_K_M, L-Q4_K_S, L-Q8_0; download it with "hf download bart/L-GGUF --include '*Q2_K*'"`},
		{"hf:bart/L-GGUF/L-Q2_K.gguf", fs.ErrNotExist, `did you mean hf:bart/L-GGUF/L-Q8_0.gguf`},
		{"hf:bart/L-GGUF/Q8_0.gguf", fs.ErrNotExist, `hf:bart/L-GGUF/Q8_0.gguf: it has no file Q8_0.gguf; did you mean hf:bart/L-GGUF/L-Q8_0.gguf? If not, download it with "hf download bart/L-GGUF Q8_0.gguf"`},
		{"hf:bart/L-GGUF@main:far/away", fs.ErrNotExist, `hf:bart/L-GGUF@main:far/away: it has no file far/away; download it with "hf download bart/L-GGUF --include 'far/away/*' --revision main"`},
		{"hf:org/name:Q4_0", fs.ErrNotExist, `it has no GGUF model "Q4_0", only x; download it with`},
		{"hf:gpt2:Q4_0", fs.ErrNotExist, `hf:gpt2:Q4_0: it has no GGUF file; download it with "hf download gpt2 --include '*Q4_0*'"`},
		{"hf:acme/pipe", tensorfs.ErrUnsupported, "hf:acme/pipe: it is a diffusers pipeline with the parts unet; name one, such as hf:acme/pipe/unet"},
		{"hf:acme/pipe/unte", fs.ErrNotExist, "did you mean hf:acme/pipe/unet?"},
		{"hf:org/text", tensorfs.ErrUnsupported, `hf:org/text: it has no GGUF file and no safetensors; name a repository with a model, or download the rest of this one with "hf download org/text"`},
		{"hf:org/name/config.json", tensorfs.ErrUnsupported, "it is part of a model, not the model"},
		{"hf:org/many", tensorfs.ErrFormat, "hf:org/many: it has 2 snapshots, and refs/main names none of them; name one, such as hf:org/many@0123456789ab"},
		{cache + "/models--org--many", tensorfs.ErrFormat, "it has 2 snapshots, and refs/main names none of them; name one, such as " + snapshot("org--many", "")},
		{"hf:org/many@0123456", tensorfs.ErrFormat, "two commits begin with 0123456: " + commit1 + " and " + commit2 + "; write more letters of one"},
		{"hf:org/name@012345", fs.ErrNotExist, `hf:org/name@012345: the cache does not have this revision, only feature/x, main, pr/1, refs/pr/1, v1.0, 0123456789ab, 89abcdef0123; did you mean`},
		{"hf:org/name@mian", fs.ErrNotExist, `did you mean hf:org/name@main? If not, download it with "hf download org/name --revision mian"`},
		{"hf:org/name@v2:Q8_0", fs.ErrNotExist, `hf:org/name@v2:Q8_0: the cache does not have this revision`},
		{"hf:org/name@pr", fs.ErrNotExist, "the cache does not have this revision"},
		{"hf:org/name@main/x/y.gguf", fs.ErrNotExist, "hf:org/name@main:x/y.gguf: it has no file x/y.gguf"},
		{"hf:org/none", fs.ErrNotExist, `hf:org/none: it has no snapshot; download it with "hf download org/none"`},
		{"hf:org/evil", tensorfs.ErrFormat, "refs/main: it holds "},
		{"hf:org/part", tensorfs.ErrFormat, "finish the download"},
		{"hf:org/nam", fs.ErrNotExist, `hf:org/nam: it is not in the cache ` + cache + `; did you mean hf:org/name? If not, download it with "hf download org/nam"`},
		{"hf:Org/Name:Q4", fs.ErrNotExist, "; write it as hf:org/name:Q4"},
		{"hf:other/name", fs.ErrNotExist, `did you mean hf:org/name? If not, download it with "hf download other/name"`},
		{"hf:other/x@v1:Q4 0", fs.ErrNotExist, `download it with "hf download other/x --include '*Q4 0*' --revision v1", or set HF_HOME to the directory that contains it`},
		{"hf:datasets/org/x", tensorfs.ErrFormat, "it is the name of one of the hub's datasets, not of a model; name a model as hf:ORG/NAME"},
	} {
		t.Run(strings.ReplaceAll(x.name, cache, "CACHE"), func(t *testing.T) {
			m, err := open(t, x.name)
			refused(t, m, err, x.kind, x.says)
		})
	}
}

// TestCachePlaces finds the cache where its variables say it is.
func TestCachePlaces(t *testing.T) {
	for variable, dir := range map[string]string{"HF_HUB_CACHE": "", "HF_HOME": "hub", "XDG_CACHE_HOME": "huggingface/hub", "HOME": ".cache/huggingface/hub"} {
		for _, v := range []string{"HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"} {
			t.Setenv(v, "")
		}
		root := tempFiles(t, map[string]string{filepath.Join(dir, "models--org--x/snapshots/c1/model.safetensors"): oneTensor(variable), filepath.Join(dir, "models--org--x/blobs/x"): ""})
		t.Setenv(variable, root)
		if m, err := open(t, "hf:org/x"); err != nil || m.Tensors[0].Source != variable {
			t.Errorf("%s: %+v, %v", variable, m, err)
		}
	}
}

// TestHostileCache has caches of strangers: each name is opened, or refused in a
// line.
func TestHostileCache(t *testing.T) {
	odd := "b\xff\x1b\n"
	files := map[string]string{
		"a--refdir@main/x": "c1", "a--refdir/c1/model.safetensors": oneTensor("t"),
		"a--odd@" + odd: "c1", "a--odd/" + odd + "/model.safetensors": oneTensor("t"), "a--odd/c2/x": "",
		"a--names/c1/" + odd + ".gguf": oneGGUF("t"), "a--names/c1/" + odd + "2.gguf": oneGGUF("t"),
		"a--long@main": strings.Repeat("x", 1<<17), "a--nul@main": "a\x00b", "a--long/c1/x": "", "a--nul/c1/x": "",
		"a--" + odd + "/c1/x": "", "a--loop/c1/x": "", "a--deep/c1/" + strings.Repeat("d/", 40) + "a.gguf": oneGGUF("t"),
	}
	cache := cached(t, files)
	at := func(name string) string { return filepath.Join(cache, name) }
	if err := errors.Join(os.Mkdir(at("models--a--fifo"), 0o777), os.Mkdir(at("models--a--fifo/refs"), 0o777), os.MkdirAll(at("models--a--fifo/snapshots/c1"), 0o777), syscall.Mkfifo(at("models--a--fifo/refs/main"), 0o666),
		os.MkdirAll(at("models--a--loop/refs"), 0o777), os.Symlink("main", at("models--a--loop/refs/main")), os.Symlink("loop", at("models--a--loop/snapshots/loop")), os.Symlink("..", at("models--a--loop/snapshots/up")),
		os.Symlink("models--a--self", at("models--a--self")), os.WriteFile(at("models--a--file"), nil, 0o666), os.MkdirAll(at("models--a--empty"), 0o777)); err != nil {
		t.Fatal(err)
	}
	for name, says := range map[string]string{
		"a/refdir": "", "a/refdir@main": "the cache does not have this revision", "a/odd": "it has 2 snapshots", "a/names": "it has 2 GGUF models", "a/long": "at most 65536", "a/nul": "which is not the id of a commit",
		"a/loop": "form a loop", "a/loop@loop": "the cache does not have this revision", "a/deep": "more than 100000 files, or directories more than 16 deep", "a/fifo": "it is a FIFO", "a/self": "form a loop", "a/file": "it is not a directory",
		"a/empty": "it has no snapshot", "a/empty@main": "the cache does not have this revision", "a/od": "did you mean hf:a/odd", "a/b": "did you mean", "a/odd@main/..": "not of the form", "a/odd/..": "not of the form",
		"a/odd@" + strings.Repeat("x/", 200) + "x": "the cache does not have this revision",
	} {
		t.Run(name[:min(len(name), 20)], func(t *testing.T) {
			m, err := open(t, "hf:"+name)
			if says == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), says) || strings.ContainsAny(err.Error(), "\n\x1b\x00") || len(err.Error()) > 3000 {
				t.Errorf("%+v, error %v does not say %q in a line", m, err, says)
			}
		})
	}
}

// TestCrowdedDirectories has directories of very many names, which all differ from the requested
// name.
func TestCrowdedDirectories(t *testing.T) {
	const many = 20_000
	dir := t.TempDir()
	for i := range many {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("models--org--name-%05d.gguf", i)), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("HF_HUB_CACHE", dir)
	for name, says := range map[string]string{
		"hf:org/name-1":                   "did you mean hf:org/name-",
		dir + "/models--org--name-1.gguf": "did you mean " + dir + "/models--org--name-",
		dir:                               fmt.Sprintf("it has %d GGUF models: models--org--name-00000.gguf, ", many),
	} {
		if m, err := open(t, name); err == nil || !strings.Contains(err.Error(), says) || len(err.Error()) > 1500 {
			t.Errorf("%+v, error %v does not say %q", m, err, says)
		}
	}
}

// TestOneModel opens directories with one model of GGUF, and refuses others.
func TestOneModel(t *testing.T) {
	g := string(ggufFile)
	shards := testmodel.NewLogical("llama", 0).AsGGUF(tensorfs.F16, false).Shards("m", 2)
	files := map[string]string{
		"one/a.gguf": g, "one/README.md": "#", "config/a.gguf": g, "config/config.json": "{}", "projector/mmproj-a.gguf": "x", "projector/a.gguf": g, "projector/imatrix.gguf": "x",
		"half/m-00001-of-00002.gguf": string(shards["m-00001-of-00002.gguf"]), "link/a.gguf": "->../one/a.gguf", "broken/a.gguf": "->gone", "dir/a.gguf/x": "", "dir/b.gguf": g,
		"both/a.gguf": g, "both/model.safetensors": string(tensorFile), "below/x/a.gguf": g, "below/y/b.gguf": g, "pipe/model_index.json": "{}", "pipe/vae/config.json": "{}", "pipe/vae/diffusion_pytorch_model.safetensors": string(tensorFile),
		"pipe/unet/config.json": "{}", "pipe/unet/diffusion_pytorch_model-00001-of-00001.safetensors": string(tensorFile), "pipe/scheduler/scheduler_config.json": "{}",
		"torch/pytorch_model.bin": "x", "torch/config.json": "{}", "x.mlpackage/Manifest.json": "{}", "tf/saved_model.pb": "x",
	}
	for name, b := range shards {
		files["set/"+name] = string(b)
	}
	for i := range 10 {
		files[fmt.Sprintf("ten/m-Q%d.gguf", i)] = g
	}
	dir := tempFiles(t, files)
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, file := range map[string]string{
		"one": "one/a.gguf", "config": "config/a.gguf", "projector": "projector/a.gguf", "set": "set/m-00001-of-00002.gguf", "link": "link/a.gguf", "dir": "dir/b.gguf", "pipe/vae": "pipe/vae", "pipe/unet": "pipe/unet",
	} {
		m, err := open(t, at(name))
		if err != nil || m.Path != at(file) || m.Name != "" {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
	}
	if m, err := (formats.Options{KeepInside: true}).Open(at("link")); !errors.Is(err, formats.ErrLink) {
		t.Errorf("a link that leaves is followed: %+v, %v", m, err)
	}
	for name, want := range map[string]struct {
		kind error
		says string
	}{
		"half":        {tensorfs.ErrFormat, at("half/m-00002-of-00002.gguf") + ": shard 2 of 2 is missing"},
		"broken":      {tensorfs.ErrFormat, `it is a link to "gone", which does not exist`},
		"both":        {tensorfs.ErrUnsupported, "it has safetensors without config.json, and GGUF models: a.gguf; name one, such as " + at("both/a.gguf")},
		"ten":         {tensorfs.ErrUnsupported, "it has 10 GGUF models: m-Q0.gguf, m-Q1.gguf, m-Q2.gguf, m-Q3.gguf, m-Q4.gguf, m-Q5.gguf, m-Q6.gguf, m-Q7.gguf and 2 more; name one, such as " + at("ten/m-Q0.gguf")},
		"below":       {tensorfs.ErrUnsupported, "it has no model itself, but directories with models: x, y; name one, such as " + at("below/x")},
		"pipe":        {tensorfs.ErrUnsupported, at("pipe") + ": it is a diffusers pipeline with the parts unet, vae; name one, such as " + at("pipe/unet")},
		"torch":       {tensorfs.ErrUnsupported, `it has no safetensors and no GGUF file, only "pytorch_model.bin", a model of PyTorch; save the model as safetensors first`},
		"x.mlpackage": {tensorfs.ErrUnsupported, "it is a Core ML model; fetch the model as safetensors or GGUF"},
		"tf":          {tensorfs.ErrUnsupported, `only "saved_model.pb", a TensorFlow SavedModel; fetch the model`},
		"one/b.gguf":  {fs.ErrNotExist, at("one/b.gguf") + ": no such file or directory; did you mean " + at("one/a.gguf") + "?"},
		"onne/a.gguf": {fs.ErrNotExist, at("onne/a.gguf") + ": no such file or directory; did you mean " + at("one") + "?"},
		"nothing":     {fs.ErrNotExist, "no such file or directory; check the path (models in a store are named"},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := open(t, at(name))
			refused(t, m, err, want.kind, want.says)
		})
	}
}

func TestIsName(t *testing.T) {
	for _, s := range []string{"hf:a/b", "hf:", "ollama:x", "hf://a/b", "https://x/y", "s3://x"} {
		if !formats.IsName(s) {
			t.Errorf("%s is a path", s)
		}
	}
	for _, s := range []string{"", "a", "/a", "./hf:x", "HF:a", "a/b://c", "hf", "://x"} {
		if formats.IsName(s) {
			t.Errorf("%s is a name", s)
		}
	}
}

// TestOllamaNames holds the names of models of the store.
func TestOllamaNames(t *testing.T) {
	abs, err := filepath.Abs(store)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("OLLAMA_MODELS", abs)
	for name, want := range map[string]string{"ollama:TINY:bf16": "ollama:tiny:bf16", "ollama:tinyllama": "ollama:tinyllama:latest"} {
		if m, err := open(t, name); err != nil || m.Name != want {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
	}
	for name, says := range map[string]string{
		"ollama:tiny":      "ollama:tiny:latest: tiny has the tags bf16, feb, int4, int4-nometa, jan, mixed, mxfp8, nvfp4, not latest; name one, such as ollama:tiny:",
		"ollama:tiny:int":  `name one, such as ollama:tiny:int4, or fetch it with "ollama pull tiny:int"`,
		"ollama:tini":      `ollama:tini:latest: there is no such model in ` + abs + ` (OLLAMA_MODELS); did you mean ollama:tiny:bf16? If not, fetch it with "ollama pull tini:latest"`,
		"ollama:tinylama":  `did you mean ollama:tinyllama? If not`,
		"ollama:tini:int4": `did you mean ollama:tiny:int4? If not`,
	} {
		m, err := open(t, name)
		refused(t, m, err, fs.ErrNotExist, says)
	}
}
