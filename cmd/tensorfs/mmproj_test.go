package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/formats"
)

// gemma3Pair writes the two GGUF files of a Gemma 3 with a vision tower into a folder.
func gemma3Pair(t *testing.T) (folder, text, tower string) {
	t.Helper()
	folder = t.TempDir()
	source := filepath.Join("..", "..", "testdata", "architectures", "gemma3-vl")
	for from, to := range map[string]*string{"model.gguf": &text, "mmproj.gguf": &tower} {
		code, out, stderr := command("cat", source, "gguf/"+from)
		if code != 0 {
			t.Fatal(stderr)
		}
		*to = filepath.Join(folder, from)
		if err := os.WriteFile(*to, []byte(out), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder, text, tower
}

// TestMMProj holds which vision tower hf/ of a GGUF file has.
func TestMMProj(t *testing.T) {
	folder, text, tower := gemma3Pair(t)
	elsewhere := filepath.Join(t.TempDir(), "vision.gguf")
	if err := os.Rename(tower, elsewhere); err != nil {
		t.Fatal(err)
	}
	link := func(to string) func() {
		return func() {
			if err := os.Symlink(elsewhere, filepath.Join(folder, to)); err != nil {
				t.Fatal(err)
			}
		}
	}
	const class, language = `"Gemma3ForConditionalGeneration"`, `"Gemma3ForCausalLM"`
	for _, c := range []struct {
		before           func()
		flags            []string
		config, describe string // what config.json and tensorfs.json have
	}{
		{nil, nil, language, `"notes": []`},
		{nil, []string{"--mmproj", elsewhere}, class, "the vision tower is that of vision.gguf (--mmproj)"},
		{nil, []string{"--mmproj", text}, language, "it has no clip.projector_type, and is no vision tower"},
		{nil, []string{"--mmproj", filepath.Join(folder, "none.gguf")}, language, "none.gguf"},
		{link("mmproj-gemma-F16.gguf"), nil, class, "the vision tower is that of mmproj-gemma-F16.gguf, which is in the same folder"},
		{nil, []string{"--mmproj", "none"}, language, `"notes": []`},
		{link("mmproj-gemma-BF16.gguf"), nil, class, "the vision tower is that of mmproj-gemma-BF16.gguf"},
		{link("mmproj-other.gguf"), nil, language, "there are 3 vision towers: mmproj-gemma-BF16.gguf, mmproj-gemma-F16.gguf, mmproj-other.gguf; name one with --mmproj FILE"},
	} {
		if c.before != nil {
			c.before()
		}
		for file, want := range map[string]string{"hf/config.json": c.config, "hf/tensorfs.json": c.describe} {
			code, out, stderr := command(append([]string{"cat", text, file}, c.flags...)...)
			if code != 0 || !strings.Contains(out, want) {
				t.Errorf("%v: %s has no %s: %s%s", c.flags, file, want, out, stderr)
			}
		}
	}

	// A process that may read more than the users whom it serves follows no link.
	if err := os.Remove(filepath.Join(folder, "mmproj-other.gguf")); err != nil {
		t.Fatal(err)
	}
	m, err := formats.Open(text)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if found, _, err := towerBeside(m, true); err == nil || !strings.Contains(err.Error(), "link") {
		t.Errorf("%v, %v", found, err)
	}
}
