package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/hub"
	"github.com/tensorfs/tensorfs/internal/stores"
	"github.com/tensorfs/tensorfs/internal/testing/testclient"
	"github.com/tensorfs/tensorfs/internal/testing/testhub"
	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
)

// exportedTo runs an export to a store that succeeds in silence.
func exportedTo(t *testing.T, args ...string) (r exportToReport) {
	t.Helper()
	out := succeeds(t, append([]string{"export", "--json"}, args...)...)
	must(t, json.Unmarshal([]byte(out), &r))
	return r
}

// ollamaManifest is what tests read of one.
type ollamaManifest struct {
	Config ollamaLayer
	Layers []ollamaLayer
}

type ollamaLayer struct {
	MediaType, Digest string
	Size              int64
}

// blob returns the path of a layer's blob in the store, which has its size and digest, a
// mode in which Ollama's service can read it, and no directory of ours above it.
func (l ollamaLayer) blob(t *testing.T, store string) string {
	t.Helper()
	path := filepath.Join(store, "blobs", strings.Replace(l.Digest, ":", "-", 1))
	b, err := os.ReadFile(path)
	must(t, err)
	sum := sha256.Sum256(b)
	if st, err := os.Stat(path); err != nil || st.Mode() != 0o644 || st.Size() != l.Size || "sha256:"+hex.EncodeToString(sum[:]) != l.Digest {
		t.Errorf("%s: %v, %v, it has the digest %x", path, st, err, sum)
	}
	return path
}

// normalised replaces in a manifest and its config what differs from store to store and
// with each improvement of gguf/: see testdata/ollama/created.tsv.
func normalised(t *testing.T, store, path string) (manifest, config string) {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	var m ollamaManifest
	must(t, json.Unmarshal(text, &m))
	b, err := os.ReadFile(m.Config.blob(t, store))
	must(t, err)
	manifest, config = string(text), string(b)
	forget := func(l ollamaLayer, name string) {
		manifest = strings.ReplaceAll(manifest, fmt.Sprintf(`"digest":%q,"size":%d`, l.Digest, l.Size), fmt.Sprintf(`"digest":%q,"size":0`, name))
		hex := strings.TrimPrefix(l.Digest, "sha256:")
		manifest, config = strings.ReplaceAll(manifest, hex, name), strings.ReplaceAll(config, l.Digest, name)
	}
	forget(m.Config, "CONFIG")
	n := 0
	for _, l := range m.Layers {
		l.blob(t, store)
		if regexp.MustCompile(`\.(model|projector|adapter)$`).MatchString(l.MediaType) {
			forget(l, fmt.Sprintf("WEIGHTS%d", n))
			n++
		}
	}
	return strings.ReplaceAll(manifest, store, "STORE"), config
}

// ollamaStoreOf is an empty store, or a copy of the golden one.
func ollamaStoreOf(t *testing.T, golden bool) string {
	t.Helper()
	store := filepath.Join(t.TempDir(), "models")
	if golden {
		must(t, os.CopyFS(store, os.DirFS("../../testdata/ollama/models")))
	}
	t.Setenv("OLLAMA_MODELS", store)
	return store
}

// tidy holds that nothing of ours is left in a directory.
func tidy(t *testing.T, dir string) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if strings.Contains(filepath.Base(path), ".tensorfs") {
			t.Errorf("%s is left", path)
		}
		return err
	}))
}

