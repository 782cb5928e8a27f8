package architectures

import (
	"slices"
	"strings"
	"testing"
)

// TestReadsOfTypes holds that config_fields.txt has a row for every model type of the descriptions,
// or marks it as missing in transformers.
func TestReadsOfTypes(t *testing.T) {
	var without []string
	for line := range strings.Lines(configFieldsText) {
		if rest, ok := strings.CutPrefix(line, "without "); ok {
			without = strings.Fields(rest)
		}
	}
	blocks := AllSettings()
	for _, p := range Projectors() {
		blocks = append(blocks, p.Settings)
	}
	for _, s := range blocks {
		for _, c := range append(slices.Clone(s.Classes), s.Written) {
			if has := ReadsOf([]string{c.ModelType}, c.Name) != nil; c.ModelType != "" && has == slices.Contains(without, c.ModelType) {
				t.Errorf("%s: whether transformers has the model type %s: run scripts/programs/config_fields.py", s.Name, c.ModelType)
			}
		}
	}
}

func TestReads(t *testing.T) {
	for _, c := range []struct{ types, class, object, field, want string }{
		{"llama", "LlamaForCausalLM", "llama", "mlp_bias", "false"},
		{"llama", "LlamaForCausalLM", "llama", "rms_norm_eps", "1e-06"},
		{"llama", "LlamaForCausalLM", "llama", "is_causal", "true"}, // of the code for all classes
		{"llama", "LlamaForCausalLM", "llama", "is_llama_config", "unread"},
		{"llama", "LlamaForCausalLM", "llama", "index_topk", "unread"},
		{"llama", "LlamaForCausalLM", "llama", "rope_pct", ""}, // of the converter for all classes
		{"bert", "BertModel", "bert", "n_inner", ""},
		{"qwen3_5_moe qwen3_5_moe_text", "Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe_text", "full_attention_interval", "4"},
		{"qwen3_5_moe", "Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe", "num_experts", "256"}, // of a part
		{"smolvlm llama", "SmolVLMForConditionalGeneration", "llama", "mlp_bias", "false"},
		{"glm_moe_dsa", "GlmMoeDsaForCausalLM", "glm_moe_dsa", "index_topk", "2048"},
	} {
		r := ReadsOf(strings.Fields(c.types), c.class)
		got := "unread"
		if r.Has(c.field) {
			got = r.Default(c.object, c.field)
		}
		if got != c.want {
			t.Errorf("%s, %s: %s, want %s", c.types, c.field, got, c.want)
		}
	}
	if ReadsOf([]string{"llama", "wobble"}, "") != nil || ReadsOf([]string{"without"}, "") != nil || ReadsOf([]string{"all"}, "") != nil {
		t.Error("model types that transformers does not have")
	}
}
