package formats

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// The listed names are the names that Open takes.
func TestStored(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("OLLAMA_MODELS", filepath.Join(dir, "none"))
	t.Setenv("HF_HUB_CACHE", filepath.Join(dir, "none"))
	for _, store := range Stores() {
		if stored[store] == nil {
			t.Errorf("%s cannot be listed", store)
		}
		if got := Stored(store); got != nil {
			t.Errorf("%s lists %q without a store", store, got)
		}
	}
	for _, path := range []string{"o/blobs", "o/manifests/registry.ollama.ai/library/tiny", "o/manifests/example.com:80/a/b", "h/models--gpt2", "h/models--acme--tiny", "h/models--", "h/.locks"} {
		if err := os.MkdirAll(filepath.Join(dir, path), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"tiny/latest", "tiny/.part", "not a model"} {
		if err := os.WriteFile(filepath.Join(dir, "o/manifests/registry.ollama.ai/library", path), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "o/manifests/example.com:80/a/b/1"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("OLLAMA_MODELS", filepath.Join(dir, "o"))
	t.Setenv("HF_HUB_CACHE", filepath.Join(dir, "h"))
	for store, want := range map[string][]string{
		"ollama:": {"ollama:example.com:80/a/b:1", "ollama:tiny:latest"},
		"hf:":     {"hf:acme/tiny", "hf:gpt2"},
		"none:":   nil,
	} {
		if got := Stored(store); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", store, got, want)
		}
	}
}
