package hfdir

import (
	"slices"

	"github.com/tensorfs/tensorfs"
)

// tensorLayout says which tensors an architecture has in GGUF, and what they are
// called by Hugging Face.
type tensorLayout struct {
	prefix             string // of layers, before their number
	mlxPrefix          string // of all names in mlx-lm
	first, layer, last []tensorPart
	inConfig           []string // canonical names of what config.json holds
	noMLX              bool     // mlx-lm has no such class
	// dims sets the lengths of dimensions that follow from the metadata. Others are
	// those of the first tensor that has them.
	dims func(x *tensorMaker) error
}

// tensorPart is rows of a layer that are there together.
type tensorPart struct {
	when func(x *tensorMaker) bool // nil: always
	rows []tensorRow
}

// tensorNeed says whether a tensor has to be there.
type tensorNeed int

const (
	always tensorNeed = iota
	maybe
	never
)

// tensorRow is a module: its canonical name and Hugging Face's, without .weight and
// .bias, and the dimensions of the stored weight, outermost first, "" for any. The
// bias has all but the last of them, or the same one.
type tensorRow struct {
	from, to, shape string
	bias, weight    tensorNeed
	mlx             string // its name in mlx-lm, "" for the same
	plain           bool   // mlx-lm takes it as plain numbers alone
	bare            bool   // its name has no .weight
	// make returns the tensor as Hugging Face has it; nil: as it is stored.
	make func(x *tensorMaker, t *tensorfs.Tensor, param string) (*tensorfs.Tensor, error)
	// all makes every tensor of the row, where they are not one for one.
	all func(x *tensorMaker, r *tensorRow) error
}

// tensorLayouts are the architectures, by GGUF's name; a llama with experts is
// mixtral.
var tensorLayouts = map[string]*tensorLayout{
	"llama": {
		prefix: "model.layers.", first: []tensorPart{embedTokens}, last: []tensorPart{ending},
		layer:    []tensorPart{{rows: slices.Concat([]tensorRow{inputNorm}, llamaAttention, []tensorRow{postNorm}, gatedFFN)}},
		inConfig: []string{"rope_freqs.weight"}, dims: llamaDims,
	},
	"mixtral": {
		prefix: "model.layers.", first: []tensorPart{embedTokens}, last: []tensorPart{ending},
		layer: []tensorPart{{rows: slices.Concat([]tensorRow{inputNorm}, llamaAttention, []tensorRow{postNorm}, []tensorRow{
			{from: "ffn.router", to: "block_sparse_moe.gate", shape: "experts width", bias: never, plain: true},
			{from: "ffn.experts", to: "block_sparse_moe", shape: "experts ff width", all: mixtralExperts},
		})}},
		inConfig: []string{"rope_freqs.weight"}, dims: llamaDims,
	},
	"qwen2": {
		prefix: "model.layers.", first: []tensorPart{embedTokens}, last: []tensorPart{ending},
		layer: []tensorPart{{rows: slices.Concat([]tensorRow{inputNorm}, qkvoRows(always, never), []tensorRow{postNorm}, gatedFFN)}},
		dims:  squareHeads,
	},
	"qwen2moe": {
		prefix: "model.layers.", first: []tensorPart{embedTokens}, last: []tensorPart{ending},
		layer: []tensorPart{{rows: slices.Concat([]tensorRow{inputNorm}, qkvoRows(always, never), []tensorRow{postNorm, router, expertRow}, []tensorRow{
			{from: "ffn.shared.router", to: "mlp.shared_expert_gate", bias: never, plain: true, make: oneRow},
			{from: "ffn.shared.gate", to: "mlp.shared_expert.gate_proj", shape: "sff width", bias: never},
			{from: "ffn.shared.up", to: "mlp.shared_expert.up_proj", shape: "sff width", bias: never},
			{from: "ffn.shared.down", to: "mlp.shared_expert.down_proj", shape: "width sff", bias: never},
		})}},
		dims: squareHeads,
	},
	"qwen3": {
		prefix: "model.layers.", first: []tensorPart{embedTokens}, last: []tensorPart{ending},
		layer: []tensorPart{{rows: slices.Concat([]tensorRow{inputNorm}, qkvoRows(never, never), headNorms(nil), []tensorRow{postNorm}, gatedFFN)}},
		dims:  headDims,
	},
	"qwen3moe": {
		prefix: "model.layers.", first: []tensorPart{embedTokens}, last: []tensorPart{ending},
		layer: []tensorPart{{rows: slices.Concat([]tensorRow{inputNorm}, qkvoRows(never, never), headNorms(nil), []tensorRow{postNorm, router, expertRow})}},
		dims:  headDims,
	},
	"gemma2": {
		prefix: "model.layers.", first: []tensorPart{embedTokens}, last: []tensorPart{gemmaEnding},
		layer: []tensorPart{{rows: gemmaLayer(nil)}}, dims: headDims,
	},
	"gemma3": {
		prefix: "model.layers.", first: []tensorPart{embedTokens}, last: []tensorPart{gemmaEnding},
		layer: []tensorPart{{rows: gemmaLayer(headNorms(lessOne))}}, dims: headDims,
	},
	"phi3": {
		prefix: "model.layers.", first: []tensorPart{embedTokens}, last: []tensorPart{ending},
		layer: []tensorPart{{rows: []tensorRow{
			inputNorm,
			{from: "attention.qkv", to: "self_attn.qkv_proj", shape: "qkv width", bias: never},
			{from: "attention.output", to: "self_attn.o_proj", shape: "width q", bias: never},
			postNorm,
			{from: "ffn.gate_up", to: "mlp.gate_up_proj", shape: "2ff width", bias: never},
			{from: "ffn.down", to: "mlp.down_proj", shape: "width ff", bias: never},
		}}},
		inConfig: []string{"rope_factors_long.weight", "rope_factors_short.weight"}, dims: phi3Dims,
	},
	"starcoder2": {
		prefix: "model.layers.", first: []tensorPart{embedTokens}, last: []tensorPart{{rows: []tensorRow{
			{from: "output_norm", to: "model.norm", shape: "width"},
			{from: "output", to: "lm_head", shape: "vocab width", weight: maybe, bias: never},
		}}},
		layer: []tensorPart{{rows: slices.Concat([]tensorRow{{from: "attention_norm", to: "input_layernorm", shape: "width"}}, qkvoRows(maybe, maybe), []tensorRow{
			{from: "ffn_norm", to: "post_attention_layernorm", shape: "width"},
			{from: "ffn.up", to: "mlp.c_fc", shape: "ff width", bias: maybe},
			{from: "ffn.down", to: "mlp.c_proj", shape: "width ff", bias: maybe},
		})}},
		dims: squareHeads,
	},
	"deepseek2": deepseekLayout,
	"gpt-oss":   gptOSSLayout,
	"gpt2":      gpt2Layout,
	"falcon":    falconLayout,
	"bloom":     bloomLayout,
	"bert":      bertLayout,
}

