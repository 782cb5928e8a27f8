package convert

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
)

// leftOut returns left_out and the notes of a tensorfs.json.
func leftOut(t *testing.T, f *Files) (map[string]string, string) {
	t.Helper()
	var d struct {
		Available bool
		Notes     []string
		Left      map[string]string `json:"left_out"`
	}
	if err := json.Unmarshal(f.Describe(), &d); err != nil || !d.Available {
		t.Fatalf("%s, %v", f.Describe(), err)
	}
	return d.Left, strings.Join(d.Notes, "; ")
}

// TestTowers holds that what a model has beside its language model is named where a
// GGUF file leaves it out.
func TestTowers(t *testing.T) {
	dir := filepath.Join(testdata, "whole-gguf", "gemma3")
	for name, c := range map[string]struct {
		add           []string
		vision, audio string // how many tensors are left out; "": nothing is said
	}{
		"text alone":     {nil, "", ""},
		"images":         {[]string{"vision_tower.patch.weight", "model.vision_tower.layers.0.weight", "multi_modal_projector.mm_soft_emb_norm.weight"}, "left out (tensors: 3)", ""},
		"sounds":         {[]string{"audio_tower.conv.weight", "multi_modal_projector.linear.weight"}, "", "left out (tensors: 2)"},
		"both":           {[]string{"vision_tower.a.weight", "audio_tower.b.weight"}, "left out (tensors: 1)", "left out (tensors: 1)"},
		"projector only": {[]string{"multi_modal_projector.linear.weight"}, "left out (tensors: 1)", ""},
	} {
		s := published(t, "gemma3")
		for _, tensor := range c.add {
			s.add(tensor, tensorfs.BF16, 1, 8, 8)
		}
		to := t.TempDir()
		if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, "model.safetensors"), testmodel.Safetensors(s.list, [][2]string{{"format", "pt"}}), 0o600); err != nil {
			t.Fatal(err)
		}
		m, _ := open(t, to)
		left, notes := leftOut(t, GGUF(m, Options{}))
		for tower, want := range map[string]string{Vision: c.vision, Audio: c.audio} {
			if said := left[tower]; !strings.HasPrefix(said, want) || want == "" && said != "" || strings.Contains(notes, "without "+tower) != (want != "") {
				t.Errorf("%s: %s is left out: %q; %s", name, tower, said, notes)
			}
		}
	}
}

// TestTowersBeside holds the same of an Ollama model whose projector is a file of its
// own, as it stands and with another type of weights.
func TestTowersBeside(t *testing.T) {
	manifests := filepath.Join(testdata, "ollama", "models", "manifests", "registry.ollama.ai", "library", "tinyllama")
	for _, opts := range []Options{{}, {Quantise: pure(tensorfs.Q8_0)}} {
		m, _ := open(t, filepath.Join(manifests, "vl"))
		left, notes := leftOut(t, GGUF(m, opts))
		if !strings.Contains(left[Vision], "left out (tensors: 3)") || !strings.Contains(left[Vision], "source/projector.gguf") || !strings.Contains(notes, "without vision") || len(left) != 1 {
			t.Errorf("%v: %v, %s", opts, left, notes)
		}
		m, _ = open(t, filepath.Join(manifests, "latest"))
		if left, notes := leftOut(t, GGUF(m, opts)); left != nil || strings.Contains(notes, "without") {
			t.Errorf("%v: %v, %s", opts, left, notes)
		}
	}
}
