package hf_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/convert/hf"
	"github.com/tensorfs/tensorfs/internal/testing/memory"
)

// TestTowerOfProjectors makes hf/ of a model whose tower has several projectors: the directory has the projectors by kind again, with
// the layers between which each is.
func TestTowerOfProjectors(t *testing.T) {
	text, tower := pairOf(t, "../vision/granite4-vision")
	m, err := openGGUF(memory.New(map[string][]byte{"m.gguf": text}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	made := hf.HF(m, beside(t, tower))
	if why := made.Reason + made.Left[convert.Vision]; why != "" {
		t.Fatal(why)
	}
	files := contents(t, made)
	got, want := tensorsOf(t, files["model.safetensors"]), tensorsOf(t, read(t, "vision/granite4-vision/model.safetensors"))
	for name, x := range want {
		if name == "model.vision_tower.vision_model.head.probe" {
			continue
		}
		_, wanted, _ := strings.Cut(x, " ")
		if _, has, _ := strings.Cut(got[name], " "); has != wanted && !strings.HasPrefix(got[name], "F32 ") || got[name] == "" {
			t.Errorf("%s is %q, not %q", name, got[name], x)
		}
		delete(got, name)
	}
	if len(got) != 0 {
		t.Errorf("there are %v, too", got)
	}
	var has, said map[string]any
	if err := json.Unmarshal(files["config.json"], &has); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(read(t, "vision/granite4-vision/config.json"), &said); err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"deepstack_layer_map", "spatial_target_layers", "spatial_vision_layer", "downsample_rate", "image_grid_pinpoints", "vision_feature_select_strategy"} {
		a, _ := json.Marshal(has[field])
		b, _ := json.Marshal(said[field])
		if string(a) != string(b) {
			t.Errorf("%s is %s, not %s", field, a, b)
		}
	}
}