// deepseekLayout has attention through a latent vector, and dense layers before
// those with experts.
var deepseekLayout = &tensorLayout{
	prefix: "model.layers.", first: []tensorPart{embedTokens}, last: []tensorPart{ending},
	layer: []tensorPart{
		{rows: []tensorRow{inputNorm}},
		{when: hasLoRA, rows: []tensorRow{
			{from: "attention.q_a", to: "self_attn.q_a_proj", shape: "q_rank width", bias: never},
			{from: "attention.q_a_norm", to: "self_attn.q_a_layernorm", shape: "q_rank", bias: never},
			{from: "attention.q_b", to: "self_attn.q_b_proj", shape: "q q_rank", bias: never},
		}},
		{when: unless(hasLoRA), rows: []tensorRow{{from: "attention.q", to: "self_attn.q_proj", shape: "q width", bias: never}}},
		{rows: []tensorRow{
			{from: "attention.kv_a", to: "self_attn.kv_a_proj_with_mqa", shape: "kv_a width", bias: never},
			{from: "attention.kv_a_norm", to: "self_attn.kv_a_layernorm", shape: "kv_rank", bias: never},
			{from: "attention", to: "self_attn", all: latentKV},
			{from: "attention.output", to: "self_attn.o_proj", shape: "width v", bias: never},
			postNorm,
		}},
		{when: leadingDense, rows: gatedFFN},
		{when: unless(leadingDense), rows: []tensorRow{
			router, expertRow,
			{from: "ffn.router.correction", to: "mlp.gate." + correctionBias, shape: "experts", weight: never, bias: maybe, bare: true},
			{from: "ffn.shared.gate", to: "mlp.shared_experts.gate_proj", shape: "sff width", bias: never},
			{from: "ffn.shared.up", to: "mlp.shared_experts.up_proj", shape: "sff width", bias: never},
			{from: "ffn.shared.down", to: "mlp.shared_experts.down_proj", shape: "width sff", bias: never},
		}},
	},
	dims: latentDims,
}

// gptOSSLayout has biases everywhere and experts whose gates and ups alternate.
var gptOSSLayout = &tensorLayout{
	prefix: "model.layers.", first: []tensorPart{embedTokens}, last: []tensorPart{ending},
	layer: []tensorPart{{rows: slices.Concat([]tensorRow{inputNorm}, qkvoRows(always, always), []tensorRow{
		{from: "attention.sinks", to: "self_attn.sinks", shape: "heads", bias: never, bare: true},
		postNorm,
		{from: "ffn.router", to: "mlp.router", shape: "experts width", plain: true},
		{from: "ffn.experts", to: "mlp.experts", all: gptOSSExperts},
	})}},
	dims: headDims,
}

