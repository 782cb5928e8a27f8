package metal_test

import (
	"context"
	"os"
	"testing"

	"github.com/tensorfs/tensorfs/formats/remote"
	"github.com/tensorfs/tensorfs/internal/testing/testhub"
	"github.com/tensorfs/tensorfs/metal"
)

// TestOpenRemote loads a model of a Hub, unchanged and converted: the tensors equal the file's. It
// may ask for the cache, which keeps nothing of such a model.
func TestOpenRemote(t *testing.T) {
	const file = "../testdata/gguf/llama-xs.q8_0.gguf"
	home := t.TempDir()
	for name, value := range map[string]string{"HOME": home, "XDG_CACHE_HOME": "", "TENSORFS_CACHE": "", "HF_HOME": "", "HF_HUB_CACHE": "", "HF_TOKEN": "", "HF_TOKEN_PATH": "", "HF_HUB_OFFLINE": "", "TENSORFS_OFFLINE": "", "TRANSFORMERS_OFFLINE": ""} {
		t.Setenv(name, value)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	h := testhub.NewHub(t)
	t.Setenv("HF_ENDPOINT", h.URL)
	h.Commit("acme/tiny", map[string][]byte{"tiny.gguf": b})
	load := func(name string, view string) map[string]string {
		c := remote.New(remote.Options{})
		defer c.Close()
		m, err := metal.Open(name, metal.Options{Views: []string{view}, Model: c.Formats(context.Background())})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		var refs []metal.Ref
		for _, n := range m.Names(view) {
			refs = append(refs, metal.Ref{View: view, Name: n})
		}
		set, err := m.Load(t.Context(), refs, metal.LoadOptions{Cache: metal.CacheReadWrite})
		if err != nil {
			t.Fatal(err)
		}
		defer set.Release()
		got := map[string]string{}
		for _, r := range set.Refs() {
			buffer, _ := set.Buffer(r)
			if err := buffer.View(func(p []byte) error { got[r.Name] = string(p); return nil }); err != nil {
				t.Error(err)
			}
		}
		return got
	}
	for _, view := range []string{"raw", "f16"} {
		want := load(file, view)
		for range 2 {
			got := load("hf:acme/tiny", view)
			if len(got) != len(want) || len(got) == 0 {
				t.Fatalf("%s: %d tensors, want %d", view, len(got), len(want))
			}
			for name := range want {
				if got[name] != want[name] {
					t.Errorf("%s/%s differs", view, name)
				}
			}
		}
	}
}
