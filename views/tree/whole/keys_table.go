package whole

import (
	"slices"
	"strings"
)

// common are the keys of every architecture that has no list of its own, in the
// order in which they are made: some are computed from those before them.
var common = []key{
	{name: "block_count", kind: u32, fields: "n_layers num_hidden_layers n_layer num_layers"},
	{name: "context_length", kind: u32, fields: "max_position_embeddings n_ctx n_positions max_length max_sequence_length model_max_length"},
	{name: "embedding_length", kind: u32, fields: "hidden_size n_embd dim"},
	{name: "feed_forward_length", kind: u32, fields: "intermediate_size n_inner hidden_dim"},
	{name: "attention.head_count", kind: u32, fields: "num_attention_heads n_head n_heads"},
	{name: "attention.key_length", kind: u32, fields: "head_dim", other: headRows(0)},
	{name: "attention.value_length", kind: u32, fields: "head_dim", other: like("attention.key_length")},
	{name: "attention.head_count_kv", kind: u32, fields: "num_key_value_heads n_kv_heads", other: keyHeads},
	{name: "rope.freq_base", kind: f32, fields: "rope.rope_theta rope_theta global_rope_theta rotary_emb_base"},
	{name: "rope.freq_base_swa", kind: f32, fields: "rope_local_base_freq local_rope_theta rope_parameters.sliding_attention.rope_theta"},
	{name: "rope.scaling.type", kind: text, other: scalingType},
	{name: "rope.scaling.factor", kind: f32, fields: "rope.factor", when: scaled("linear", "yarn")},
	{name: "rope.scaling.original_context_length", kind: u32, fields: "rope.original_max_position_embeddings", when: scaled("yarn")},
	{name: "rope.scaling.yarn_ext_factor", kind: f32, fields: "rope.extrapolation_factor", when: scaled("yarn")},
	{name: "rope.scaling.yarn_attn_factor", kind: f32, fields: "rope.attention_factor rope.attn_factor", when: scaled("yarn")},
	{name: "rope.scaling.yarn_beta_fast", kind: f32, fields: "rope.beta_fast", when: scaled("yarn")},
	{name: "rope.scaling.yarn_beta_slow", kind: f32, fields: "rope.beta_slow", when: scaled("yarn")},
	{name: "attention.layer_norm_rms_epsilon", kind: f32, fields: "rms_norm_eps norm_eps"},
	{name: "attention.layer_norm_epsilon", kind: f32, fields: "layer_norm_eps layer_norm_epsilon norm_epsilon"},
	{name: "expert_count", kind: u32, fields: "num_local_experts num_experts n_routed_experts", when: hasExperts},
	{name: "expert_used_count", kind: u32, fields: "num_experts_per_tok num_experts_per_token top_k_experts experts_per_token", when: hasExperts},
	{name: "expert_group_count", kind: u32, fields: "n_group"},
	{name: "expert_group_used_count", kind: u32, fields: "topk_group"},
	{name: "expert_gating_func", kind: u32, other: gating},
	{name: "attention.causal", kind: boolean, other: noncausal},
	vocabulary,
}

// vocabulary is how many tokens there are, which the tokenizer says otherwise.
var vocabulary = key{name: "vocab_size", kind: u32, other: func(d *describer) any {
	if d.facts.tokenizer && !d.arch.vocabulary {
		return nil
	}
	return d.facts.rows
}}

// needed are keys without which llama.cpp refuses any file.
const needed = "block_count context_length embedding_length feed_forward_length attention.head_count"

// limits bound what is multiplied here, and the layers that llama.cpp takes.
// None of them may be 0.
var limits = map[string]int64{
	"block_count": 512, "embedding_length": 1 << 24, "feed_forward_length": 1 << 26, "attention.head_count": 1 << 16,
	"attention.head_count_kv": 1 << 16, "attention.key_length": 1 << 16, "attention.value_length": 1 << 16, "context_length": 1 << 31,
	"expert_used_count": 1 << 16, "expert_feed_forward_length": 1 << 26, "rope.dimension_count": 1 << 16,
}

// table returns the rows of an architecture: common ones, or those of its own
// list, with its own rows in place of those of the same name.
func (a *arch) table() []key {
	rows := make([]key, 0, len(common)+len(a.rows))
	mine := func(name string) int {
		return slices.IndexFunc(a.rows, func(k key) bool { return k.name == name })
	}
	own := strings.Fields(a.own)
	for _, k := range common {
		if i := mine(k.name); i >= 0 {
			rows = append(rows, a.rows[i])
		} else if a.own == "" || k.name == vocabulary.name || slices.Contains(own, k.name) {
			rows = append(rows, k)
		}
	}
	for _, k := range a.rows {
		if !slices.ContainsFunc(common, func(c key) bool { return c.name == k.name }) {
			rows = append(rows, k)
		}
	}
	return rows
}

// row returns the architecture's row of a name.
func (a *arch) row(name string) key {
	rows := a.table()
	i := slices.IndexFunc(rows, func(k key) bool { return k.name == name })
	if i < 0 {
		return key{name: name}
	}
	return rows[i]
}
