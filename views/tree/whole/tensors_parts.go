package whole

import "slices"

// Parts that several architectures have.

var (
	tokens    = part{rows: []row{{to: "token_embd", from: embedding, shape: "vocab width", bias: never, make: keptTokens}}}
	positions = part{rows: []row{{to: "position_embd", from: "position_embedding", shape: "positions width", bias: never}}}

	tokenTypes = row{to: "token_types", from: "token_type_embedding", shape: "types width", bias: never}
	tokenNorm  = row{to: "token_embd_norm", from: "token_embedding_norm", shape: "width"}
	ffnNorm    = row{to: "ffn_norm", from: "ffn_norm", shape: "width", bias: never}
)

// ending is the norm after the last layer and the output, which some architectures
// must have: then the embedding is written twice where the model has no other.
func ending(output needs) part {
	return part{rows: []row{{to: "output_norm", from: "output_norm", shape: "width", bias: never}, outputRow(output)}}
}

// endingWithBias is ending, for LayerNorm.
func endingWithBias(output needs) part {
	return part{rows: []row{{to: "output_norm", from: "output_norm", shape: "width"}, outputRow(output)}}
}

func gemmaEnding(output needs) part {
	return part{rows: []row{{to: "output_norm", from: "output_norm", shape: "width", bias: never, make: plusOne}, outputRow(output)}}
}

func outputRow(need needs) row {
	r := row{to: "output", from: "output", shape: "vocab width", weight: need, bias: never}
	if need == always {
		r.make = outputOrTokens
	}
	return r
}

// gated is a feed-forward network with a gate.
var gated = []row{
	ffnNorm,
	{to: "ffn_gate", from: "ffn.gate", shape: "ff width", bias: never},
	{to: "ffn_up", from: "ffn.up", shape: "ff width", bias: never},
	{to: "ffn_down", from: "ffn.down", shape: "width ff", bias: never},
}

// plainFFN is one without, with biases.
var plainFFN = []row{
	{to: "ffn_up", from: "ffn.up", shape: "ff width"},
	{to: "ffn_down", from: "ffn.down", shape: "width ff"},
}

// experts are the router and the stacks of experts, of that width.
func experts(ff string) []row {
	return []row{
		{to: "ffn_gate_inp", from: "ffn.router", shape: "experts width", bias: never},
		{to: "ffn_gate_exps", from: "ffn.experts.gate", shape: "experts " + ff + " width", bias: never, make: stacked},
		{to: "ffn_up_exps", from: "ffn.experts.up", shape: "experts " + ff + " width", bias: never, make: stacked},
		{to: "ffn_down_exps", from: "ffn.experts.down", shape: "experts width " + ff, bias: never, make: stacked},
	}
}

// qkvo are separate projections. biases says whether q, k and v have one.
func qkvo(biases needs) []row {
	return []row{
		{to: "attn_q", from: "attention.q", shape: "q width", bias: biases},
		{to: "attn_k", from: "attention.k", shape: "k width", bias: biases},
		{to: "attn_v", from: "attention.v", shape: "k width", bias: biases},
		{to: "attn_output", from: "attention.output", shape: "width q", bias: never},
	}
}

var (
	attnNorm       = row{to: "attn_norm", from: "attention_norm", shape: "width", bias: never}
	qwen2Attention = slices.Concat([]row{attnNorm}, qkvo(always))
	qwen3Attention = slices.Concat([]row{attnNorm}, qkvo(never), []row{
		{to: "attn_q_norm", from: "attention.q_norm", shape: "head", bias: never},
		{to: "attn_k_norm", from: "attention.k_norm", shape: "head", bias: never},
	})
	bertAttention = []row{
		{to: "attn_q", from: "attention.q", shape: "q width"},
		{to: "attn_k", from: "attention.k", shape: "k width"},
		{to: "attn_v", from: "attention.v", shape: "k width"},
		{to: "attn_output", from: "attention.output", shape: "width q"},
	}
)

