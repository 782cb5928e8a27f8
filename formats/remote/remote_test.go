package remote_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/remote"
	"github.com/tensorfs/tensorfs/internal/testing/testhub"
	"github.com/tensorfs/tensorfs/internal/testing/testweb"
)

const q8 = "../../testdata/gguf/llama-xs.q8_0.gguf"

// emptyEnvironment gives the process an empty environment and a new home directory, which it
// returns.
func emptyEnvironment(t *testing.T) string {
	t.Helper()
	home := t.TempDir()
	for name, value := range map[string]string{
		"HOME": home, "XDG_CACHE_HOME": "", "TENSORFS_CACHE": "", "TENSORFS_OFFLINE": "", "HF_HUB_OFFLINE": "", "TRANSFORMERS_OFFLINE": "",
		"HF_HOME": "", "HF_HUB_CACHE": "", "HF_TOKEN": "", "HF_TOKEN_PATH": "", "HF_ENDPOINT": "", "OLLAMA_MODELS": filepath.Join(home, "ollama"), "NETRC": "",
	} {
		t.Setenv(name, value)
	}
	return home
}

// hub returns a Hub with a model, and the content of its only file.
func hub(t *testing.T) (*testhub.Hub, []byte) {
	t.Helper()
	b, err := os.ReadFile(q8)
	if err != nil {
		t.Fatal(err)
	}
	h := testhub.NewHub(t)
	t.Setenv("HF_ENDPOINT", h.URL)
	h.Commit("acme/tiny", map[string][]byte{"tiny-Q8_0.gguf": b})
	return h, b
}

// reads holds that a model's tensors can be read and equal the tensors of q8.
func reads(t *testing.T, m *tensorfs.Model) {
	t.Helper()
	want, err := remote.Open(t.Context(), q8) // a path is a name, too
	if err != nil {
		t.Fatal(err)
	}
	defer want.Close()
	if len(m.Tensors) != len(want.Tensors) || len(m.Tensors) == 0 {
		t.Fatalf("%d tensors, want %d", len(m.Tensors), len(want.Tensors))
	}
	for i := range m.Tensors {
		a, b := &m.Tensors[i], &want.Tensors[i]
		got, wanted := make([]byte, a.Data.Size()), make([]byte, b.Data.Size())
		if err := errors.Join(tensorfs.ReadFull(a.Data, got, 0), tensorfs.ReadFull(b.Data, wanted, 0)); err != nil || a.Name != b.Name || !bytes.Equal(got, wanted) {
			t.Fatalf("%s: %v", a.Name, err)
		}
	}
}

// TestOpen opens a model of the Hub with the options of the command: it comes through
// the cache of the user, and once more without the Hub.
func TestOpen(t *testing.T) {
	home := emptyEnvironment(t)
	h, _ := hub(t)
	m, err := remote.Open(t.Context(), "hf:acme/tiny")
	if err != nil {
		t.Fatal(err)
	}
	reads(t, m)
	if m.Name != m.Path || !strings.HasPrefix(m.Name, "hf:acme/tiny@") {
		t.Errorf("it is called %q, at %q", m.Name, m.Path)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(home, ".cache/tensorfs/v1")); err != nil {
		t.Error(err)
	}
	h.Reset()
	for _, variable := range []string{"TENSORFS_OFFLINE", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"} {
		t.Setenv(variable, "yes")
		if m, err = remote.Open(t.Context(), "hf:acme/tiny"); err != nil {
			t.Fatal(err)
		}
		reads(t, m)
		if err := m.Close(); err != nil || len(h.Requests()) > 0 {
			t.Errorf("%d requests, %v", len(h.Requests()), err)
		}
		if _, err := remote.Open(t.Context(), "hf:acme/other"); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), variable+" forbids asking for it") {
			t.Errorf("%v, want that %s forbids it", err, variable)
		}
		t.Setenv(variable, "")
	}
}

// TestClient has one client open several models, and close while one is open.
func TestClient(t *testing.T) {
	home := emptyEnvironment(t)
	h, _ := hub(t)
	var hosts []string
	dir := filepath.Join(home, "elsewhere")
	c := remote.New(remote.Options{CacheDir: dir, Agent: "engine/1", Asks: func(host string) { hosts = append(hosts, host) }})
	if c.CacheDir() != "" {
		t.Errorf("a cache %s before anything was opened", c.CacheDir())
	}
	local, err := c.Open(t.Context(), q8)
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a model of this machine made the cache: %v", err)
	}
	first, err := c.Open(t.Context(), "hf:acme/tiny")
	if err != nil {
		t.Fatal(err)
	}
	second, err := c.Open(t.Context(), "hf:acme/tiny@main:Q8_0")
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	reads(t, first)
	if limit, _ := c.CacheRoom(); c.CacheDir() != dir || limit <= 0 || len(hosts) == 0 || c.Mismatch() != nil {
		t.Errorf("the cache is %s of %d bytes, asked were %q, %v", c.CacheDir(), limit, hosts, c.Mismatch())
	}
	if _, err := c.Open(t.Context(), "hf:acme/tiny"); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if err := errors.Join(first.Close(), c.Close()); err != nil {
		t.Error(err)
	}
	for _, r := range h.Requests() {
		if r.Agent != "engine/1" {
			t.Errorf("it is asked by %q", r.Agent)
		}
	}
}

// TestLocalFirst opens what Hugging Face's own cache has without the Hub, and with
// AskFirst by it.
func TestLocalFirst(t *testing.T) {
	home := emptyEnvironment(t)
	h, b := hub(t)
	snapshot := filepath.Join(home, ".cache/huggingface/hub/models--acme--tiny/snapshots/0123456789012345678901234567890123456789")
	if err := errors.Join(os.MkdirAll(snapshot, 0o755), os.WriteFile(filepath.Join(snapshot, "tiny-Q8_0.gguf"), b, 0o644)); err != nil {
		t.Fatal(err)
	}
	for _, ask := range []bool{false, true} {
		h.Reset()
		c := remote.New(remote.Options{AskFirst: ask})
		m, err := c.Open(t.Context(), "hf:acme/tiny")
		if err != nil {
			t.Fatal(err)
		}
		reads(t, m)
		if err := errors.Join(m.Close(), c.Close()); err != nil || len(h.Requests()) > 0 != ask {
			t.Errorf("AskFirst %v: %d requests, %v", ask, len(h.Requests()), err)
		}
	}
}

// TestErrors opens what cannot be opened.
func TestErrors(t *testing.T) {
	emptyEnvironment(t)
	hub(t)
	s := testweb.New(t)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, x := range []struct {
		ctx  context.Context
		name string
		want string
		kind error
	}{
		{t.Context(), "ftp://me:secret@host/m.gguf?secret", "ftp://host/m.gguf?...: models cannot be read from such an address; names of models elsewhere begin with hf:, ms:, ollama:, oci://, s3://, gs://, az://, https://, http://", tensorfs.ErrUnsupported},
		{t.Context(), s.URL + "/none.gguf", s.URL + "/none.gguf: ", fs.ErrNotExist},
		{t.Context(), "hf:acme/none", "hf:acme/none: by the Hub's answer there is no such model, or you may not see it", fs.ErrPermission},
		{t.Context(), "none.gguf", "none.gguf: no such file or directory", fs.ErrNotExist},
		{ended, "hf:acme/tiny", "", context.Canceled},
	} {
		m, err := remote.Open(x.ctx, x.name)
		if err == nil {
			m.Close()
			t.Errorf("%s was opened", x.name)
		} else if !errors.Is(err, x.kind) || !strings.Contains(err.Error(), x.want) || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", x.name, err)
		}
	}
}
