package whole

// layout says which tensors llama.cpp asks for in an architecture, in the order in
// which it needs them.
type layout struct {
	first, layer, last []part
	dropped            []pattern
	extraLayers        bool // layers after the last one are dropped
	// dims sets the lengths of dimensions that the config gives. The others are those
	// of the first tensor that has them.
	dims func(x *maker) error
}

// part is tensors of a layer that are there together.
type part struct {
	when func(x *maker) bool // nil: always
	rows []row
}

// needs says whether a tensor has to be there.
type needs int

const (
	always needs = iota
	maybe
	never
)

// row is a module of GGUF: its name and that of the model's, without .weight and
// .bias, and the dimensions of the weight, outermost first, as words or numbers.
// The bias has the first of two dimensions, the first two of three, or the same
// one as the weight.
type row struct {
	to, from, shape string
	bias, weight    needs
	// make returns the tensor as GGUF has it, nil where the model does not have it; nil
	// is asStored. Its argument is the name without, and with, the last part.
	make move
}

// layouts are the architectures, by GGUF's name.
var layouts = map[string]*layout{
	"llama": {
		first: []part{tokens,
			{when: ropeIs("llama3"), rows: []row{{to: "rope_freqs", shape: "rot", bias: never, make: ropeFreqs}}},
			{when: ropeIs("longrope"), rows: []row{{to: "rope_freqs", from: "long_factor", shape: "rot", bias: never, make: ropeFactors}}},
		},
		layer: []part{
			{rows: []row{
				{to: "attn_norm", from: "attention_norm", shape: "width", bias: never},
				{to: "attn_q", from: "attention.q", shape: "q width", bias: maybe, make: permuteQ},
				{to: "attn_k", from: "attention.k", shape: "k width", bias: maybe, make: permuteK},
				{to: "attn_v", from: "attention.v", shape: "k width", bias: maybe},
				{to: "attn_output", from: "attention.output", shape: "width q", bias: maybe},
				ffnNorm,
			}},
			{when: not(mixture), rows: []row{
				{to: "ffn_gate", from: "ffn.gate", shape: "ff width", bias: maybe},
				{to: "ffn_up", from: "ffn.up", shape: "ff width", bias: maybe},
				{to: "ffn_down", from: "ffn.down", shape: "width ff", bias: maybe},
			}},
			{when: mixture, rows: experts("ff")},
		},
		last: []part{ending(maybe)},
		dims: func(x *maker) error { return x.bind(widths, heads, feedForward, mixtureDims) },
	},
	"qwen2": {
		first: []part{tokens},
		layer: []part{{rows: qwen2Attention}, {rows: gated}},
		last:  []part{ending(maybe)},
		dims:  func(x *maker) error { return x.bind(widths, heads, feedForward) },
	},
	"qwen2moe": {
		first: []part{tokens},
		layer: []part{{rows: qwen2Attention}, {rows: []row{ffnNorm}}, {rows: experts("eff")}, {rows: []row{
			{to: "ffn_gate_inp_shexp", from: "ffn.shared.router", shape: "1 width", bias: never},
			{to: "ffn_gate_shexp", from: "ffn.shared.gate", shape: "sff width", bias: never},
			{to: "ffn_up_shexp", from: "ffn.shared.up", shape: "sff width", bias: never},
			{to: "ffn_down_shexp", from: "ffn.shared.down", shape: "width sff", bias: never},
		}}},
		last: []part{ending(always)},
		dims: func(x *maker) error {
			return x.bind(widths, heads, mixtureDims, fields("eff", "moe_intermediate_size"), fields("sff", "shared_expert_intermediate_size"))
		},
	},
	"qwen3": {
		first: []part{tokens},
		layer: []part{{rows: qwen3Attention}, {rows: gated}},
		last:  []part{ending(maybe)},
		dims:  func(x *maker) error { return x.bind(widths, heads, feedForward) },
	},
	"qwen3moe": {
		first: []part{tokens},
		layer: []part{{rows: qwen3Attention}, {rows: []row{ffnNorm}}, {rows: experts("eff")}},
		last:  []part{ending(maybe)},
		dims: func(x *maker) error {
			return x.bind(widths, heads, mixtureDims, fields("eff", "moe_intermediate_size"))
		},
	},
	"gemma2": {
		first:   []part{tokens},
		layer:   []part{{rows: gemmaLayer(nil)}},
		last:    []part{gemmaEnding(never)},
		dropped: []pattern{{name: "output."}},
		dims:    func(x *maker) error { return x.bind(widths, heads, feedForward) },
	},
	"gemma3": {
		first: []part{tokens},
		layer: []part{{rows: gemmaLayer([]row{
			{to: "attn_q_norm", from: "attention.q_norm", shape: "head", bias: never, make: plusOne},
			{to: "attn_k_norm", from: "attention.k_norm", shape: "head", bias: never, make: plusOne},
		})}},
		last: []part{gemmaEnding(maybe)},
		dims: func(x *maker) error { return x.bind(widths, heads, feedForward) },
	},
	"phi3": {
		first: []part{tokens, {when: ropeIs("longrope", "su", "yarn"), rows: []row{
			{to: "rope_factors_long", from: "long_factor", shape: "rot", bias: never, make: ropeFactors},
			{to: "rope_factors_short", from: "short_factor", shape: "rot", bias: never, make: ropeFactors},
		}}},
		layer: []part{{rows: []row{
			{to: "attn_norm", from: "attention_norm", shape: "width", bias: never},
			{to: "attn_qkv", from: "attention.qkv", shape: "qkv width", bias: never},
			{to: "attn_output", from: "attention.output", shape: "width q", bias: never},
			ffnNorm,
			{to: "ffn_up", from: "ffn.gate_up", shape: "2ff width", bias: never},
			{to: "ffn_down", from: "ffn.down", shape: "width ff", bias: never},
		}}},
		last: []part{ending(maybe)},
		dims: func(x *maker) error { return x.bind(widths, joinedHeads, feedForward, twice("2ff", "ff"), phi3Rot) },
	},
	"gpt2": {
		first: []part{tokens, positions},
		layer: []part{{rows: []row{
			{to: "attn_norm", from: "attention_norm", shape: "width"},
			{to: "attn_qkv", from: "attention.qkv", shape: "qkv width", make: conv1D},
			{to: "attn_output", from: "attention.output", shape: "width width", make: conv1D},
			{to: "ffn_norm", from: "ffn_norm", shape: "width"},
			{to: "ffn_up", from: "ffn.up", shape: "ff width", make: conv1D},
			{to: "ffn_down", from: "ffn.down", shape: "width ff", make: conv1D},
		}}},
		last:    []part{endingWithBias(maybe)},
		dropped: []pattern{{end: ".attn.bias"}, {end: ".attn.masked_bias"}},
		dims:    func(x *maker) error { return x.bind(widths, joinedHeads, fourfold("n_inner")) },
	},
	"starcoder2": {
		first: []part{tokens},
		layer: []part{{rows: []row{
			{to: "attn_norm", from: "attention_norm", shape: "width"},
			{to: "attn_q", from: "attention.q", shape: "q width"},
			{to: "attn_k", from: "attention.k", shape: "k width"},
			{to: "attn_v", from: "attention.v", shape: "k width"},
			{to: "attn_output", from: "attention.output", shape: "width q"},
			{to: "ffn_norm", from: "ffn_norm", shape: "width"},
			{to: "ffn_up", from: "ffn.up", shape: "ff width"},
			{to: "ffn_down", from: "ffn.down", shape: "width ff"},
		}}},
		last: []part{endingWithBias(maybe)},
		dims: func(x *maker) error { return x.bind(widths, heads, feedForward) },
	},
	"falcon": {
		first: []part{tokens},
		layer: []part{{rows: []row{
			{to: "attn_norm", from: "attention_norm", shape: "width"},
			{to: "attn_norm_2", from: "attention_norm_2", shape: "width", weight: maybe, bias: maybe},
			{to: "attn_qkv", from: "attention.qkv", shape: "qkv width", bias: never, make: ungroup},
			{to: "attn_output", from: "attention.output", shape: "width width", bias: never},
			{to: "ffn_up", from: "ffn.up", shape: "ff width", bias: never},
			{to: "ffn_down", from: "ffn.down", shape: "width ff", bias: never},
		}}},
		last: []part{endingWithBias(maybe)},
		dims: func(x *maker) error { return x.bind(widths, falconHeads, fourfold()) },
	},
	"deepseek2": deepseek2,
	"gpt-oss":   gptOSS,
	"bert": {
		first:   []part{tokens, {rows: []row{{to: "position_embd", from: "position_embedding", shape: "positions width", bias: never, make: bertPositions}, tokenTypes, tokenNorm}}},
		layer:   []part{{rows: bertAttention}, {rows: []row{{to: "attn_output_norm", from: "attention_output_norm", shape: "width"}}}, {rows: plainFFN}, {rows: []row{{to: "layer_output_norm", from: "layer_output_norm", shape: "width"}}}},
		dropped: []pattern{{name: "pooler."}, {name: "mlm."}, {end: "embeddings.position_ids"}, {source: "cls."}},
		dims:    func(x *maker) error { return x.bind(widths, heads, feedForward, fields("types", "type_vocab_size")) },
	},
	"nomic-bert": {
		first: []part{tokens, {rows: []row{tokenTypes, tokenNorm}}},
		layer: []part{{rows: []row{
			{to: "attn_qkv", from: "attention.qkv", shape: "qkv width", bias: never},
			{to: "attn_output", from: "attention.output", shape: "width width", bias: never},
			{to: "attn_output_norm", from: "attention_output_norm", shape: "width"},
			{to: "ffn_up", from: "ffn.up", shape: "ff width", bias: never},
			{to: "ffn_gate", from: "ffn.gate", shape: "ff width", bias: never},
			{to: "ffn_down", from: "ffn.down", shape: "width ff", bias: never},
			{to: "layer_output_norm", from: "layer_output_norm", shape: "width"},
		}}},
		dropped: []pattern{{name: "pooler."}, {name: "mlm."}, {source: "cls."}},
		dims: func(x *maker) error {
			return x.bind(widths, joinedHeads, feedForward, fields("types", "type_vocab_size"))
		},
	},
}