// gpt2Layout has weights as [in, out], and names as in the official checkpoint.
var gpt2Layout = &tensorLayout{
	prefix: "h.", mlxPrefix: "model.",
	first: []tensorPart{{rows: []tensorRow{
		{from: "token_embedding", to: "wte", shape: "vocab width", bias: never},
		{from: "position_embedding", to: "wpe", shape: "positions width", bias: never},
	}}},
	layer: []tensorPart{{rows: []tensorRow{
		{from: "attention_norm", to: "ln_1", shape: "width"},
		{from: "attention.qkv", to: "attn.c_attn", shape: "qkv width", make: inOut},
		{from: "attention.output", to: "attn.c_proj", shape: "width q", make: inOut},
		{from: "ffn_norm", to: "ln_2", shape: "width"},
		{from: "ffn.up", to: "mlp.c_fc", shape: "ff width", make: inOut},
		{from: "ffn.down", to: "mlp.c_proj", shape: "width ff", make: inOut},
	}}},
	last: []tensorPart{{rows: []tensorRow{
		{from: "output_norm", to: "ln_f", shape: "width"},
		{from: "output", to: "lm_head", all: gpt2Head},
	}}},
	dims: gpt2Dims,
}

var falconLayout = &tensorLayout{
	prefix: "transformer.h.", noMLX: true,
	first: []tensorPart{{rows: []tensorRow{{from: "token_embedding", to: "transformer.word_embeddings", shape: "vocab width", bias: never}}}},
	layer: []tensorPart{
		{when: falconNew, rows: []tensorRow{
			{from: "attention_norm", to: "ln_mlp", shape: "width"},
			{from: "attention_norm_2", to: "ln_attn", shape: "width"},
		}},
		{when: unless(falconNew), rows: []tensorRow{{from: "attention_norm", to: "input_layernorm", shape: "width"}}},
		{rows: []tensorRow{
			{from: "attention.qkv", to: "self_attention.query_key_value", shape: "qkv width", bias: never, make: falconGroups},
			{from: "attention.output", to: "self_attention.dense", shape: "width q", bias: never},
			{from: "ffn.up", to: "mlp.dense_h_to_4h", shape: "ff width", bias: never},
			{from: "ffn.down", to: "mlp.dense_4h_to_h", shape: "width ff", bias: never},
		}},
	},
	last: []tensorPart{transformerEnding},
	dims: falconDims,
}

var bloomLayout = &tensorLayout{
	prefix: "transformer.h.", noMLX: true,
	first: []tensorPart{{rows: []tensorRow{
		{from: "token_embedding", to: "transformer.word_embeddings", shape: "vocab width", bias: never},
		{from: "token_embedding_norm", to: "transformer.word_embeddings_layernorm", shape: "width"},
	}}},
	layer: []tensorPart{{rows: []tensorRow{
		{from: "attention_norm", to: "input_layernorm", shape: "width"},
		{from: "attention.qkv", to: "self_attention.query_key_value", shape: "qkv width", make: bloomHeads},
		{from: "attention.output", to: "self_attention.dense", shape: "width q"},
		{from: "ffn_norm", to: "post_attention_layernorm", shape: "width"},
		{from: "ffn.up", to: "mlp.dense_h_to_4h", shape: "ff width"},
		{from: "ffn.down", to: "mlp.dense_4h_to_h", shape: "width ff"},
	}}},
	last: []tensorPart{transformerEnding},
	dims: fourfoldWidth,
}

// bertLayout has names without "bert.", which every loader takes.
var bertLayout = &tensorLayout{
	prefix: "encoder.layer.", noMLX: true,
	first: []tensorPart{{rows: []tensorRow{
		{from: "token_embedding", to: "embeddings.word_embeddings", shape: "vocab width", bias: never},
		{from: "position_embedding", to: "embeddings.position_embeddings", shape: "positions width", bias: never},
		{from: "token_type_embedding", to: "embeddings.token_type_embeddings", bias: never, make: tokenTypeRows},
		{from: "token_embedding_norm", to: "embeddings.LayerNorm", shape: "width"},
	}}},
	layer: []tensorPart{{rows: []tensorRow{
		{from: "attention.q", to: "attention.self.query", shape: "q width"},
		{from: "attention.k", to: "attention.self.key", shape: "q width"},
		{from: "attention.v", to: "attention.self.value", shape: "q width"},
		{from: "attention.output", to: "attention.output.dense", shape: "width q"},
		{from: "attention_output_norm", to: "attention.output.LayerNorm", shape: "width"},
		{from: "ffn.up", to: "intermediate.dense", shape: "ff width"},
		{from: "ffn.down", to: "output.dense", shape: "width ff"},
		{from: "layer_output_norm", to: "output.LayerNorm", shape: "width"},
	}}},
	dims: squareHeads,
}
