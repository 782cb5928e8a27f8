package hfdir

import "slices"

// configArch is a row: an architecture of GGUF and the class of Hugging Face's
// library that computes the same. Constants are what llama.cpp does without any
// key: they are facts about what a file means.
type configArch struct {
	name  string                    // in GGUF
	when  func(c *configMaker) bool // of several rows with one name, the first that applies; nil: always
	class string
	model string // model_type

	base   []configField
	fields []configField
	ropes  []string // ways to scale rotary embeddings; nil: there are none of these
	heads  headRule
	ends   endRule
	shapes []configShape // that the sizes and the tensors must agree on
	checks []func(c *configMaker)
	mlx    []func(c *configMaker) // checks of mlx/; nil: mlx-lm has no such model
}

// headRule is what config.json can say about a head.
type headRule int

const (
	headsDivide headRule = iota // nothing: heads share the width
	headsSaid                   // head_dim
	headsTurn                   // nothing, but which part of one is rotated
	headsMLA                    // fields of their own
)

// endRule is what config.json says of the tokens at which a generation ends.
// generation_config.json has all of them always. The releases have it so, and candle
// refuses a list for some classes.
type endRule int

const (
	allEnds endRule = iota
	oneEnd          // eos alone
)

// Ways to scale rotary embeddings, as ropeType names them.
var (
	unscaled = []string{""}
	plain    = []string{"", "linear", "yarn"}
)

// anyMLX says that mlx-lm's model takes all that config.json can say.
var anyMLX = []func(*configMaker){}

var decoder = slices.Concat(sizeFields, decoderFields)

