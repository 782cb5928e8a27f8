package testtree

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
)

// Sample returns a tree with every kind of tensor that a client meets: bytes
// that stand in the model at good and at odd offsets, in several extents, and
// converted ones; sections; an empty tensor; a view that leaves one out.
//
// f16/token_embedding.weight holds the numbers 0, 1, 2, ... 4095 in shape [64, 64].
func Sample() *Tree {
	rng := rand.New(rand.NewPCG(1, 2))
	model := make([]byte, 300_000)
	for i := range model {
		model[i] = byte(rng.Uint32())
	}
	counting := make([]byte, 0, 2*4096)
	for i := range 4096 {
		// Whole numbers up to 2048 are halves; beyond, the even ones are, so the
		// odd ones are left at the one below.
		counting = binary.LittleEndian.AppendUint16(counting, half(float32(i)))
	}
	at := func(offset, bytes int64) []Extent { return []Extent{{"model.gguf", offset, bytes}} }
	q4k, affine := 12, 100
	return &Tree{
		Sources: map[string][]byte{"model.gguf": model, "sub/shard-2.bin": model[:70_000]},
		Tensors: []Tensor{
			{View: "f16", Name: "token_embedding.weight", DType: "F16", Shape: []int64{64, 64}, Data: counting},
			{View: "f16", Name: "layers.0.attention.q.weight", DType: "F16", Shape: []int64{3, 1001}, Data: model[7 : 7+6006]},
			{View: "f16", Name: "layers.0.attention_norm.weight", DType: "F16", Shape: []int64{50}, Extents: at(96, 100)},
			{View: "raw", Name: "layers.0.attention.q.weight", DType: "Q4_K", Shape: []int64{500, 256}, Extents: at(4096+32, 72_000), Engine: &q4k},
			{View: "raw", Name: "layers.0.attention.k.weight", DType: "Q4_K", Shape: []int64{500, 256}, Extents: at(76_160, 72_000)},
			{View: "raw", Name: "layers.0.attention.v.weight", DType: "Q4_K", Shape: []int64{500, 256}, Extents: at(148_192, 72_000)},
			{View: "raw", Name: "odd.weight", DType: "F32", Shape: []int64{10}, Extents: at(220_193, 40)},
			{View: "raw", Name: "two.weight", DType: "F16", Shape: []int64{10}, Extents: at(220_194, 20)},
			{View: "raw", Name: "four.weight", DType: "F64", Shape: []int64{10}, Extents: at(220_196, 80)},
			{View: "raw", Name: "eight.weight", DType: "I64", Shape: []int64{10}, Extents: at(220_200, 80)},
			{View: "raw", Name: "last.weight", DType: "F32", Shape: []int64{25}, Extents: at(299_900, 100)},
			{View: "raw", Name: "second.weight", DType: "F32", Shape: []int64{1000}, Extents: []Extent{{"sub/shard-2.bin", 64, 4000}}},
			{View: "raw", Name: "empty.weight", DType: "F32", Shape: []int64{0, 7}, Data: []byte{}},
			{View: "packed", Name: "layers.0.ffn.up.weight", DType: "U32", Shape: []int64{32, 8}, Data: model[1000 : 1000+1024+256], Engine: &affine,
				Quant:    &Quant{"affine", 4, 32},
				Sections: []Section{{"weights", "U32", 0, 1024}, {"scales", "F16", 1024, 128}, {"biases", "F16", 1152, 128}}},
			{View: "fused", Name: "layers.0.attention.qkv.weight", DType: "Q4_K", Shape: []int64{1500, 256},
				Extents: append(at(4096+32, 72_000), append(at(76_160, 72_000), at(148_192, 72_000)...)...)},
			{View: "npy", Name: "layers.0.attention_norm.weight.npy", DType: "F16", Shape: []int64{50}, Data: append(make([]byte, 4096), model[96:196]...)},
		},
		Absent: map[string]map[string]string{"f16": {"odd.weight": "integers have no dense form"}},
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