// A model in Ollama's store is what 'ollama create' of Ollama 0.17.4 made of the same GGUF
// files, or of the same Ollama model.
func TestToOllamaIsCreate(t *testing.T) {
	text, err := os.ReadFile("../../testdata/ollama/created.tsv")
	must(t, err)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) < 7 {
		t.Fatalf("%d lines", len(lines))
	}
	for _, line := range lines {
		f := strings.Split(line, "\t")
		t.Run(filepath.Base(f[0]), func(t *testing.T) {
			apart(t)
			model := f[0]
			store := ollamaStoreOf(t, strings.HasPrefix(model, "ollama:"))
			switch {
			case strings.HasSuffix(model, ".gguf"):
				model = unpackedModel(t, strings.TrimSuffix(filepath.Base(model), ".gguf"))
			case strings.HasPrefix(model, "testdata"):
				model = filepath.Join("../..", model)
			}
			r := exportedTo(t, "--to-ollama", "new:v1", model)
			manifest, config := normalised(t, store, r.Path)
			if manifest != f[1]+"\n" || config != f[2]+"\n" {
				t.Errorf("it is\n%s%swhere Ollama wrote\n%s\n%s", manifest, config, f[1], f[2])
			}
			if r.Name != "ollama:new:v1" || r.Store != store || r.Path != filepath.Join(store, "manifests/registry.ollama.ai/library/new/v1") {
				t.Errorf("%+v", r)
			}
			tidy(t, store)
			succeeds(t, "verify", "ollama:new:v1")
		})
	}
}

// A name that is there is refused, in any case of its letters; with --force the model is
// replaced where it is.
func TestToOllamaExists(t *testing.T) {
	apart(t)
	store := ollamaStoreOf(t, true)
	failsWith(t, 1, []string{"export", "--to-ollama", "TinyLlama", q8}, "the model tinyllama:latest exists already", "--force")
	before := exportedTo(t, "--to-ollama", "tinyllama:q8", q8)
	exportedTo(t, "--force", "--to-ollama", "TinyLlama:Latest", q8)
	var m ollamaManifest
	b, err := os.ReadFile(filepath.Join(store, "manifests/registry.ollama.ai/library/tinyllama/latest"))
	must(t, err)
	must(t, json.Unmarshal(b, &m))
	if m.Layers[0].Digest != before.Files[0].Digest {
		t.Errorf("%s", b)
	}
	// A blob with other bytes than its name says is no blob.
	must(t, os.WriteFile(before.Files[0].Path, []byte("other"), 0o644))
	failsWith(t, 1, []string{"export", "--to-ollama", "again", q8}, before.Files[0].Path, "exists already, with other bytes")
	if _, err := os.Stat(filepath.Join(store, "manifests/registry.ollama.ai/library/again")); !errors.Is(err, fs.ErrNotExist) {
		t.Error("Ollama would see the model: ", err)
	}
	exportedTo(t, "--force", "--to-ollama", "again", q8)
	succeeds(t, "verify", "ollama:again")
	tidy(t, store)
}

