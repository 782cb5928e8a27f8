package whole

import (
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
)

// Conditions that several architectures share.
var (
	silu     = only("hidden_act", "silu", "swish")
	rotated  = only("partial_rotary_factor", 1.0)
	allTurn  = only("rope_parameters.partial_rotary_factor", 1.0)
	sparse   = only("decoder_sparse_step", 1.0)
	decoders = []condition{silu, rotated, allTurn}
)

// Keys that several architectures share.
var (
	rms        = "attention.layer_norm_rms_epsilon"
	layerNorm  = "attention.layer_norm_epsilon"
	pooling    = key{name: "pooling_type", kind: u32, other: poolingType}
	everything = key{name: "attention.causal", kind: boolean, other: is(false)}
	expertRows = key{name: "expert_feed_forward_length", kind: u32, fields: "moe_intermediate_size"}
	// With a tokenizer, its keys have this one.
	typeCount = key{name: "tokenizer.ggml.token_type_count", bare: true, kind: u32, fields: "type_vocab_size", other: is(int64(2), "type_vocab_size"),
		when: func(d *describer) bool { return !d.facts.tokenizer }}
	window = key{name: "attention.sliding_window", kind: u32, fields: "sliding_window"}
)

// rmsOr is the row of the epsilon with the default of the model's class.
func rmsOr(usual float64) key {
	return key{name: rms, kind: f32, fields: "rms_norm_eps norm_eps", other: is(usual, "rms_norm_eps")}
}

// headsOf are the rows of the size of a head, with the default of the model's class.
func headsOf(size int64) []key {
	return []key{
		{name: "attention.key_length", kind: u32, fields: "head_dim", other: headRows(size)},
		{name: "attention.value_length", kind: u32, fields: "head_dim", other: like("attention.key_length")},
	}
}

