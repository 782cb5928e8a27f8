package main

import (
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
	"github.com/tensorfs/tensorfs/internal/stores"
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

// A model in Ollama's store equals the output of 'ollama create' of Ollama 0.17.4 for the same GGUF files, or the same Ollama model.
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

// An existing name is refused, in any case of its letters; with --force the model is replaced.
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
	// A blob whose bytes do not match its name is not a blob.
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

// TestToStoresUsage holds exit codes and the one line with the reason.
func TestToStoresUsage(t *testing.T) {
	apart(t)
	ollamaStoreOf(t, false)
	dir := t.TempDir()
	for _, test := range []struct {
		args string
		code int
		want string
	}{
		{"--to-ollama a --to-hf-cache b/c MODEL", 2, "--to-ollama and --to-hf-cache exclude each other"},
		{"--to-ollama a MODEL DIR raw", 2, "usage: tensorfs export --to-ollama NAME[:TAG] MODEL"},
		{"--to-ollama MODEL", 2, "takes a name and the model: tensorfs export --to-ollama NAME[:TAG] MODEL"},
		{"--to-lmstudio a/b", 2, "tensorfs export --to-lmstudio PUBLISHER/NAME MODEL"},
		{"--to-hf-cache MODEL", 2, "tensorfs export --to-hf-cache ORG/NAME MODEL"},
		{"--to-ollama MODEL mine", 2, "did you mean tensorfs export --to-ollama mine MODEL?"},
		{"--to-ollama a:b:c MODEL", 2, "--to-ollama: "},
		{"--to-ollama ../x MODEL", 2, "--to-ollama: "},
		{"--to-hf-cache --as=b MODEL", 2, "want ORG/NAME"},
		{"--to-hf-cache --as", 2, "takes a name and the model"},
		{"--to-hf-cache --as b/c", 2, "takes a name and the model"},
		{"--to-ollama a --as b/c MODEL", 2, "--to-ollama a and --as both name the model"},
		{"--as b/c MODEL DIR raw", 2, "--as names a model for another program"},
		{"--copy MODEL DIR raw", 2, "--copy is for models that other programs get"},
		{"--to-hf-cache name MODEL", 2, "want ORG/NAME"},
		{"--to-hf-cache a/b/c MODEL", 2, "want ORG/NAME"},
		{"--to-hf-cache ../b MODEL", 1, "it is not a name that the Hub may have"},
		{"--to-hf-cache a/b --dequantise hf:a/b", 2, "choose another ORG/NAME"},
		{"--to-lmstudio x MODEL", 2, "want PUBLISHER/NAME"},
		{"--to-lmstudio=../x MODEL", 1, "write it as PUBLISHER/NAME"},
		{"MODEL DIR", 2, "too few arguments; usage: tensorfs export"},
		{"MODEL", 2, "too few arguments"},
		{"--to-ollama a ../../testdata/ggml/big_endian.gguf", 1, "gguf/ has no files: the model is big-endian"},
		{"--to-hf-cache a/b ../../testdata/ggml/big_endian.gguf", 1, "hf/ has no files: "},
		{"--to-ollama a DIR/none.gguf", 1, "no such file"},
	} {
		args := append([]string{"export"}, strings.Fields(strings.NewReplacer("MODEL", q8, "DIR", dir).Replace(test.args))...)
		want := test.want
		if strings.HasSuffix(want, "mine MODEL?") {
			want = strings.ReplaceAll(want, "MODEL", q8)
		}
		failsWith(t, test.code, args, want)
	}
	must(t, os.Mkdir(os.Getenv("OLLAMA_MODELS"), 0o700))
	o := &exportOptions{free: func(string) (int64, error) { return 1000, nil }, to: exportTo{ollama: "a", copy: true}}
	if err := o.run(silent(t), []string{q8}); err == nil || !strings.Contains(err.Error(), "but only 1000 bytes") {
		t.Error(err)
	}
	if list, err := os.ReadDir(os.Getenv("OLLAMA_MODELS")); err != nil || len(list) > 0 { // a refused export leaves nothing
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

// Concurrent commands write complete models: with the same name one, with different names all.
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
			c := exec.Command(os.Args[0], "export", "--to-ollama", name, "--gguf-type", "q8_0", "../../testdata/whole-gguf/qwen2")
			var stderr strings.Builder
			c.Stderr = &stderr
			if c.Run() != nil {
				mu.Lock()
				defer mu.Unlock()
				failed = append(failed, name+": "+stderr.String())
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
