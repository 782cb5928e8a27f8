package testtree

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
)

// Sample returns a tree with every kind of tensor that a client meets: bytes stored in the
// model at good and at odd offsets, in several extents, and converted ones; sections; an
// empty tensor; a view that leaves one out.
//
// f16/token_embedding.weight holds the numbers 0, 1, 2, ... 4095 in shape [64, 64]. Numbers
// beyond 2048 are even.
func Sample() *Tree {
	rng := rand.New(rand.NewPCG(1, 2))
	model := make([]byte, 300_000)
	for i := range model {
		model[i] = byte(rng.Uint32())
	}
	counting := make([]byte, 0, 2*4096)
	for i := range 4096 {
		// Whole numbers up to 2048 are halves; beyond, the even ones are.
		if i > 2048 {
			i &^= 1
		}
		binary.LittleEndian.PutUint32(model[230_000+2*len(counting):], math.Float32bits(float32(i)))
		counting = binary.LittleEndian.AppendUint16(counting, half(float32(i)))
	}
	at := func(offset, bytes int64) []Extent { return []Extent{{"model.gguf", offset, bytes}} }
	up := model[260_000:]
	q4k, affine, f16 := 12, 100, 1
	quant := &Quant{"affine", 4, 32}
	return &Tree{
		Sources: map[string][]byte{"model.gguf": model, "sub/shard-2.bin": model[:70_000]},
		Tensors: []Tensor{
			{View: "raw", Name: "token_embedding.weight", DType: "F32", Shape: []int64{64, 64}, Extents: at(230_000, 4*4096)},
			{View: "f16", Name: "token_embedding.weight", DType: "F16", Shape: []int64{64, 64}, Data: counting, Engine: &f16},
			{View: "raw", Name: "shifted.weight", DType: "F16", Shape: []int64{3, 1001}, Extents: at(250_007, 6006)},
			{View: "f16", Name: "shifted.weight", DType: "F16", Shape: []int64{3, 1001}, Extents: at(250_007, 6006), Engine: &f16},
			{View: "raw", Name: "layers.0.attention_norm.weight", DType: "F16", Shape: []int64{50}, Extents: at(96, 100)},
			{View: "f16", Name: "layers.0.attention_norm.weight", DType: "F16", Shape: []int64{50}, Extents: at(96, 100), Engine: &f16},
			{View: "raw", Name: "layers.0.attention.q.weight", DType: "Q4_K", Shape: []int64{500, 256}, Extents: at(4096+32, 72_000)},
			{View: "raw", Name: "layers.0.attention.k.weight", DType: "Q4_K", Shape: []int64{500, 256}, Extents: at(76_160, 72_000)},
			{View: "raw", Name: "layers.0.attention.v.weight", DType: "Q4_K", Shape: []int64{500, 256}, Extents: at(148_192, 72_000)},
			{View: "raw", Name: "odd.weight", DType: "F32", Shape: []int64{10}, Extents: at(220_193, 40)},
			{View: "raw", Name: "two.weight", DType: "F16", Shape: []int64{10}, Extents: at(220_194, 20)},
			{View: "raw", Name: "four.weight", DType: "F64", Shape: []int64{10}, Extents: at(220_196, 80)},
			{View: "raw", Name: "eight.weight", DType: "I64", Shape: []int64{10}, Extents: at(220_200, 80)},
			{View: "raw", Name: "last.weight", DType: "F32", Shape: []int64{25}, Extents: at(299_900, 100)},
			{View: "raw", Name: "second.weight", DType: "F32", Shape: []int64{1000}, Extents: []Extent{{"sub/shard-2.bin", 64, 4000}}},
			{View: "raw", Name: "empty.weight", DType: "F32", Shape: []int64{0, 7}, Extents: at(0, 0)},
			{View: "raw", Name: "layers.0.ffn.up.weight", DType: "U32", Shape: []int64{32, 8}, Extents: at(260_000, 1024), Quant: quant,
				Module: &Module{"layers.0.ffn.up.weight", []int64{32, 64}, "layers.0.ffn.up.scales", "layers.0.ffn.up.biases"}},
			{View: "raw", Name: "layers.0.ffn.up.scales", DType: "F16", Shape: []int64{32, 2}, Extents: at(262_000, 128)},
			{View: "raw", Name: "layers.0.ffn.up.biases", DType: "F16", Shape: []int64{32, 2}, Extents: at(263_000, 128)},
			{View: "packed", Name: "layers.0.ffn.up.weight", DType: "U32", Shape: []int64{32, 64}, Data: slices.Concat(up[:1024], up[2000:2128], up[3000:3128]), Engine: &affine,
				Quant:    quant,
				Sections: []Section{{"weights", "U32", 0, 1024}, {"scales", "F16", 1024, 128}, {"biases", "F16", 1152, 128}}},
			{View: "fused", Name: "layers.0.attention.qkv.weight", DType: "Q4_K", Shape: []int64{1500, 256}, Engine: &q4k,
				Sections: []Section{{"weights", "Q4_K", 0, 216_000}},
				Extents:  append(at(4096+32, 72_000), append(at(76_160, 72_000), at(148_192, 72_000)...)...)},
		},
	}
}

// half returns a non-negative normal number as an IEEE half, cut off.
func half(f float32) uint16 {
	bits := math.Float32bits(f)
	if bits == 0 {
		return 0
	}
	exp := int(bits>>23) - 127 + 15
	return uint16(exp<<10) | uint16(bits>>13&0x3ff)
}