// architectures are those that files are made of. Defaults are those of the
// model's class in the transformers library, where llama.cpp's differ.
var architectures = []arch{
	{
		name: "llama", classes: "LlamaForCausalLM LlamaModel MistralForCausalLM MixtralForCausalLM", types: "llama mistral mixtral",
		only: decoders, needs: rms, vocabulary: true, shapes: apart, ropes: append([]string{"llama3", "longrope"}, plainRope...),
		checks: []func(*describer){checkDivisors},
		rows: []key{
			{name: rms, kind: f32, fields: "rms_norm_eps norm_eps", other: mistralEpsilon},
			{name: "rope.freq_base", kind: f32, fields: "rope.rope_theta rope_theta global_rope_theta rotary_emb_base", other: mixtralBase},
			{name: "rope.dimension_count", kind: u32, other: headSizes},
		},
	},
	{
		name: "qwen2", classes: "Qwen2ForCausalLM Qwen2Model", types: "qwen2",
		only: decoders, needs: rms, shapes: apart, rows: []key{pooling},
	},
	{
		name: "qwen3", classes: "Qwen3ForCausalLM Qwen3Model", types: "qwen3",
		only: decoders, needs: rms, shapes: apart, refuse: reranker, rows: append(headsOf(128), pooling),
	},
	{
		name: "qwen2moe", classes: "Qwen2MoeForCausalLM", types: "qwen2_moe",
		only: append([]condition{sparse, only("norm_topk_prob", false)}, decoders...), refuse: denseLayers,
		needs: rms + " expert_count expert_used_count", shapes: apart,
		rows: []key{
			{name: expertRows.name, kind: u32, fields: expertRows.fields, other: is(int64(1408))},
			{name: "expert_shared_feed_forward_length", kind: u32, fields: "shared_expert_intermediate_size", other: is(int64(5632))},
		},
	},
	{
		name: "qwen3moe", classes: "Qwen3MoeForCausalLM", types: "qwen3_moe",
		only: append([]condition{sparse, must("norm_topk_prob", true)}, decoders...), refuse: denseLayers,
		needs: rms + " expert_count expert_used_count expert_feed_forward_length", shapes: apart,
		rows: append(headsOf(0), expertRows),
	},
	{
		name: "gemma2", classes: "Gemma2ForCausalLM", types: "gemma2",
		only: []condition{only("rope_theta", 10000.0), only("rope_parameters.rope_theta", 10000.0), only("use_bidirectional_attention", false)},
		own:  "block_count context_length embedding_length feed_forward_length attention.head_count attention.head_count_kv",
		rows: append(headsOf(256), rmsOr(1e-6),
			key{name: "attention.head_count_kv", kind: u32, fields: "num_key_value_heads", other: keyHeadsOr(like("attention.head_count"))},
			key{name: "attn_logit_softcapping", kind: f32, fields: "attn_logit_softcapping", other: is(50.0, "attn_logit_softcapping")},
			key{name: "final_logit_softcapping", kind: f32, fields: "final_logit_softcapping", other: is(30.0, "final_logit_softcapping")},
			key{name: window.name, kind: u32, fields: window.fields, other: is(int64(4096), "sliding_window")}),
		needs: rms, ropes: []string{""}, shapes: apart,
		checks: []func(*describer){attentionScale(46), alternate},
	},
	{
		name: "gemma3", classes: "Gemma3ForCausalLM Gemma3ForConditionalGeneration", types: "gemma3 gemma3_text",
		only: []condition{only("attn_logit_softcapping"), only("use_bidirectional_attention", false)},
		rows: append(headsOf(256), rmsOr(1e-6),
			key{name: "context_length", kind: u32, fields: common[1].fields, other: is(int64(131072), "max_position_embeddings")},
			key{name: "attention.head_count", kind: u32, fields: "num_attention_heads", other: is(int64(8), "num_attention_heads")},
			key{name: "attention.head_count_kv", kind: u32, fields: "num_key_value_heads", other: keyHeadsOr(is(int64(4), "num_key_value_heads"))},
			key{name: "rope.freq_base", kind: f32, fields: "rope.rope_theta rope_theta", other: is(1e6, "rope_theta")},
			key{name: "rope.freq_base_swa", kind: f32, fields: "rope_parameters.sliding_attention.rope_theta rope_local_base_freq", other: is(1e4, "rope_local_base_freq")},
			key{name: window.name, kind: u32, fields: window.fields, other: is(int64(4096), "sliding_window"), when: slides},
			key{name: "attention.sliding_window_pattern", kind: u32, other: gemmaPeriod, when: slides},
			key{name: "final_logit_softcapping", kind: f32, fields: "final_logit_softcapping"}),
		needs: rms, shapes: apart,
		checks: []func(*describer){attentionScale(62)},
	},
	{
		name: "phi3", classes: "Phi3ForCausalLM", types: "phi3",
		only: []condition{silu},
		own:  "block_count context_length embedding_length feed_forward_length attention.head_count",
		rows: []key{
			rmsOr(1e-5),
			{name: "attention.head_count_kv", kind: u32, fields: "num_key_value_heads", other: fusedKeyHeads(like("attention.head_count"))},
			{name: "rope.scaling.original_context_length", kind: u32, fields: "original_max_position_embeddings rope.original_max_position_embeddings", other: is(int64(4096))},
			{name: "rope.dimension_count", kind: u32, other: partialRope},
			{name: "rope.freq_base", kind: f32, fields: "rope.rope_theta rope_theta", other: is(1e4)},
			{name: window.name, kind: u32, fields: window.fields, other: is(int64(0))},
			{name: "rope.scaling.attn_factor", kind: f32, other: longAttention, when: scaled("longrope", "su", "yarn")},
		},
		ropes: phiTypes, shapes: joined, checks: []func(*describer){checkFactors},
	},
	{
		name: "gpt2", classes: "GPT2LMHeadModel", types: "gpt2",
		only: []condition{only("scale_attn_weights", true), only("scale_attn_by_inverse_layer_idx", false),
			only("activation_function", "gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh")},
		own: "block_count embedding_length attention.head_count " + layerNorm,
		rows: []key{
			{name: "context_length", kind: u32, fields: "n_ctx n_positions"},
			{name: "feed_forward_length", kind: u32, fields: "n_inner", other: times(4, "embedding_length")},
		},
		needs: layerNorm, ropes: []string{""}, shapes: unnamed,
	},
	{
		name: "starcoder2", classes: "Starcoder2ForCausalLM", types: "starcoder2",
		only:  []condition{only("use_bias", true), only("hidden_act", "gelu", "gelu_pytorch_tanh"), only("norm_type", "layer_norm"), only("mlp_type", "default")},
		needs: layerNorm, shapes: without("ffn.gate", apart),
	},
	{
		name: "falcon", classes: "FalconForCausalLM RWForCausalLM", types: "falcon RefinedWeb RefinedWebModel",
		only: []condition{only("alibi", false), only("bias", false), only("parallel_attn", true), only("rope_theta", 10000.0),
			only("activation", "gelu"), only("apply_residual_connection_post_layernorm", false)},
		own: "block_count embedding_length attention.head_count " + layerNorm,
		rows: []key{
			{name: "context_length", kind: u32, other: is(int64(2048))},
			{name: "tensor_data_layout", kind: text, other: is("jploski")},
			{name: "feed_forward_length", kind: u32, other: times(4, "embedding_length")},
			{name: "attention.head_count_kv", kind: u32, other: fusedKeyHeads(falconKeyHeads)},
		},
		needs: layerNorm, ropes: []string{""}, shapes: joined, checks: []func(*describer){falconAgrees},
	},
	{
		name: "deepseek2", classes: "DeepseekV2ForCausalLM DeepseekV3ForCausalLM", types: "deepseek_v2 deepseek_v3",
		only: []condition{silu, only("moe_layer_freq", 1.0)},
		rows: []key{
			rmsOr(1e-6),
			{name: "attention.head_count_kv", kind: u32, other: is(int64(1))},
			{name: "expert_gating_func", kind: u32, other: deepseekGating},
			{name: "leading_dense_block_count", kind: u32, fields: "first_k_dense_replace", other: is(int64(0))},
			{name: "attention.q_lora_rank", kind: u32, fields: "q_lora_rank"},
			{name: "attention.kv_lora_rank", kind: u32, fields: "kv_lora_rank"},
			{name: "attention.key_length", kind: u32, other: sum("kv_lora_rank", "qk_rope_head_dim")},
			{name: "attention.value_length", kind: u32, other: sum("kv_lora_rank")},
			{name: "attention.key_length_mla", kind: u32, other: sum("qk_nope_head_dim", "qk_rope_head_dim")},
			{name: "attention.value_length_mla", kind: u32, fields: "v_head_dim"},
			expertRows,
			{name: "expert_shared_count", kind: u32, fields: "n_shared_experts"},
			{name: "expert_weights_scale", kind: f32, fields: "routed_scaling_factor"},
			{name: "expert_weights_norm", kind: boolean, other: onlyTrue("norm_topk_prob")},
			{name: "rope.dimension_count", kind: u32, fields: "qk_rope_head_dim"},
			{name: "rope.scaling.yarn_log_multiplier", kind: f32, other: yarnLog},
		},
		needs: "attention.kv_lora_rank attention.value_length_mla expert_count expert_used_count expert_feed_forward_length expert_shared_count " +
			"expert_weights_scale rope.dimension_count",
		vocabulary: true, shapes: unnamed, checks: []func(*describer){lightLayers},
	},
	{
		name: "gpt-oss", classes: "GptOssForCausalLM", types: "gpt_oss",
		only: []condition{silu, rotated, only("swiglu_limit", 7.0)},
		rows: append(headsOf(64),
			key{name: "rope.freq_base", kind: f32, fields: "rope.rope_theta rope_theta", other: is(150000.0, "rope_theta")},
			key{name: window.name, kind: u32, fields: window.fields, other: is(int64(128), "sliding_window")},
			key{name: expertRows.name, kind: u32, fields: "intermediate_size"}),
		needs: rms + " expert_count expert_used_count", shapes: apart[:5], checks: []func(*describer){alternate},
	},
	{
		name: "bert", classes: "BertModel BertForMaskedLM", types: "bert",
		only:  []condition{only("position_embedding_type", "absolute"), only("hidden_act", "gelu", "gelu_new", "gelu_pytorch_tanh"), only("is_decoder", false)},
		rows:  []key{everything, pooling, typeCount},
		needs: layerNorm, ropes: []string{""}, shapes: without("ffn.gate", apart),
	},
	{
		name: "nomic-bert", classes: "NomicBertModel", types: "nomic_bert",
		only: []condition{only("qkv_proj_bias", false), only("mlp_fc1_bias", false), only("mlp_fc2_bias", false), only("activation_function", "swiglu"),
			only("prenorm", false), only("rotary_emb_fraction", 1.0), only("rotary_emb_interleaved", false), only("rotary_emb_scale_base"),
			only("causal", false), only("num_experts", 0.0), only("moe_every_n_layers", 0.0)},
		rows: []key{
			{name: "context_length", kind: u32, other: nomicContext},
			everything, pooling, typeCount,
		},
		needs: layerNorm + " rope.freq_base", ropes: []string{""}, shapes: unnamed,
	},
}

// without returns the shapes of all tensors but one.
func without(tensor string, shapes []shape) []shape {
	return slices.DeleteFunc(slices.Clone(shapes), func(s shape) bool { return strings.Contains(s.tensor, "."+tensor+".") })
}

// reranker refuses models whose answer is one number, though their class is that
// of models that answer with text.
func reranker(m *tensorfs.Model, _ settings) string {
	if text, err := ReadText(m, "README.md", maxText); err == nil && strings.Contains(string(text), "# Qwen3-Reranker") {
		return "the model is a reranker, of which no GGUF file is made"
	}
	return ""
}