// What is quantised for Ollama is gguf/ of the same flags, and a second name takes no space.
func TestToOllamaFlags(t *testing.T) {
	apart(t)
	store := ollamaStoreOf(t, false)
	const model = "../../testdata/whole-gguf/qwen2"
	r := exportedTo(t, "--to-ollama", "small", "--gguf-type", "q8_0", model)
	want := succeeds(t, "cat", "--gguf-type", "q8_0", model, "gguf/model.gguf")
	if b, err := os.ReadFile(r.Files[0].Path); err != nil || string(b) != want || r.Files[0].How != stores.Written {
		t.Errorf("%d bytes, %v, %+v", len(b), err, r)
	}
	if r.Template != "chatml" {
		t.Errorf("its template is %q", r.Template)
	}
	again := exportedTo(t, "--to-ollama", "mike/small:2", "--gguf-type", "q8_0", model)
	if again.Files[0].How != stores.There || again.Files[0].Path != r.Files[0].Path || again.Path != filepath.Join(store, "manifests/registry.ollama.ai/mike/small/2") {
		t.Errorf("%+v", again)
	}
	if out := succeeds(t, "export", "--to-ollama", "x", q8); !regexp.MustCompile(`^ollama:x:latest in \S+: 1 file, \S+ KiB\n$`).MatchString(out) {
		t.Errorf("%q", out)
	}
	// The vision tower beside a model comes with it, but for --mmproj none.
	dir := t.TempDir()
	for name, path := range map[string]string{"m.gguf": "gguf/model.gguf", "mmproj-m.gguf": "gguf/mmproj.gguf"} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(succeeds(t, "cat", "../../testdata/architectures/gemma3-vl", path)), 0o600))
	}
	// One of another width is left out, but for --mmproj FILE.
	b, err := os.ReadFile(q8)
	must(t, err)
	must(t, os.Mkdir(filepath.Join(dir, "other"), 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "other/q8.gguf"), b, 0o600))
	must(t, os.Link(filepath.Join(dir, "mmproj-m.gguf"), filepath.Join(dir, "other/mmproj-m.gguf")))
	for _, test := range []struct {
		name, model, mmproj string
		files               int
		note                string
	}{
		{"auto", "m.gguf", "", 2, ""},
		{"none", "m.gguf", "none", 1, ""},
		{"other", "other/q8.gguf", "", 1, "without mmproj-m.gguf, whose width is not the model's"},
		{"forced", "other/q8.gguf", filepath.Join(dir, "mmproj-m.gguf"), 2, ""},
	} {
		args := []string{"--to-ollama", test.name, filepath.Join(dir, test.model)}
		if test.mmproj != "" {
			args = append(args, "--mmproj", test.mmproj)
		}
		if r := exportedTo(t, args...); len(r.Files) != test.files || !strings.HasPrefix(r.Note, test.note) || test.note == "" && r.Note != "" {
			t.Errorf("%s: %+v", test.name, r)
		}
	}
}

// TestToStoresUsage holds exit codes and the one line that says why.
func TestToStoresUsage(t *testing.T) {
	apart(t)
	ollamaStoreOf(t, false)
	dir := t.TempDir()
	for _, test := range []struct {
		args string
		code int
		want string
	}{
		{"--to-ollama a --to-hf-cache MODEL", 2, "--to-ollama and --to-hf-cache exclude each other"},
		{"--to-ollama a MODEL DIR raw", 2, "usage: tensorfs export --to-ollama NAME[:TAG] MODEL"},
		{"--to-ollama a:b:c MODEL", 2, "--to-ollama: "},
		{"--to-ollama ../x MODEL", 2, "--to-ollama: "},
		{"--to-ollama a --as b/c MODEL", 2, "--as names a model for --to-hf-cache or --to-lmstudio"},
		{"--as b/c MODEL DIR raw", 2, "--as names a model for"},
		{"--copy MODEL DIR raw", 2, "--copy is for models that other programs get"},
		{"--to-hf-cache MODEL", 2, "--to-hf-cache needs a name: --as ORG/NAME"},
		{"--to-hf-cache --as name MODEL", 2, "want ORG/NAME"},
		{"--to-hf-cache --as a/b/c MODEL", 2, "want ORG/NAME"},
		{"--to-hf-cache --as ../b MODEL", 1, "it is not a name that the Hub may have"},
		{"--to-hf-cache --dequantise hf:a/b", 2, "--as ORG/NAME"},
		{"--to-lmstudio=x MODEL", 2, "is not PUBLISHER/NAME"},
		{"--to-lmstudio=../x MODEL", 1, "write it as PUBLISHER/NAME"},
		{"--to-lmstudio=a/b --as c/d MODEL", 2, "both name the model"},
		{"--to-ollama a ../../testdata/ggml/big_endian.gguf", 1, "gguf/ has no files: the model is big-endian"},
		{"--to-hf-cache --as a/b ../../testdata/ggml/big_endian.gguf", 1, "hf/ has no files: "},
		{"--to-ollama a DIR/none.gguf", 1, "no such file"},
	} {
		args := append([]string{"export"}, strings.Fields(strings.NewReplacer("MODEL", q8, "DIR", dir).Replace(test.args))...)
		failsWith(t, test.code, args, test.want)
	}
	must(t, os.Mkdir(os.Getenv("OLLAMA_MODELS"), 0o700))
	o := &exportOptions{free: func(string) (int64, error) { return 1000, nil }, to: exportTo{ollama: "a", copy: true}}
	if err := o.run(silent(t), []string{q8}); err == nil || !strings.Contains(err.Error(), "but only 1000 bytes") {
		t.Error(err)
	}
	if list, err := os.ReadDir(filepath.Join(os.Getenv("OLLAMA_MODELS"), "blobs")); err != nil || len(list) > 0 {
		t.Errorf("%v, %v", list, err)
	}
}

