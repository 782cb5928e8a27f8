package testmodel

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/tensorfs/tensorfs"
)

// Logical is a small model apart from any format: what all formats must agree
// on. Rows of q and k are in Hugging Face's order.
type Logical struct {
	Family         string // "llama" or "qwen2"; as GGUF and Hugging Face call it
	Heads, KVHeads int
	Dim, FFN       int
	Vocab, Layers  int
	// Step is the distance between the 16 values of matrices: every type of 4 bits or more
	// holds them exactly. 0 means arbitrary values.
	Step    float32
	Weights []Weight
}

// Weight is a tensor of a Logical.
type Weight struct {
	Name     string // canonical
	GGUF, HF string // in files
	Shape    []int64
	Values   []float32
}

// Matrix reports whether the weight is quantised where its model is.
func (w *Weight) Matrix() bool { return len(w.Shape) == 2 }

// names are the names of a layer's parts in the three spellings.
var names = [][3]string{
	{"layers.{n}.attention_norm.weight", "blk.{n}.attn_norm.weight", "model.layers.{n}.input_layernorm.weight"},
	{"layers.{n}.attention.q.weight", "blk.{n}.attn_q.weight", "model.layers.{n}.self_attn.q_proj.weight"},
	{"layers.{n}.attention.k.weight", "blk.{n}.attn_k.weight", "model.layers.{n}.self_attn.k_proj.weight"},
	{"layers.{n}.attention.v.weight", "blk.{n}.attn_v.weight", "model.layers.{n}.self_attn.v_proj.weight"},
	{"layers.{n}.attention.q.bias", "blk.{n}.attn_q.bias", "model.layers.{n}.self_attn.q_proj.bias"},
	{"layers.{n}.attention.k.bias", "blk.{n}.attn_k.bias", "model.layers.{n}.self_attn.k_proj.bias"},
	{"layers.{n}.attention.v.bias", "blk.{n}.attn_v.bias", "model.layers.{n}.self_attn.v_proj.bias"},
	{"layers.{n}.attention.output.weight", "blk.{n}.attn_output.weight", "model.layers.{n}.self_attn.o_proj.weight"},
	{"layers.{n}.ffn_norm.weight", "blk.{n}.ffn_norm.weight", "model.layers.{n}.post_attention_layernorm.weight"},
	{"layers.{n}.ffn.gate.weight", "blk.{n}.ffn_gate.weight", "model.layers.{n}.mlp.gate_proj.weight"},
	{"layers.{n}.ffn.up.weight", "blk.{n}.ffn_up.weight", "model.layers.{n}.mlp.up_proj.weight"},
	{"layers.{n}.ffn.down.weight", "blk.{n}.ffn_down.weight", "model.layers.{n}.mlp.down_proj.weight"},
	{"token_embedding.weight", "token_embd.weight", "model.embed_tokens.weight"},
	{"output_norm.weight", "output_norm.weight", "model.norm.weight"},
	{"output.weight", "output.weight", "lm_head.weight"},
}

// NewLogical returns a model of a family with two layers; biases of q, k and v
// where the family has them. Step is as in Logical.
func NewLogical(family string, step float32) *Logical {
	l := &Logical{Family: family, Heads: 4, KVHeads: 2, Dim: 64, FFN: 128, Vocab: 96, Layers: 2, Step: step}
	r := rand.New(rand.NewPCG(1, 2))
	dim, kv, ffn := int64(l.Dim), int64(l.Dim/l.Heads*l.KVHeads), int64(l.FFN)
	for _, n := range names {
		part := n[0][strings.IndexByte(n[0], '}')+1:] // "" + name for what has no layer
		shape := map[string][]int64{
			".attention.q.weight": {dim, dim}, ".attention.k.weight": {kv, dim}, ".attention.v.weight": {kv, dim}, ".attention.output.weight": {dim, dim},
			".attention.q.bias": {dim}, ".attention.k.bias": {kv}, ".attention.v.bias": {kv},
			".ffn.gate.weight": {ffn, dim}, ".ffn.up.weight": {ffn, dim}, ".ffn.down.weight": {dim, ffn},
			"token_embedding.weight": {int64(l.Vocab), dim}, "output.weight": {int64(l.Vocab), dim},
		}[part]
		if shape == nil {
			shape = []int64{dim} // norms
		}
		layers := l.Layers
		if strings.HasSuffix(part, ".bias") && family != "qwen2" {
			continue
		}
		if !strings.Contains(n[0], "{n}") {
			layers = 1
		}
		for i := range layers {
			number := strings.NewReplacer("{n}", fmt.Sprint(i))
			w := Weight{Name: number.Replace(n[0]), GGUF: number.Replace(n[1]), HF: number.Replace(n[2]), Shape: shape}
			count, _ := tensorfs.Elements(shape)
			w.Values = make([]float32, count)
			for j := range w.Values {
				switch {
				case !w.Matrix():
					w.Values[j] = 1 + float32(r.IntN(64)-32)/64 // exact in 16 bits of either kind
				case step > 0:
					w.Values[j] = float32(r.IntN(16)-8) * step
				default:
					w.Values[j] = float32(r.NormFloat64()) / 8
				}
			}
			l.Weights = append(l.Weights, w)
		}
	}
	return l
}