// configArchs are the architectures with a form of Hugging Face.
var configArchs = []configArch{
	{
		name: "llama", when: hasExperts, class: "MixtralForCausalLM", model: "mixtral",
		base: decoder, heads: headsSaid, ropes: plain, shapes: slices.Concat(apart[:5], routed), checks: []func(*configMaker){unbiased, causal, expertsUsed},
		mlx: []func(*configMaker){mlxUnscaled, mlxShared},
		fields: []configField{headDim, silu, rms,
			{"num_local_experts", size("expert_count", nil)}, usedPer},
	},
	{
		name: "llama", class: "LlamaForCausalLM", model: "llama",
		base: decoder, heads: headsSaid, ropes: append([]string{ropeFreqs}, plain...), shapes: apart, checks: []func(*configMaker){unbiased, causal},
		mlx: anyMLX,
		fields: []configField{headDim, silu, rms, noBias, {"mlp_bias", constant(false)},
			{"original_max_position_embeddings", (*configMaker).longContext}},
	},
	{
		name: "qwen2", class: "Qwen2ForCausalLM", model: "qwen2",
		base: decoder, ropes: plain, shapes: apart, checks: []func(*configMaker){causal}, mlx: anyMLX,
		fields: []configField{silu, rms, noWindow},
	},
	{
		name: "qwen2moe", class: "Qwen2MoeForCausalLM", model: "qwen2_moe",
		base: decoder, ropes: plain, shapes: slices.Concat(apart[:5], routed), checks: []func(*configMaker){causal, expertsUsed},
		mlx: []func(*configMaker){mlxUnscaled, mlxUntied},
		fields: slices.Concat([]configField{silu, rms,
			{"num_experts", size("expert_count", nil)}, usedPer, expertRows,
			{"shared_expert_intermediate_size", size("expert_shared_feed_forward_length feed_forward_length", nil)},
			{"norm_topk_prob", constant(false)}}, everyLayer),
	},
	{
		name: "qwen3", class: "Qwen3ForCausalLM", model: "qwen3",
		base: decoder, heads: headsSaid, ropes: plain, shapes: apart, checks: []func(*configMaker){causal}, mlx: anyMLX,
		fields: []configField{headDim, silu, rms, noBias, noWindow},
	},
	{
		name: "qwen3moe", class: "Qwen3MoeForCausalLM", model: "qwen3_moe",
		base: decoder, heads: headsSaid, ropes: plain, shapes: slices.Concat(apart[:5], routed), checks: []func(*configMaker){causal, expertsUsed}, mlx: []func(*configMaker){mlxUnscaled},
		fields: slices.Concat([]configField{headDim, silu, rms,
			{"num_experts", size("expert_count", nil)}, usedPer, expertRows,
			{"norm_topk_prob", constant(true)}}, everyLayer),
	},
	{
		name: "gemma2", class: "Gemma2ForCausalLM", model: "gemma2",
		base: decoder, heads: headsSaid, ropes: unscaled, shapes: apart, checks: []func(*configMaker){causal}, mlx: anyMLX,
		fields: slices.Concat(geluTanh, []configField{headDim, rms,
			{"attn_logit_softcapping", real(0, "attn_logit_softcapping", constant(50.0))},
			{"final_logit_softcapping", real(0, "final_logit_softcapping", constant(30.0))},
			{"sliding_window", size("attention.sliding_window", constant(int64(4096)))},
			{"query_pre_attn_scalar", attentionScale(46)},
			{"layer_types", layerTypes(2)},
			{"sliding_window_pattern", windowPattern(2)}}),
	},
	{
		name: "gemma3", class: "Gemma3ForCausalLM", model: "gemma3_text",
		base: decoder, heads: headsSaid, ropes: []string{"", "linear"}, shapes: apart, checks: []func(*configMaker){causal}, mlx: anyMLX,
		fields: slices.Concat(geluTanh, []configField{headDim, rms,
			{"rope_theta", real(0, "rope.freq_base rope.global.freq_base", constant(1000000.0))}, // the second is Ollama's
			{"rope_local_base_freq", real(0, "rope.freq_base_swa rope.local.freq_base", constant(10000.0))},
			{"attn_logit_softcapping", null},
			{"final_logit_softcapping", real(0, "final_logit_softcapping", null)},
			{"sliding_window", unlessZero("attention.sliding_window", left)},
			{"query_pre_attn_scalar", attentionScale(62)},
			{"layer_types", layerTypes(6)},
			{"sliding_window_pattern", windowPattern(6)}}),
	},
	{
		name: "phi3", class: "Phi3ForCausalLM", model: "phi3",
		base: decoder, ends: oneEnd, heads: headsTurn, ropes: []string{"", ropeFactors}, shapes: joined, checks: []func(*configMaker){causal}, mlx: anyMLX,
		fields: []configField{silu, rms,
			{"sliding_window", unlessZero("attention.sliding_window", left)},
			{"original_max_position_embeddings", size("rope.scaling.original_context_length", dim("context"))},
			{"partial_rotary_factor", turningPart}},
	},
	{
		name: "deepseek2", when: biasedRouter, class: "DeepseekV3ForCausalLM", model: "deepseek_v3",
		base: decoder, heads: headsMLA, ropes: plain, shapes: latent, checks: deepseekChecks, mlx: []func(*configMaker){mlxUntied},
		fields: slices.Concat(deepseekFields, []configField{{"scoring_func", constant("sigmoid")}, {"topk_method", constant("noaux_tc")},
			{"num_nextn_predict_layers", between(0, mostHeads, "nextn_predict_layers", constant(int64(0)))}}),
	},
	{
		name: "deepseek2", class: "DeepseekV2ForCausalLM", model: "deepseek_v2",
		base: decoder, heads: headsMLA, ropes: plain, shapes: latent, checks: deepseekChecks, mlx: []func(*configMaker){mlxUntied},
		fields: slices.Concat(deepseekFields, []configField{{"scoring_func", constant("softmax")}, {"topk_method", greedy}}),
	},
	{
		name: "gpt-oss", class: "GptOssForCausalLM", model: "gpt_oss",
		base: decoder, heads: headsSaid, ropes: plain, shapes: slices.Concat(apart[:5], routed), checks: []func(*configMaker){causal, expertsUsed}, mlx: anyMLX,
		fields: []configField{headDim, silu, rms,
			{"intermediate_size", size("expert_feed_forward_length", nil)},
			{"num_local_experts", size("expert_count", nil)}, usedPer,
			{"sliding_window", size("attention.sliding_window", nil)},
			{"attention_bias", constant(true)},
			{"swiglu_limit", constant(7.0)},
			{"layer_types", layerTypes(2)}},
	},
	{
		name: "starcoder2", class: "Starcoder2ForCausalLM", model: "starcoder2",
		base: decoder, ends: oneEnd, ropes: plain, shapes: upDown, checks: []func(*configMaker){causal}, mlx: []func(*configMaker){mlxUnscaled, mlxBiased},
		fields: []configField{{"hidden_act", constant("gelu_pytorch_tanh")}, {"norm_epsilon", layerNorm},
			{"use_bias", biased},
			{"sliding_window", unlessZero("attention.sliding_window", left)}},
	},
	{
		name: "gpt2", class: "GPT2LMHeadModel", model: "gpt2",
		ends: oneEnd, checks: []func(*configMaker){causal, oneKeyEach}, mlx: []func(*configMaker){fourfold}, shapes: slices.Concat(upDown[:1], upDown[4:], positions),
		fields: []configField{{"vocab_size", dim("rows")}, {"n_embd", dim("width")}, {"n_layer", dim("layers")}, {"n_head", dim("heads")},
			{"n_positions", dim("context")}, {"n_ctx", dim("context")}, {"n_inner", size("feed_forward_length", nil)},
			{"activation_function", constant("gelu_new")}, {"layer_norm_epsilon", layerNorm}, tie},
	},
	{
		name: "falcon", class: "FalconForCausalLM", model: "falcon",
		base: sizeFields, ends: oneEnd, ropes: unscaled, shapes: joined, checks: []func(*configMaker){causal, falconHeads},
		fields: []configField{{"num_kv_heads", dim("kv")}, {"layer_norm_epsilon", layerNorm}, {"activation", constant("gelu")},
			{"new_decoder_architecture", newFalcon}, {"multi_query", multiQuery}, {"parallel_attn", constant(true)},
			{"bias", constant(false)}, {"alibi", constant(false)}, {"ffn_hidden_size", size("feed_forward_length", nil)},
			{"max_position_embeddings", dim("context")}, {"rope_theta", real(0, "rope.freq_base", constant(10000.0))}, tie},
	},
	{
		name: "bloom", class: "BloomForCausalLM", model: "bloom",
		ends: oneEnd, checks: []func(*configMaker){causal, oneKeyEach, fourfold, alibi}, shapes: joined,
		fields: []configField{{"vocab_size", dim("rows")}, {"hidden_size", dim("width")}, {"n_layer", dim("layers")}, {"n_head", dim("heads")},
			{"layer_norm_epsilon", layerNorm}, tie},
	},
	{
		name: "bert", class: "BertModel", model: "bert",
		base: sizeFields, ends: oneEnd, checks: []func(*configMaker){seesAll, oneKeyEach}, shapes: slices.Concat(upDown, positions),
		fields: []configField{{"intermediate_size", size("feed_forward_length", nil)}, {"hidden_act", constant("gelu")},
			{"layer_norm_eps", layerNorm}, {"type_vocab_size", tokenTypes}, {"max_position_embeddings", dim("context")},
			{"position_embedding_type", constant("absolute")}},
	},
}

// deepseekFields are what both classes of DeepSeek have.
var deepseekFields = []configField{
	{"num_key_value_heads", dim("heads")}, // GGUF says 1: what is stored is shared by all
	silu, rms, noBias,
	{"q_lora_rank", unlessZero("attention.q_lora_rank", null)},
	{"kv_lora_rank", dim("rank")},
	{"qk_rope_head_dim", dim("turned")},
	{"qk_nope_head_dim", dim("still")},
	{"v_head_dim", dim("value")},
	{"n_routed_experts", size("expert_count", nil)},
	{"n_shared_experts", size("expert_shared_count", nil)},
	usedPer,
	{"moe_intermediate_size", size("expert_feed_forward_length", nil)},
	{"first_k_dense_replace", between(0, mostSize, "leading_dense_block_count", constant(int64(0)))},
	{"moe_layer_freq", constant(int64(1))},
	{"routed_scaling_factor", real(0, "expert_weights_scale", constant(1.0))},
	{"norm_topk_prob", normalised},
	{"n_group", groups("expert_group_count")},
	{"topk_group", groups("expert_group_used_count")},
}
