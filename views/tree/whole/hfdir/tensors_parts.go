package hfdir

import (
	"fmt"
	"slices"

	"github.com/tensorfs/tensorfs"
)

// Parts that several architectures have.

var (
	embedTokens = tensorPart{rows: []tensorRow{{from: "token_embedding", to: "model.embed_tokens", shape: "vocab width", bias: never}}}
	ending      = tensorPart{rows: []tensorRow{
		{from: "output_norm", to: "model.norm", shape: "width", bias: never},
		{from: "output", to: "lm_head", shape: "vocab width", weight: maybe, bias: never},
	}}
	gemmaEnding = tensorPart{rows: []tensorRow{
		{from: "output_norm", to: "model.norm", shape: "width", bias: never, make: lessOne},
		{from: "output", to: "lm_head", shape: "vocab width", weight: maybe, bias: never},
	}}
	transformerEnding = tensorPart{rows: []tensorRow{
		{from: "output_norm", to: "transformer.ln_f", shape: "width"},
		{from: "output", to: "lm_head", shape: "vocab width", weight: maybe, bias: never},
	}}

	inputNorm = tensorRow{from: "attention_norm", to: "input_layernorm", shape: "width", bias: never}
	postNorm  = tensorRow{from: "ffn_norm", to: "post_attention_layernorm", shape: "width", bias: never}
	router    = tensorRow{from: "ffn.router", to: "mlp.gate", shape: "experts width", bias: never, plain: true}
	expertRow = tensorRow{from: "ffn.experts", to: "mlp", all: plainExperts}
)

// gatedFFN is a feed-forward network with a gate.
var gatedFFN = []tensorRow{
	{from: "ffn.gate", to: "mlp.gate_proj", shape: "ff width", bias: never},
	{from: "ffn.up", to: "mlp.up_proj", shape: "ff width", bias: never},
	{from: "ffn.down", to: "mlp.down_proj", shape: "width ff", bias: never},
}

// qkvoRows are separate projections, with or without biases.
func qkvoRows(qkv, output tensorNeed) []tensorRow {
	return []tensorRow{
		{from: "attention.q", to: "self_attn.q_proj", shape: "q width", bias: qkv},
		{from: "attention.k", to: "self_attn.k_proj", shape: "k width", bias: qkv},
		{from: "attention.v", to: "self_attn.v_proj", shape: "k width", bias: qkv},
		{from: "attention.output", to: "self_attn.o_proj", shape: "width q", bias: output},
	}
}

// llamaAttention is qkvoRows with the rows of q and k in the order of Hugging Face.
var llamaAttention = func() []tensorRow {
	rows := qkvoRows(never, never)
	rows[0].make, rows[1].make = headHalves("heads"), headHalves("kv_heads")
	return rows
}()

// llamaDims is headDims. A bias of q has rows in one of two orders, and nothing
// says in which.
func llamaDims(x *tensorMaker) error {
	for n := range x.layers {
		if t := x.find(fmt.Sprintf("layers.%d.attention.q.bias", n)); t != nil {
			return fmt.Errorf("whether the rows of %s are permuted cannot be told, because programs that write such files disagree", tensorfs.Quote(t.Source))
		}
	}
	return headDims(x)
}

// headNorms are norms of each head of q and k.
func headNorms(make func(x *tensorMaker, t *tensorfs.Tensor, param string) (*tensorfs.Tensor, error)) []tensorRow {
	return []tensorRow{
		{from: "attention.q_norm", to: "self_attn.q_norm", shape: "head", bias: never, make: make},
		{from: "attention.k_norm", to: "self_attn.k_norm", shape: "head", bias: never, make: make},
	}
}

// gemmaLayer is a layer with norms after its halves too; Hugging Face stores all
// norms without the one that they add.
func gemmaLayer(norms []tensorRow) []tensorRow {
	norm := func(from, to string) []tensorRow {
		return []tensorRow{{from: from, to: to, shape: "width", bias: never, make: lessOne}}
	}
	return slices.Concat(
		norm("attention_norm", "input_layernorm"), qkvoRows(never, never), norms,
		norm("post_attention_norm", "post_attention_layernorm"), norm("ffn_norm", "pre_feedforward_layernorm"),
		gatedFFN, norm("post_ffn_norm", "post_feedforward_layernorm"))
}
