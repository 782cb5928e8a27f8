package hf

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/testing/testwhole"
)

// TestTowers holds that hf/ and mlx/ of a GGUF model with a projector have only the language model,
// and a note about it.
func TestTowers(t *testing.T) {
	store := t.TempDir()
	if err := os.CopyFS(store, os.DirFS(filepath.Join(tensorData, "ollama", "models"))); err != nil {
		t.Fatal(err)
	}
	manifests := filepath.Join(store, "manifests", "registry.ollama.ai", "library", "tinyllama")
	text, err := os.ReadFile(filepath.Join(manifests, "vl"))
	if err != nil {
		t.Fatal(err)
	}
	adapter := regexp.MustCompile(`,\{"mediaType":"application/vnd.ollama.image.adapter"[^}]*\}`)
	if err := os.WriteFile(filepath.Join(manifests, "seeing"), adapter.ReplaceAll(text, nil), 0o600); err != nil {
		t.Fatal(err)
	}
	m := testwhole.Open(t, filepath.Join(manifests, "seeing"))
	alone := testwhole.Open(t, filepath.Join(manifests, "latest"))
	for name, make := range map[string]func() (*convert.Files, *convert.Files){
		"hf": func() (*convert.Files, *convert.Files) { return HF(m, convert.Options{}), HF(alone, convert.Options{}) },
		"mlx": func() (*convert.Files, *convert.Files) {
			return MLX(m, convert.Options{}), MLX(alone, convert.Options{})
		},
	} {
		f, text := make()
		if f.Reason != "" || f.Tensors != text.Tensors || !strings.HasPrefix(f.Left[convert.Vision], "left out (tensors: 3)") || !strings.Contains(strings.Join(f.Notes, ";"), "only the language model, without vision") {
			t.Errorf("%s/: %s", name, f.Describe())
		}
		if text.Left != nil {
			t.Errorf("%s/: %s", name, text.Describe())
		}
	}
}
