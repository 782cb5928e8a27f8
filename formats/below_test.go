package formats_test

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/tensorfs/tensorfs/formats"
)

// TestOpenBelow opens models that were found in a directory, and no links out of it.
func TestOpenBelow(t *testing.T) {
	const config = `{"model_type":"llama"}`
	dir := tempFiles(t, map[string]string{
		"out/a.gguf": string(ggufFile), "out/b/config.json": config, "out/b/model.safetensors": string(tensorFile),
		"in/a.gguf": string(ggufFile), "in/sub/b/config.json": config, "in/sub/b/model.safetensors": "->../../file", "in/file": string(tensorFile),
		"in/link.gguf": "->a.gguf", "in/leaves.gguf": "->../out/a.gguf", "in/dir": "->../out/b",
		"in/c/config.json": config, "in/c/model.safetensors": "->../../out/b/model.safetensors",
	})
	store, err := filepath.Abs("../testdata/ollama/models")
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		dir, name, format string
		refused           bool // with KeepInside
	}{
		{"in", "a.gguf", "gguf", false},
		{"in", "link.gguf", "gguf", false},
		{"in", "sub/b", "huggingface", false},
		{"in", "leaves.gguf", "gguf", true},
		{"in", "dir", "huggingface", true},
		{"in", "c", "huggingface", true},
		{store, "manifests/registry.ollama.ai/library/tiny/feb", "ollama", false},
	} {
		at := x.dir
		if !filepath.IsAbs(at) {
			at = filepath.Join(dir, at)
		}
		for _, keep := range []bool{false, true} {
			m, err := formats.Options{KeepInside: keep}.OpenBelow(at, x.name)
			if keep && x.refused {
				if !errors.Is(err, formats.ErrLink) {
					t.Errorf("%s: %v, want a refused link", x.name, err)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s: %v", x.name, err)
				continue
			}
			if m.Format != x.format || m.Path != filepath.Join(at, x.name) {
				t.Errorf("%s: a model of %s at %s", x.name, m.Format, m.Path)
			}
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	for _, name := range []string{"none", "none/a.gguf", "../out/a.gguf"} {
		if _, err := (formats.Options{KeepInside: true}).OpenBelow(filepath.Join(dir, "in"), name); err == nil {
			t.Errorf("%s was opened", name)
		} else if name[0] == 'n' && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