// bigGGUF is a GGUF file with a tensor of n bytes, and its path.
func bigGGUF(t *testing.T, n int64) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "big.gguf")
	f := testmodel.GGUF{Meta: []tensorfs.Meta{{Key: "general.architecture", Value: "llama"}},
		Tensors: []testmodel.GGUFTensor{{Name: "token_embd.weight", Type: 1, Shape: []int64{n / 2048, 1024}, Data: make([]byte, n)}}}
	must(t, os.WriteFile(path, f.Bytes(), 0o600))
	return path
}

// TestToOllamaKilled kills the program while it writes: Ollama sees nothing, and the same
// command goes on.
func TestToOllamaKilled(t *testing.T) {
	apart(t)
	store := ollamaStoreOf(t, false)
	model := bigGGUF(t, 256<<20)
	args := []string{"export", "-j1", "--copy", "--to-ollama", "big", model}
	seen := func() int {
		list, err := filepath.Glob(filepath.Join(store, "manifests/*/*/*/*"))
		must(t, err)
		blobs, err := filepath.Glob(filepath.Join(store, "blobs/*"))
		must(t, err)
		return len(list) + len(blobs)
	}
	for attempt := 0; ; attempt++ {
		c := exec.Command(os.Args[0], args...)
		c.Env = append(os.Environ(), asProgram+"=1")
		must(t, c.Start())
		testlimit.Wait(t, "stretch", func() bool {
			list, _ := filepath.Glob(filepath.Join(store, ".tensorfs-*/.tensorfs-export/log"))
			if len(list) == 0 {
				return seen() > 0
			}
			log, _ := os.ReadFile(list[0])
			return strings.Contains(string(log), `"stretch"`)
		})
		kerr := c.Process.Kill()
		err := c.Wait()
		if state, ok := errors.AsType[*exec.ExitError](err); ok && kerr == nil && state.Sys().(syscall.WaitStatus).Signaled() && seen() == 0 {
			break
		}
		if attempt == 10 {
			t.Fatal("it is too fast to be killed")
		}
		must(t, os.RemoveAll(store))
	}
	failsWith(t, 1, []string{"info", "ollama:big"}, "big")
	succeeds(t, args...)
	tidy(t, store)
	b, err := os.ReadFile(filepath.Join(store, "manifests/registry.ollama.ai/library/big/latest"))
	must(t, err)
	var m ollamaManifest
	must(t, json.Unmarshal(b, &m))
	m.Layers[0].blob(t, store)
}

// Commands at the same time write whole models: of one name one, of many names all.
func TestToOllamaAtOnce(t *testing.T) {
	apart(t)
	store := ollamaStoreOf(t, false)
	var calls sync.WaitGroup
	var mu sync.Mutex
	var failed []string
	for i := range 12 {
		calls.Go(func() {
			name := "same"
			if i%2 == 0 {
				name = fmt.Sprintf("own%d", i)
			}
			if code, _, stderr := command("export", "--to-ollama", name, "--gguf-type", "q8_0", "../../testdata/whole-gguf/qwen2"); code != 0 {
				mu.Lock()
				defer mu.Unlock()
				failed = append(failed, name+": "+stderr)
			}
		})
	}
	calls.Wait()
	if len(failed) > 5 || slices.ContainsFunc(failed, func(s string) bool {
		return !strings.HasPrefix(s, "same: ") || !strings.Contains(s, "another tensorfs exports") && !strings.Contains(s, "exists already")
	}) {
		t.Errorf("%q", failed)
	}
	for _, name := range []string{"same", "own0", "own2", "own4", "own6", "own8", "own10"} {
		succeeds(t, "verify", "ollama:"+name)
	}
	tidy(t, store)
}

