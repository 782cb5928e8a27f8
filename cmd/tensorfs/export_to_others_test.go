package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/hub"
	"github.com/tensorfs/tensorfs/internal/stores"
	"github.com/tensorfs/tensorfs/internal/testing/testclient"
	"github.com/tensorfs/tensorfs/internal/testing/testhub"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
)

const wholeHF = "../../testdata/whole-hf/models/"

// unpackedModel returns the path of a golden GGUF file.
func unpackedModel(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name+".gguf")
	if err := os.WriteFile(path, testclient.Unpack(t, wholeHF+name+".gguf.gz"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// LM Studio has the file two levels down, under a name that contains its type, and the tower next
// to it.
func TestToLMStudio(t *testing.T) {
	apart(t)
	models := filepath.Join(os.Getenv("HOME"), ".lmstudio/models")
	vl := "../../testdata/architectures/gemma3-vl"
	for _, test := range []struct {
		args []string
		want string
		from string
	}{
		{[]string{"--to-lmstudio", "local/m", q8}, "local/m/llama-xs.q8_0.gguf", "gguf/model.gguf"},
		{[]string{"--to-lmstudio=acme/vl", "--gguf-type", "q8_0", vl}, "acme/vl/vl-Q8_0.gguf", "gguf/model.gguf"},
		{[]string{"--to-lmstudio=acme/vl2", vl}, "acme/vl2/mmproj-vl2.gguf", "gguf/mmproj.gguf"},
		{[]string{"--to-lmstudio", "lmstudio:acme/x", q8}, "acme/x/llama-xs.q8_0.gguf", "gguf/model.gguf"},
		// The name is left out, or --as has it.
		{[]string{"--to-lmstudio", vl}, "local/gemma3-vl/mmproj-gemma3-vl.gguf", "gguf/mmproj.gguf"},
		{[]string{"--to-lmstudio", "--as", "acme/y", q8}, "acme/y/llama-xs.q8_0.gguf", "gguf/model.gguf"},
		{[]string{"--to-lmstudio", "--as=acme/z", q8}, "acme/z/llama-xs.q8_0.gguf", "gguf/model.gguf"},
		{[]string{"--as", "acme/w", "--to-lmstudio", q8}, "acme/w/llama-xs.q8_0.gguf", "gguf/model.gguf"},
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
	// mlx/ with the word, or with the flags about its types.
	const dense = "../../testdata/whole-gguf/llama3"
	for _, x := range []struct{ args, flags []string }{{[]string{"local/mlx", dense, "mlx"}, nil}, {[]string{"local/mlx4", dense}, []string{"--mlx-bits", "4"}}} {
		args := append(x.args, x.flags...)
		r := exportedTo(t, append([]string{"--to-lmstudio"}, args...)...)
		if last := r.Files[len(r.Files)-1]; filepath.Base(last.Path) != "config.json" {
			t.Errorf("%q: the last file is %s", args, last.Path)
		}
		for _, name := range []string{"config.json", "model.safetensors", "tokenizer.json"} {
			want := succeeds(t, append([]string{"cat", dense, "mlx/" + name}, x.flags...)...)
			if b, err := os.ReadFile(filepath.Join(models, args[0], name)); err != nil || string(b) != want {
				t.Errorf("%q: %s: %d bytes, %v", args, name, len(b), err)
			}
		}
	}
	failsWith(t, 2, []string{"export", "--to-lmstudio", "local/x", dense, "--mlx-bits", "4", "--gguf-type", "q8_0"}, "writes gguf/ or mlx/")
	failsWith(t, 2, []string{"export", "--to-lmstudio", "local/x", dense, "mlx", "--gguf-type", "q8_0"}, "leave --gguf-type out")
	failsWith(t, 2, []string{"export", "--to-ollama", "x", dense, "mlx"}, "takes a name and a model, and nothing else")
	tidy(t, models)
	if r := exportedTo(t, "--to-lmstudio", "local/m", q8); r.Files[0].How != stores.There {
		t.Errorf("%+v", r)
	}
	other := filepath.Join(t.TempDir(), "llama-xs.q8_0.gguf")
	b, err := os.ReadFile("../../testdata/gguf/llama-xs.f16.gguf")
	must(t, err)
	must(t, os.WriteFile(other, b, 0o600))
	failsWith(t, 1, []string{"export", "--to-lmstudio", "local/m", other}, "exists already, with other bytes", "--force")
	exportedTo(t, "--force", "--to-lmstudio", "local/m", other)
	// Its settings may name another folder.
	other = t.TempDir()
	must(t, os.WriteFile(filepath.Join(models, "../settings.json"), fmt.Appendf(nil, `{"downloadsFolder":%q}`, other), 0o600))
	if r := exportedTo(t, "--to-lmstudio", "local/m", q8); r.Store != other {
		t.Errorf("%+v", r)
	}
}

// A model in the Hugging Face cache is hf/ of it, under a commit that follows from its files.
func TestToHFCache(t *testing.T) {
	apart(t)
	cache := filepath.Join(os.Getenv("HOME"), ".cache/huggingface/hub")
	model := unpackedModel(t, "qwen2.q4_0")
	r := exportedTo(t, "--to-hf-cache", "acme/tiny", model)
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
	failsWith(t, 1, []string{"export", "--to-hf-cache", "acme/tiny", q8}, "exists already", commit, "--force")
	must(t, os.WriteFile(filepath.Join(folder, "blobs", lines[0][:64]), []byte("other"), 0o644))
	if again := exportedTo(t, "--force", "--to-hf-cache", "acme/tiny", model); again.Path != r.Path {
		t.Errorf("%+v", again)
	}
	succeeds(t, "verify", "hf:acme/tiny")
	other := exportedTo(t, "--force", "--to-hf-cache", "acme/tiny", "../../testdata/whole-gguf/qwen3")
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
	succeeds(t, "export", "--to-hf-cache", "acme/tiny", hub.Prefix+"acme/tiny")
	snapshot := filepath.Join(os.Getenv("HOME"), ".cache/huggingface/hub/models--acme--tiny/snapshots", commit)
	for name, want := range files {
		if got, err := os.ReadFile(filepath.Join(snapshot, name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
	h.Commit("acme/gguf", map[string][]byte{"m.gguf": testclient.Unpack(t, wholeHF+"qwen2.q4_0.gguf.gz")})
	failsWith(t, 1, []string{"export", "--to-hf-cache", "acme/gguf", "hf:acme/gguf"}, "it has GGUF files", "choose another ORG/NAME")
	ollamaStoreOf(t, false)
	if r := exportedTo(t, "--to-ollama", "remote", "hf:acme/gguf"); r.Files[0].How != stores.Written || r.Unverified != nil {
		t.Errorf("%+v", r)
	}
	succeeds(t, "verify", "ollama:remote")
	if r := exportedTo(t, "--to-hf-cache", "acme/made", "hf:acme/gguf"); r.Name != "hf:acme/made" || r.Unverified != nil {
		t.Errorf("%+v", r)
	}
}

// Wrong bytes from a server never become a model of another program, however small the
// cache is.
func TestToStoresVerified(t *testing.T) {
	good := testmodel.GGUF{Meta: []tensorfs.Meta{{Key: "general.architecture", Value: "llama"}},
		Tensors: []testmodel.GGUFTensor{{Name: "token_embd.weight", Type: 1, Shape: []int64{9 << 10, 1 << 10}, Data: make([]byte, 18<<20)}}}.Bytes()
	wrong := slices.Clone(good)
	wrong[len(wrong)-1] ^= 1
	for _, flags := range [][]string{nil, {"--cache-size", "2M"}, {"--cache-size", "0"}} {
		apart(t)
		store := ollamaStoreOf(t, false)
		h := testhub.NewHub(t)
		t.Setenv("HF_ENDPOINT", h.URL)
		h.Commit("acme/m", map[string][]byte{"m.gguf": good})
		h.Break(func(w http.ResponseWriter, r *http.Request, data bool) bool {
			if data {
				http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(wrong))
			}
			return data
		})
		args := append([]string{"--to-ollama", "m", "hf:acme/m"}, flags...)
		failsWith(t, 1, append([]string{"export"}, args...), "the bytes that came have the digest ")
		for _, below := range []string{"blobs/*", "manifests/*/*/*/*", ".tensorfs*"} {
			if list, err := filepath.Glob(filepath.Join(store, below)); err != nil || len(list) > 0 {
				t.Errorf("%q: %q, %v", flags, list, err)
			}
		}
		h.Break(nil)
		r := exportedTo(t, args...)
		if b, err := os.ReadFile(r.Files[0].Path); err != nil || !bytes.Equal(b, good) || r.Unverified != nil {
			t.Errorf("%q: %d bytes, %v, %+v", flags, len(b), err, r)
		}
	}
}