// gemmaLayer is a layer with norms after its halves too; all norms are stored
// without the one that they add.
func gemmaLayer(norms []row) []row {
	norm := func(to, from string) []row {
		return []row{{to: to, from: from, shape: "width", bias: never, make: plusOne}}
	}
	return slices.Concat(
		norm("attn_norm", "attention_norm"), qkvo(never), norms, norm("post_attention_norm", "post_attention_norm"),
		norm("ffn_norm", "ffn_norm"), gated[1:], norm("post_ffw_norm", "post_ffn_norm"))
}

// deepseek2 has attention through a latent vector, and dense layers before those
// with experts. Layers after the last predict further tokens.
var deepseek2 = &layout{
	first: []part{tokens},
	layer: []part{
		{rows: []row{attnNorm}},
		{when: hasInLayer("attention.q_a.weight"), rows: []row{
			{to: "attn_q_a", from: "attention.q_a", shape: "q_rank width", bias: never},
			{to: "attn_q_a_norm", from: "attention.q_a_norm", shape: "q_rank", bias: never},
			{to: "attn_q_b", from: "attention.q_b", shape: "q q_rank", bias: never},
		}},
		{when: not(hasInLayer("attention.q_a.weight")), rows: []row{
			{to: "attn_q", from: "attention.q", shape: "q width", bias: never},
		}},
		{rows: []row{
			{to: "attn_kv_a_mqa", from: "attention.kv_a", shape: "kv_a width", bias: never},
			{to: "attn_kv_a_norm", from: "attention.kv_a_norm", shape: "kv_rank", bias: never},
			{to: "attn_k_b", from: "attention.k_b", shape: "heads kv_rank nope", bias: never, make: latentK},
			{to: "attn_v_b", from: "attention.v_b", shape: "heads v_head kv_rank", bias: never, make: latentV},
			{to: "attn_output", from: "attention.output", shape: "width v", bias: never},
			ffnNorm,
		}},
		{when: leading, rows: gated[1:]},
		{when: not(leading), rows: experts("eff")},
		{when: not(leading), rows: []row{
			{to: "exp_probs_b", from: "ffn.router.correction", shape: "experts", weight: never, bias: maybe},
			{to: "ffn_gate_shexp", from: "ffn.shared.gate", shape: "sff width", bias: never},
			{to: "ffn_up_shexp", from: "ffn.shared.up", shape: "sff width", bias: never},
			{to: "ffn_down_shexp", from: "ffn.shared.down", shape: "width sff", bias: never},
		}},
	},
	last:        []part{ending(maybe)},
	extraLayers: true,
	dims: func(x *maker) error {
		return x.bind(widths, latentHeads, feedForward, mixtureDims, fields("eff", "moe_intermediate_size"), sharedExperts)
	},
}

// gptOSS has biases everywhere and experts whose gates and ups alternate.
var gptOSS = &layout{
	first: []part{tokens},
	layer: []part{{rows: []row{
		attnNorm,
		{to: "attn_q", from: "attention.q", shape: "q width"},
		{to: "attn_k", from: "attention.k", shape: "k width"},
		{to: "attn_v", from: "attention.v", shape: "k width"},
		{to: "attn_output", from: "attention.output", shape: "width q"},
		{to: "attn_sinks", from: "attention.sinks", shape: "heads", bias: never},
		{to: "post_attention_norm", from: "ffn_norm", shape: "width", bias: never},
		{to: "ffn_gate_inp", from: "ffn.router", shape: "experts width"},
		{to: "ffn_gate_exps", from: "ffn.experts.gate", shape: "experts ff width", make: alternating},
		{to: "ffn_up_exps", from: "ffn.experts.up", shape: "experts ff width", make: alternating},
		{to: "ffn_down_exps", from: "ffn.experts.down", shape: "experts width ff", make: alternating},
	}}},
	last: []part{ending(always)},
	dims: func(x *maker) error { return x.bind(widths, heads, feedForward, mixtureDims) },
}