// LM Studio has the file two levels down, under a name that says its type, and the tower
// beside it.
func TestToLMStudio(t *testing.T) {
	apart(t)
	models := filepath.Join(os.Getenv("HOME"), ".lmstudio/models")
	vl := "../../testdata/architectures/gemma3-vl"
	for _, test := range []struct {
		args []string
		want string
		from string
	}{
		{[]string{"--to-lmstudio", q8}, "local/llama-xs.q8_0/llama-xs.q8_0.gguf", "gguf/model.gguf"},
		{[]string{"--to-lmstudio=acme/vl", "--gguf-type", "q8_0", vl}, "acme/vl/vl-Q8_0.gguf", "gguf/model.gguf"},
		{[]string{"--to-lmstudio=acme/vl2", vl}, "acme/vl2/mmproj-vl2.gguf", "gguf/mmproj.gguf"},
		{[]string{"--to-lmstudio", "--as", "acme/x", q8}, "acme/x/llama-xs.q8_0.gguf", "gguf/model.gguf"},
	} {
		r := exportedTo(t, test.args...)
		_, flags, _ := strings.Cut(strings.Join(test.args[:len(test.args)-1], " "), "--gguf-type")
		cat := []string{"cat", test.args[len(test.args)-1], test.from}
		if flags != "" {
			cat = append(cat, "--gguf-type", strings.TrimSpace(flags))
		}
		if b, err := os.ReadFile(filepath.Join(models, test.want)); err != nil || string(b) != succeeds(t, cat...) {
			t.Errorf("%q: %d bytes, %v, %+v", test.args, len(b), err, r)
		}
	}
	tidy(t, models)
	for _, r := range [][2]string{{"hf:acme/tiny:Q4_K_M", "acme/tiny"}, {"ollama:gemma3", "ollama/gemma3"}, {"ollama:mike/x:4b", "mike/x-4b"}, {"/m/Qwen2.5-7B", "local/Qwen2.5-7B"}, {"/", "local/model"}} {
		if got := publisherOf(r[0]); got != r[1] {
			t.Errorf("%s is %s", r[0], got)
		}
	}
	if r := exportedTo(t, "--to-lmstudio", q8); r.Files[0].How != stores.There {
		t.Errorf("%+v", r)
	}
	other := filepath.Join(t.TempDir(), "llama-xs.q8_0.gguf")
	b, err := os.ReadFile("../../testdata/gguf/llama-xs.f16.gguf")
	must(t, err)
	must(t, os.WriteFile(other, b, 0o600))
	failsWith(t, 1, []string{"export", "--to-lmstudio", other}, "exists already, with other bytes", "--force")
	exportedTo(t, "--force", "--to-lmstudio", other)
	// Its settings may name another folder.
	other = t.TempDir()
	must(t, os.WriteFile(filepath.Join(models, "../settings.json"), fmt.Appendf(nil, `{"downloadsFolder":%q}`, other), 0o600))
	if r := exportedTo(t, "--to-lmstudio", q8); r.Store != other {
		t.Errorf("%+v", r)
	}
}