// Permuted returns the values as GGUF has them: llama.cpp turns the rows of q
// and k of Llama so that the two halves of a head alternate.
func (l *Logical) Permuted(w *Weight) []float32 {
	heads := 0
	switch {
	case l.Family != "llama":
	case strings.Contains(w.Name, ".attention.q."):
		heads = l.Heads
	case strings.Contains(w.Name, ".attention.k."):
		heads = l.KVHeads
	}
	if heads == 0 {
		return w.Values
	}
	rows := int(w.Shape[0])
	cols, d := len(w.Values)/rows, rows/heads
	out := make([]float32, 0, len(w.Values))
	for row := range rows {
		h, r := row/d, row%d
		from := h*d + r%2*(d/2) + r/2
		out = append(out, w.Values[from*cols:][:cols]...)
	}
	return out
}

// AsGGUF returns the model as a GGUF file whose matrices have the type.
func (l *Logical) AsGGUF(d tensorfs.DType, bigEndian bool) GGUF {
	key := func(k string, v any) tensorfs.Meta { return tensorfs.Meta{Key: l.Family + "." + k, Value: v} }
	tokens, types := make([]string, l.Vocab), make([]int32, l.Vocab)
	for i := range tokens {
		tokens[i], types[i] = fmt.Sprintf("t%d", i), 1
	}
	g := GGUF{BigEndian: bigEndian, Meta: []tensorfs.Meta{
		{Key: "general.architecture", Value: l.Family},
		key("block_count", uint32(l.Layers)),
		key("context_length", uint32(512)),
		key("embedding_length", uint32(l.Dim)),
		key("feed_forward_length", uint32(l.FFN)),
		key("attention.head_count", uint32(l.Heads)),
		key("attention.head_count_kv", uint32(l.KVHeads)),
		key("attention.layer_norm_rms_epsilon", float32(1e-5)),
		key("rope.freq_base", float32(10000)),
		key("rope.dimension_count", uint32(l.Dim/l.Heads)),
		{Key: "tokenizer.ggml.model", Value: "llama"},
		{Key: "tokenizer.ggml.tokens", Value: tokens},
		{Key: "tokenizer.ggml.token_type", Value: types},
	}}
	for i := range l.Weights {
		w := &l.Weights[i]
		t := d
		if !w.Matrix() {
			t = tensorfs.F32
		}
		data := Encode(t, l.Permuted(w), l.Step)
		if bigEndian {
			swap(t, data)
		}
		g.Tensors = append(g.Tensors, GGUFTensor{w.GGUF, w.Shape, uint32(t.GGML()), data})
	}
	return g
}

// AsSafetensors returns the model's tensors as Hugging Face stores them.
func (l *Logical) AsSafetensors(d tensorfs.DType) (ts []SafeTensor) {
	for _, w := range l.Weights {
		ts = append(ts, SafeTensor{w.HF, d, w.Shape, Encode(d, w.Values, 0)})
	}
	return ts
}

// AsMLX returns the model's tensors as MLX stores them, matrices quantised.
func (l *Logical) AsMLX(bits, group int, scales tensorfs.DType) (ts []SafeTensor) {
	for i := range l.Weights {
		w := &l.Weights[i]
		if !w.Matrix() {
			ts = append(ts, SafeTensor{w.HF, scales, w.Shape, Encode(scales, w.Values, 0)})
			continue
		}
		stem := strings.TrimSuffix(w.HF, ".weight")
		codes, s, b := Affine(bits, group, w.Values, l.Step)
		packed := []int64{w.Shape[0], w.Shape[1] * int64(bits) / 32}
		groups := []int64{w.Shape[0], w.Shape[1] / int64(group)}
		ts = append(ts,
			SafeTensor{w.HF, tensorfs.U32, packed, codes},
			SafeTensor{stem + ".scales", scales, groups, Encode(scales, s, 0)},
			SafeTensor{stem + ".biases", scales, groups, Encode(scales, b, 0)})
	}
	return ts
}

// Config returns what config.json of a Hugging Face directory has.
func (l *Logical) Config() map[string]any {
	class := map[string]string{"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM"}[l.Family]
	return map[string]any{
		"architectures": []string{class}, "model_type": l.Family, "hidden_size": l.Dim, "intermediate_size": l.FFN,
		"num_hidden_layers": l.Layers, "num_attention_heads": l.Heads, "num_key_value_heads": l.KVHeads, "vocab_size": l.Vocab,
		"max_position_embeddings": 512, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": false,
	}
}
