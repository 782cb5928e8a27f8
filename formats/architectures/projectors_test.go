package architectures

import (
	"slices"
	"strings"
	"testing"
)

// TestProjectors checks the text beyond its syntax. Each class has one projector, and no two of its
// tensors have the same name on one side, except tensors that are parts of one.
func TestProjectors(t *testing.T) {
	if n := len(Projectors()); n != 49 {
		t.Errorf("%d projectors", n)
	}
	seen := map[Part]map[Class]bool{Vision: {}, Audio: {}}
	for _, p := range Projectors() {
		for _, c := range p.Classes {
			if seen[p.Part][c] || ProjectorOf(c, p.Part) != p || ProjectorOf(Class{ModelType: c.ModelType}, p.Part) != p {
				t.Errorf("%s is a class of several projectors", c)
			}
			seen[p.Part][c] = true
		}
		for side, name := range map[string]func(x *Tensor, layer string) string{
			"GGUF": func(x *Tensor, layer string) string { return x.GGUFPart(p.InGGUF(x, layer), ".weight") },
			"HF":   func(x *Tensor, layer string) string { return x.HFPart(p.InHF(x.HF, layer, 0), ".weight") },
		} {
			names := map[string]bool{}
			for layer, list := range map[string][]Tensor{"": slices.Concat(p.First, p.Last), "7.": p.Layer} {
				for i := range list {
					n := name(&list[i], layer)
					if _, isRow := p.Rows[list[i].Module]; isRow && side == "HF" {
						continue
					}
					if joined := side == "HF" && (list[i].Joined() != "" || list[i].Moved("frame")); names[n] && !joined || strings.ContainsAny(n, "{}!~") || strings.HasPrefix(n, ".") {
						t.Errorf("%s has %s in %s", p.Settings.Name, n, side)
					}
					names[n] = true
				}
			}
		}
		for _, word := range p.Types {
			if !slices.Contains([]string{"f16", "f32", "conv"}, word) {
				t.Errorf("%s has the type %s", p.Settings.Name, word)
			}
		}
	}
	if ProjectorOf(Class{Name: "LlamaForCausalLM", ModelType: "gemma3"}, Vision) != nil || ProjectorOf(Class{}, Vision) != nil {
		t.Error("a class without a vision tower has a projector")
	}
}

// TestPublished: names of releases of transformers are one.
func TestPublished(t *testing.T) {
	for name, want := range map[string]string{
		"model.vision_tower.vision_model.post_layernorm.bias": "vision_tower.post_layernorm.bias",
		"model.vision_tower.post_layernorm.bias":              "vision_tower.post_layernorm.bias",
		"visual.merger.ln_q.weight":                           "visual.merger.ln_q.weight",
		"model.visual.merger.ln_q.weight":                     "visual.merger.ln_q.weight",
		"vision_model.model.layers.0.mlp.fc1.bias":            "vision_model.model.layers.0.mlp.fc1.bias",
		"q_proj.linear.weight":                                "q_proj.weight",
	} {
		if got := Published(name); got != want {
			t.Errorf("%s is %s, not %s", name, got, want)
		}
	}
	p := ProjectorOf(Class{Name: "Gemma3ForConditionalGeneration"}, Vision)
	for name, want := range map[string]bool{
		"vision_tower.vision_model.head.probe": true, "model.vision_tower.head.probe": true, "vision_tower.vision_model.headless": false, "head.probe": false,
	} {
		if p.Skips(name) != want {
			t.Errorf("%s is left out: %v", name, !want)
		}
	}
}

// TestProjectorNamed: of projectors with one name in files, a tensor tells which it is.
func TestProjectorNamed(t *testing.T) {
	none := func(string) bool { return false }
	for _, p := range Projectors() {
		if ProjectorNamed(p.Settings.Name, p.Part, none) != p {
			t.Errorf("%s is not found", p.Settings.Name)
		}
		for name, tensor := range p.Marked {
			if ProjectorNamed(name, p.Part, none) == p || ProjectorNamed(name, p.Part, func(x string) bool { return x == tensor }) != p {
				t.Errorf("%s is not told from %s by %s", p.Settings.Name, name, tensor)
			}
		}
	}
	if ProjectorNamed("other", Vision, none) != nil {
		t.Error("a projector without a block is found")
	}
}
