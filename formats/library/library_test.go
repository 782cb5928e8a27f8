package library_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs/formats/library"
	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
)

// tempFiles makes files below a new directory. "->TARGET" is a link, and a name that
// ends in a slash a directory.
func tempFiles(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		put(t, filepath.Join(dir, name), content, strings.HasSuffix(name, "/"))
	}
	return dir
}

func put(t *testing.T, path, content string, isDir bool) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o777)
	if target, isLink := strings.CutPrefix(content, "->"); isLink {
		err = errors.Join(err, os.Symlink(target, path))
	} else if isDir {
		err = errors.Join(err, os.MkdirAll(path, 0o777))
	} else {
		err = errors.Join(err, os.WriteFile(path, []byte(content), 0o666))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// open looks through a library, every time it is asked.
func open(t *testing.T, name string) *library.Library {
	t.Helper()
	l, err := library.Open(name, library.Options{Every: time.Nanosecond})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// names returns the names of the models, each with what it is below root.
func names(l *library.Library, root string) (all []string) {
	for _, m := range l.Now().Models {
		rel, _ := filepath.Rel(root, m.Path())
		all = append(all, m.Name+" = "+rel)
	}
	return all
}

func expect(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestFolder holds the names of models below a folder.
func TestFolder(t *testing.T) {
	long := strings.Repeat("x", 240)
	dir := tempFiles(t, map[string]string{
		"a.gguf": "", "b.safetensors": "", "notes.txt": "", "model.bin": "",
		"same.gguf": "", "same.safetensors": "", "same.gguf.safetensors": "",
		"dir.gguf": "", "dir/inner.gguf": "",
		"set-00001-of-00003.gguf": "", "set-00002-of-00003.gguf": "", "set-00003-of-00003.gguf": "",
		"part-00002-of-00002.gguf": "", "one-00001-of-00002.gguf": "", "one.gguf": "",
		"hf/config.json": "", "hf/model.safetensors": "", "hf/sub/x.gguf": "", "hf/x.gguf": "",
		"index/model.safetensors.index.json": "", "shards/model-00001-of-00002.safetensors": "",
		"pipe/model_index.json": "", "pipe/unet/config.json": "", "pipe/unet/diffusion_pytorch_model.safetensors": "",
		"tokenizer/config.json": "", "loras/style.safetensors": "", "loras/adapter_config.json": "", "empty/": "",
		"link.gguf": "->a.gguf", "linkdir": "->hf", "loop.gguf": "->loop.gguf", "dangling.gguf": "->none", "todir.gguf": "->hf", "up": "->..",
		"1/2/3/4/5/6/7/8.gguf": "", "1/2/3/4/5/6/7/8/9.gguf": "", "1/2/3/4/5/6/7/m/config.json": "", "1/2/3/4/5/6/7/m/model.safetensors": "",
		".hidden.gguf": "", ".gguf": "", "bad\x1b[31m\n:%~\xff.gguf": "", "..x/..y.gguf": "", long + ".gguf": "",
	})
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo.gguf"), 0o666); err != nil {
		t.Fatal(err)
	}
	l := open(t, dir)
	expect(t, "folder", names(l, dir),
		"a = a.gguf", "b = b.safetensors", "link = link.gguf",
		"same.gguf = same.gguf", "same.safetensors = same.safetensors", "same.gguf.safetensors = same.gguf.safetensors",
		"dir.gguf = dir.gguf", "dir/inner = dir/inner.gguf",
		"set = set-00001-of-00003.gguf", "part = part-00002-of-00002.gguf", "one.gguf = one.gguf", "one-00001-of-00002.gguf = one-00001-of-00002.gguf",
		"hf = hf", "index = index", "shards = shards", "pipe/unet = pipe/unet", "loras/style = loras/style.safetensors",
		"1/2/3/4/5/6/7/8 = 1/2/3/4/5/6/7/8.gguf", "1/2/3/4/5/6/7/m = 1/2/3/4/5/6/7/m",
		"%2Ehidden = .hidden.gguf", "%2E = .gguf", "bad%1B[31m%0A%3A%25%7E%FF = bad\x1b[31m\n:%~\xff.gguf", "%2E.x/%2E.y = ..x/..y.gguf",
		l.Now().Models[slices.IndexFunc(l.Now().Models, func(m *library.Model) bool { return strings.HasPrefix(m.Name, "xxx") })].Name+" = "+long+".gguf",
	)
	if w := l.Now().Warnings; len(w) != 0 {
		t.Errorf("warnings %q", w)
	}
	for _, m := range l.Now().Models {
		if m.Call != m.Path() || m.Root != dir {
			t.Errorf("%s is called %s below %s", m.Name, m.Call, m.Root)
		}
		for part := range strings.SplitSeq(m.Name, "/") {
			if len(part) > 255 || part == "" || part[0] == '.' {
				t.Errorf("part %q", part)
			}
		}
	}
}

// TestSingle holds which folders are models, and not libraries.
func TestSingle(t *testing.T) {
	for _, x := range []struct {
		files string
		want  bool
	}{
		{"a.gguf", true},
		{"a.gguf mmproj-a.gguf", true},
		{"a-00001-of-00002.gguf a-00002-of-00002.gguf", true},
		{"config.json model.safetensors", true},
		{"config.json", true},
		{"model.safetensors", true},
		{"model.safetensors.index.json", true},
		{"snapshots/x refs/main", true},
		{"a.gguf docs/README.md", true},
		{"a.gguf b.gguf", false},
		{"sub/a.gguf", false},
		{"a.gguf sub/b.gguf", false},
		{"a.gguf mmproj-a.gguf deep/er/style.safetensors", false},
		{"a-00001-of-00002.gguf a-00002-of-00002.gguf sub/config.json sub/model.safetensors", false},
		{"config.json model.safetensors original/consolidated.safetensors", true},
		{"style.safetensors other.safetensors", false},
		{"a.gguf style.safetensors", false},
		{"", false},
		{"notes.txt", false},
	} {
		files := map[string]string{}
		for f := range strings.FieldsSeq(x.files) {
			files[f] = ""
		}
		if got := library.Single(tempFiles(t, files), library.Options{}); got != x.want {
			t.Errorf("%q: %v", x.files, got)
		}
	}
	if library.Single("/nonexistent", library.Options{}) {
		t.Error("what is not there is a model")
	}
}

// TestOllama holds the names of models in stores.
func TestOllama(t *testing.T) {
	const r = "manifests/registry.ollama.ai/"
	files := map[string]string{
		"blobs/":                  "",
		r + "library/llama3.2/3b": "", r + "library/llama3.2/latest": "", r + "mike/x/latest": "", r + "mike/y/q4": "",
		// a model of the library and a namespace share a directory, and tag and model may collide
		r + "library/mike/latest": "", r + "library/mike/x": "",
		"manifests/hf.co/user/repo/Q4_K_M": "", "manifests/localhost:5000/a/b/c": "",
		// a host that is also a model of the library
		r + "library/hf.co/user": "",
		// what Ollama does not list
		r + "library/llama3.2/.bad": "", r + "library/llama3.2/sub/tag": "", r + "library/file": "", r + "..x/y/z": "", "manifests/top": "",
		r + "library/linked/latest": "->../llama3.2/3b", r + "library/dir": "->llama3.2",
	}
	dir := tempFiles(t, files)
	t.Setenv("OLLAMA_MODELS", dir)
	l := open(t, "ollama:")
	expect(t, "ollama", names(l, filepath.Join(dir, "manifests")),
		"llama3.2/3b = registry.ollama.ai/library/llama3.2/3b", "llama3.2/latest = registry.ollama.ai/library/llama3.2/latest",
		"mike/latest = registry.ollama.ai/library/mike/latest", "mike/x = registry.ollama.ai/library/mike/x",
		"registry.ollama.ai/mike/x/latest = registry.ollama.ai/mike/x/latest", "mike/y/q4 = registry.ollama.ai/mike/y/q4",
		"hf.co/user/repo/Q4_K_M = hf.co/user/repo/Q4_K_M", "registry.ollama.ai/library/hf.co/user = registry.ollama.ai/library/hf.co/user",
		"localhost%3A5000/a/b/c = localhost:5000/a/b/c", "linked/latest = registry.ollama.ai/library/linked/latest",
	)
	for _, m := range l.Now().Models {
		if m.Name == "llama3.2/3b" && m.Call != "ollama:llama3.2:3b" {
			t.Errorf("it is called %s", m.Call)
		}
	}
	// As a folder it is the same store, and its models are named by their paths.
	t.Setenv("OLLAMA_MODELS", "/nonexistent")
	if _, err := library.Open("ollama:", library.Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no store: %v", err)
	}
	m := open(t, dir).Now().Models
	if len(m) != 10 || m[0].Call != m[0].Path() {
		t.Errorf("%d models, the first is called %s", len(m), m[0].Call)
	}
}

// TestOllamaStores holds that the first of two stores counts.
func TestOllamaStores(t *testing.T) {
	const r = ".ollama/models/manifests/registry.ollama.ai/library/"
	home := tempFiles(t, map[string]string{r + "a/latest": "", ".ollama/models/blobs/": ""})
	t.Setenv("OLLAMA_MODELS", "")
	t.Setenv("HOME", home)
	for _, m := range open(t, "ollama:").Now().Models {
		if m.Name == "a/latest" && m.Root != filepath.Join(home, ".ollama/models") {
			t.Errorf("it is in %s", m.Root)
		}
	}
}

const (
	commit1 = "0123456789abcdef0123456789abcdef01234567"
	commit2 = "fedcba9876543210fedcba9876543210fedcba98"
	commit3 = "aaaabbbbccccddddeeeeffff0000111122223333"
)

// TestHub holds the names of models in a cache of the hub.
func TestHub(t *testing.T) {
	const o = "models--org--"
	files := map[string]string{
		o + "main/refs/main": commit1 + "\n", o + "main/refs/v1.0": commit1, o + "main/refs/refs/pr/1": commit2, o + "main/refs/gone": commit3[1:], o + "main/refs/bad": "../../x",
		o + "only/refs/x": "nothing", o + "many/refs/main": commit3,
		"models--gpt2/refs/main": commit1, "datasets--org--d/snapshots/c/model.safetensors": "",
		"models--gpt2--sub/refs/main": commit2, "models--text--only/refs/main": commit1, "models--text--only/snapshots/" + commit1 + "/config.json": "",
		o + "none/refs/main": commit1, "version.txt": "1", "models--": "", "models--a--..": "->../models--gpt2", "linked": "->models--gpt2",
	}
	for _, repo := range []string{o + "main/snapshots/" + commit1, o + "main/snapshots/" + commit2, o + "main/snapshots/" + commit3, o + "only/snapshots/" + commit2, o + "many/snapshots/" + commit1, o + "many/snapshots/" + commit2,
		"models--gpt2/snapshots/" + commit1, "models--gpt2--sub/snapshots/" + commit2} {
		files[repo+"/config.json"], files[repo+"/model.safetensors"] = "", ""
	}
	one, several := "models--x--gguf/snapshots/"+commit1, "models--y--gguf/snapshots/"+commit1
	files[one+"/m-Q4_K_M.gguf"], files[one+"/mmproj.gguf"], files[one+"/README.md"] = "", "", ""
	files["models--y--gguf/blobs/1"] = ""
	files[several+"/m-Q4_K_M.gguf"], files[several+"/m-Q8_0.gguf"], files[several+"/gone.gguf"] = "->../../blobs/1", "", "->../../blobs/none"
	files[several+"/F16/m-00001-of-00002.gguf"], files[several+"/F16/m-00002-of-00002.gguf"] = "", ""
	files["models--z--pipe/snapshots/"+commit1+"/unet/config.json"], files["models--z--pipe/snapshots/"+commit1+"/unet/diffusion_pytorch_model.safetensors"] = "", ""
	cache := tempFiles(t, files)
	t.Setenv("HF_HUB_CACHE", cache)
	l := open(t, "hf:")
	s := func(folder, commit string) string { return " = models--" + folder + "/snapshots/" + commit }
	expect(t, "hf", names(l, cache),
		"org/main"+s("org--main", commit1), "org/main@v1.0"+s("org--main", commit1), "org/main@refs%2Fpr%2F1"+s("org--main", commit2), "org/main@aaaabbbbcccc"+s("org--main", commit3),
		"org/only"+s("org--only", commit2), "org/many@0123456789ab"+s("org--many", commit1), "org/many@fedcba987654"+s("org--many", commit2),
		"gpt2@0123456789ab"+s("gpt2", commit1), "gpt2/sub"+s("gpt2--sub", commit2),
		"x/gguf"+s("x--gguf", commit1)+"/m-Q4_K_M.gguf", "y/gguf/m-Q4_K_M"+s("y--gguf", commit1)+"/m-Q4_K_M.gguf", "y/gguf/m-Q8_0"+s("y--gguf", commit1)+"/m-Q8_0.gguf",
		"y/gguf/F16/m"+s("y--gguf", commit1)+"/F16/m-00001-of-00002.gguf", "z/pipe/unet"+s("z--pipe", commit1)+"/unet",
	)
	calls := map[string]string{"org/main": "hf:org/main", "org/main@refs%2Fpr%2F1": "hf:org/main@refs/pr/1", "y/gguf/m-Q8_0": "hf:y/gguf/m-Q8_0.gguf", "z/pipe/unet": "hf:z/pipe/unet"}
	for _, m := range l.Now().Models {
		if want := calls[m.Name]; want != "" && m.Call != want {
			t.Errorf("%s is called %s, want %s", m.Name, m.Call, want)
		}
	}
	if got := len(open(t, cache).Now().Models); got != len(l.Now().Models) {
		t.Errorf("as a folder it has %d models", got)
	}
	t.Setenv("HF_HUB_CACHE", "/nonexistent")
	if _, err := library.Open("hf:", library.Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no cache: %v", err)
	}
}

// TestManyModels holds that a folder with too many models is still a library, and
// that looking through it costs what so many names cost.
func TestManyModels(t *testing.T) {
	files := map[string]string{}
	for i := range 10_001 {
		files[fmt.Sprintf("d%d/m%05d.gguf", i%10, i)] = ""
	}
	dir := tempFiles(t, files)
	var l *library.Library
	testlimit.Work(t, 400, func() { l = open(t, dir) })
	if list := l.Now(); len(list.Models) != 10_000 || len(list.Warnings) != 1 || !strings.Contains(list.Warnings[0], "more than 10000 models; the rest is left out") {
		t.Errorf("%d models, warnings %q", len(list.Models), list.Warnings)
	}
	if err := os.Remove(filepath.Join(dir, "d0/m00000.gguf")); err != nil {
		t.Fatal(err)
	}
	if list := l.Now(); len(list.Models) != 10_000 || len(list.Warnings) != 0 {
		t.Errorf("after one is gone: %d models, warnings %q", len(list.Models), list.Warnings)
	}
}

// TestChanges holds that what comes and goes is found, and that nothing is looked
// through again where nothing has.
func TestChanges(t *testing.T) {
	dir := tempFiles(t, map[string]string{"a.gguf": "1", "sub/b.gguf": "1", "set-00001-of-00002.gguf": "1", "set-00002-of-00002.gguf": "1", "hf/config.json": "{}", "hf/model.safetensors": "1", "late.gguf": "->arrives"})
	old := time.Now().Add(-time.Hour)
	settle := func() {
		t.Helper()
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if d.Type()&fs.ModeSymlink == 0 {
				err = errors.Join(err, os.Chtimes(path, old, old))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	settle()
	l := open(t, dir)
	has := func(name string) *library.Model {
		for _, m := range l.Now().Models {
			if m.Name == name {
				return m
			}
		}
		return nil
	}
	if has("late") != nil {
		t.Error("a link to nothing is a model")
	}
	put(t, filepath.Join(dir, "arrives"), "", false)
	if has("late") == nil {
		t.Error("a link to a file is no model")
	}
	settle()
	if first := l.Now(); l.Now() != first {
		t.Error("it was looked through again, although nothing changed")
	}
	put(t, filepath.Join(dir, "sub/c.gguf"), "", false)
	if has("sub/c") == nil {
		t.Error("a new model was not found")
	}
	put(t, filepath.Join(dir, "new/d.gguf"), "", false)
	if has("new/d") == nil {
		t.Error("a new directory was not found")
	}
	if err := os.RemoveAll(filepath.Join(dir, "sub")); err != nil {
		t.Fatal(err)
	}
	if has("sub/b") != nil {
		t.Error("a model that was removed is still there")
	}

	identity := func(name string) string {
		t.Helper()
		id, modified, err := has(name).Identity()
		if err != nil || modified.IsZero() {
			t.Fatalf("%s: %v, %v", name, modified, err)
		}
		return id
	}
	for _, x := range []struct {
		model string
		what  string
		do    func() error
	}{
		{"a", "written to", func() error { return os.WriteFile(filepath.Join(dir, "a.gguf"), []byte("2"), 0o666) }},
		{"a", "replaced with the same times", func() error {
			put(t, filepath.Join(dir, "x"), "3", false)
			return errors.Join(os.Chtimes(filepath.Join(dir, "x"), old, old), os.Chtimes(filepath.Join(dir, "a.gguf"), old, old), os.Rename(filepath.Join(dir, "x"), filepath.Join(dir, "a.gguf")))
		}},
		{"set", "a shard written to", func() error { return os.WriteFile(filepath.Join(dir, "set-00002-of-00002.gguf"), []byte("22"), 0o666) }},
		{"hf", "a file added", func() error { return os.WriteFile(filepath.Join(dir, "hf/tokenizer.json"), nil, 0o666) }},
		{"hf", "its config written to", func() error { return os.WriteFile(filepath.Join(dir, "hf/config.json"), []byte("{ }"), 0o666) }},
		{"hf", "a link to nothing added", func() error { return os.Symlink("none", filepath.Join(dir, "hf/y.json")) }},
	} {
		before := identity(x.model)
		if again := identity(x.model); again != before {
			t.Errorf("%s: another identity without a change", x.model)
		}
		if err := x.do(); err != nil {
			t.Fatal(err)
		}
		if identity(x.model) == before {
			t.Errorf("%s, %s: the same identity", x.model, x.what)
		}
	}
	a := has("a")
	if err := os.Remove(filepath.Join(dir, "a.gguf")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := a.Identity(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a model that is gone: %v", err)
	}
}

// TestManifestIdentity holds that a manifest that is written again is the same
// model, and another one another.
func TestManifestIdentity(t *testing.T) {
	dir := tempFiles(t, map[string]string{"blobs/": "", "manifests/h/n/m/t": "{}"})
	file := filepath.Join(dir, "manifests/h/n/m/t")
	m := open(t, dir).Now().Models[0]
	identity := func() string {
		t.Helper()
		id, _, err := m.Identity()
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	before := identity()
	if err := os.Chtimes(file, time.Time{}, time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	if identity() != before {
		t.Error("a touched manifest is another model")
	}
	put(t, file, "[]", false)
	if identity() == before {
		t.Error("another manifest is the same model")
	}
	if err := errors.Join(os.Remove(file), syscall.Mkfifo(file, 0o666)); err != nil {
		t.Fatal(err)
	}
	testlimit.Return("identity of a FIFO", func() { identity() })
}

// TestRefs holds that a ref that moves is found, although its directory does not change.
func TestRefs(t *testing.T) {
	cache := tempFiles(t, map[string]string{
		"models--o--n/refs/main": commit1, "models--o--n/snapshots/" + commit1 + "/model.safetensors": "", "models--o--n/snapshots/" + commit2 + "/model.safetensors": "",
	})
	t.Setenv("HF_HUB_CACHE", cache)
	l := open(t, "hf:")
	expect(t, "before", names(l, cache), "o/n = models--o--n/snapshots/"+commit1, "o/n@fedcba987654 = models--o--n/snapshots/"+commit2)
	put(t, filepath.Join(cache, "models--o--n/refs/main"), commit2, false)
	expect(t, "after", names(l, cache), "o/n = models--o--n/snapshots/"+commit2, "o/n@0123456789ab = models--o--n/snapshots/"+commit1)
}

// TestStores lists the stores of the tests.
func TestStores(t *testing.T) {
	dir, err := filepath.Abs("../../testdata/ollama/models")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("OLLAMA_MODELS", dir)
	var got []string
	for _, m := range open(t, "ollama:").Now().Models {
		got = append(got, m.Name+" "+m.Call)
	}
	expect(t, "testdata", got,
		"hf.co/Acme-Org/Tiny.Model-GGUF/F16 ollama:hf.co/Acme-Org/Tiny.Model-GGUF:F16", "tiny/bf16 ollama:tiny:bf16", "tiny/feb ollama:tiny:feb", "tiny/int4 ollama:tiny:int4",
		"tiny/int4-nometa ollama:tiny:int4-nometa", "tiny/jan ollama:tiny:jan", "tiny/mixed ollama:tiny:mixed", "tiny/mxfp8 ollama:tiny:mxfp8", "tiny/nvfp4 ollama:tiny:nvfp4",
		"tinyllama/latest ollama:tinyllama:latest", "tinyllama/vl ollama:tinyllama:vl")
}

func TestNoLibrary(t *testing.T) {
	dir := tempFiles(t, map[string]string{"file": ""})
	for name, want := range map[string]string{filepath.Join(dir, "none"): "no such file", filepath.Join(dir, "file"): "it is not a directory; name a folder with models, ollama: or hf:"} {
		if _, err := library.Open(name, library.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if l := open(t, dir); len(l.Now().Models) != 0 {
		t.Error("a folder without models has some")
	}
}