// A model in the Hugging Face cache is hf/ of it, under a commit that follows from its files.
func TestToHFCache(t *testing.T) {
	apart(t)
	cache := filepath.Join(os.Getenv("HOME"), ".cache/huggingface/hub")
	model := unpackedModel(t, "qwen2.q4_0")
	r := exportedTo(t, "--to-hf-cache", "--as", "acme/tiny", model)
	commit := filepath.Base(r.Path)
	var lines []string
	for _, path := range strings.Fields(succeeds(t, "ls", model, "hf/*")) {
		name := strings.TrimPrefix(path, "hf/")
		if name == "tensorfs.json" {
			continue
		}
		want := succeeds(t, "cat", model, path)
		sum := fmt.Sprintf("%x", sha256.Sum256([]byte(want)))
		lines = append(lines, sum+"  "+name+"\n")
		at := filepath.Join(r.Path, name)
		if to, err := os.Readlink(at); err != nil || to != "../../blobs/"+sum {
			t.Errorf("%s leads to %q, %v", name, to, err)
		}
		if b, err := os.ReadFile(at); err != nil || string(b) != want {
			t.Errorf("%s: %d bytes, %v", name, len(b), err)
		}
	}
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[64:], b[64:]) })
	if sum := fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(lines, "")))); commit != sum[:40] || len(lines) < 4 || len(r.Files) != len(lines) {
		t.Errorf("the commit is %s, not %s, of %q", commit, sum[:40], lines)
	}
	folder := filepath.Join(cache, "models--acme--tiny")
	if b, err := os.ReadFile(filepath.Join(folder, "refs/main")); err != nil || string(b) != commit || r.Path != filepath.Join(folder, "snapshots", commit) {
		t.Errorf("%q, %v, %+v", b, err, r)
	}
	tidy(t, cache)
	if out := succeeds(t, "info", "--offline", "hf:acme/tiny"); !strings.Contains(out, "qwen2") {
		t.Error(out)
	}
	failsWith(t, 1, []string{"export", "--to-hf-cache", "--as", "acme/tiny", q8}, "exists already", commit, "--force")
	must(t, os.WriteFile(filepath.Join(folder, "blobs", lines[0][:64]), []byte("other"), 0o644))
	if again := exportedTo(t, "--force", "--to-hf-cache", "--as", "acme/tiny", model); again.Path != r.Path {
		t.Errorf("%+v", again)
	}
	succeeds(t, "verify", "hf:acme/tiny")
	other := exportedTo(t, "--force", "--to-hf-cache", "--as", "acme/tiny", "../../testdata/whole-gguf/qwen3")
	if b, err := os.ReadFile(filepath.Join(folder, "refs/main")); err != nil || string(b) != filepath.Base(other.Path) || string(b) == commit {
		t.Errorf("%q, %v", b, err)
	}
}

// A repository of the Hub comes as it is, with its own commit.
func TestToHFCacheFromHub(t *testing.T) {
	apart(t)
	h := testhub.NewHub(t)
	t.Setenv("HF_ENDPOINT", h.URL)
	files := map[string][]byte{}
	const dir = "../../testdata/whole-gguf/qwen2"
	list, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range list {
		if e.Type().IsRegular() {
			files[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name()))
			must(t, err)
		}
	}
	commit := h.Commit("acme/tiny", files)
	succeeds(t, "export", "--to-hf-cache", hub.Prefix+"acme/tiny")
	snapshot := filepath.Join(os.Getenv("HOME"), ".cache/huggingface/hub/models--acme--tiny/snapshots", commit)
	for name, want := range files {
		if got, err := os.ReadFile(filepath.Join(snapshot, name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
	h.Commit("acme/gguf", map[string][]byte{"m.gguf": testclient.Unpack(t, wholeHF+"qwen2.q4_0.gguf.gz")})
	failsWith(t, 1, []string{"export", "--to-hf-cache", "hf:acme/gguf"}, "it has GGUF files", "--as ORG/NAME")
	ollamaStoreOf(t, false)
	if r := exportedTo(t, "--to-ollama", "remote", "hf:acme/gguf"); r.Files[0].How != stores.Written || r.Unverified != nil {
		t.Errorf("%+v", r)
	}
	succeeds(t, "verify", "ollama:remote")
	if r := exportedTo(t, "--to-hf-cache", "--as", "acme/made", "hf:acme/gguf"); r.Name != "hf:acme/made" || r.Unverified != nil {
		t.Errorf("%+v", r)
	}
}
