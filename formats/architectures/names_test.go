package architectures

import (
	"slices"
	"strings"
	"testing"
)

func TestNameOf(t *testing.T) {
	for _, c := range []struct{ class, model, want string }{
		{"LlamaForCausalLM", "llama", "llama"},
		{"MixtralForCausalLM", "mixtral", "llama"},
		{"", "mistral", "llama"},
		{"Gemma3TextModel", "gemma3_text", "gemma-embedding"},
		{"NobodyKnows", "gemma3_text", "gemma3"},
		{"DeepseekV3ForCausalLM", "deepseek_v3", "deepseek2"},
		{"GptOssForCausalLM", "gpt_oss", "gpt-oss"},
		{"", "whisper", "whisper"},
		{"", "", ""},
		{"llama", "LlamaForCausalLM", ""},
	} {
		if got := NameOf(c.class, c.model); got != c.want {
			t.Errorf("NameOf(%q, %q) = %q, want %q", c.class, c.model, got, c.want)
		}
	}
}

func TestReordered(t *testing.T) {
	for _, c := range []struct {
		arch, name string
		want       bool
	}{
		{"llama", "layers.0.attention.q.weight", true},
		{"llama", "layers.31.attention.k.bias", true},
		{"llama", "layers.0.attention.v.weight", false},
		{"llama", "layers.0.attention.q_norm.weight", false},
		{"llama", "vision.layers.0.attention.q.weight", false},
		{"llama", "layers.0.attention.q.lora_a", false},
		{"llama", "attention.q.weight", false},
		{"llama", "", false},
		{"granite", "layers.0.attention.k.weight", true},
		{"qwen2", "layers.0.attention.q.weight", false},
		{"bert", "layers.0.attention.q.weight", false},
		{"unknown", "layers.0.attention.q.weight", false},
	} {
		if got := Reordered(c.arch, c.name); got != c.want {
			t.Errorf("Reordered(%q, %q) = %v", c.arch, c.name, got)
		}
	}
}

// TestNamesText holds that no row of names.txt repeats a description.
func TestNamesText(t *testing.T) {
	for line := range strings.Lines(namesText) {
		line, _, _ = strings.Cut(line, "#")
		f := strings.Fields(line)
		if len(f) != 3 {
			continue
		}
		for _, s := range AllSettings() {
			for _, c := range s.Classes {
				if f[0] == "class" && c.Name == f[1] || f[0] == "type" && c.ModelType == f[1] && s.GGUF == f[2] {
					t.Errorf("%s is in a description too", strings.TrimSpace(line))
				}
			}
			if f[0] == "heads" && s.GGUF == f[1] {
				t.Errorf("%s has a description, which has its moves", f[1])
			}
		}
	}
}

// TestReorderedEach holds that the order of rows of each tensor is what its description moves.
func TestReorderedEach(t *testing.T) {
	both := 0
	for _, a := range All() {
		for _, x := range a.Layer {
			heads := slices.ContainsFunc(x.Moves, func(m Move) bool { return m.Name == "heads" })
			if got := Reordered(a.Name, "layers.0."+x.Module+".weight"); got != heads {
				t.Errorf("%s: %s is reordered: %v, want %v", a.Name, x.Module, got, heads)
			}
			if heads {
				both++
			}
		}
	}
	if both < 30 {
		t.Errorf("only %d tensors are reordered", both)
	}
}
