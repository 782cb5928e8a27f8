package kernel

import (
	"slices"
	"sync"
)

// types is the one table of stored types with self-contained blocks: name, elements and bytes per block, what a
// big-endian file swaps, and the plain Go decoder.
var types = sync.OnceValue(func() []Decoder { return decodersTo(Half) })

var rows = []Decoder{
	{Name: "F32", Elems: 1, Bytes: 4, Fields: []Field{{0, 4, 1}}, body: f32, Number: numberF32},
	{Name: "F16", Elems: 1, Bytes: 2, Fields: []Field{{0, 2, 1}}, body: f16, Number: wide},
	{Name: "BF16", Elems: 1, Bytes: 2, Fields: []Field{{0, 2, 1}}, body: bf16, Number: numberBF16},
	{Name: "F64", Elems: 1, Bytes: 8, Fields: []Field{{0, 8, 1}}, body: f64},

	{Name: "F8_E4M3", Elems: 1, Bytes: 1, body: f8Decoder(&e4m3), scaled: scaled(&e4m3)},
	{Name: "F8_E5M2", Elems: 1, Bytes: 1, body: f8Decoder(&e5m2), scaled: scaled(&e5m2)},
	{Name: "F8_E4M3FNUZ", Elems: 1, Bytes: 1, body: f8Decoder(&e4m3fnuz)},
	{Name: "F8_E5M2FNUZ", Elems: 1, Bytes: 1, body: f8Decoder(&e5m2fnuz)},
	{Name: "F8_E8M0", Elems: 1, Bytes: 1, body: f8Decoder(&e8m0NaN), Number: numberE8M0},

	{Name: "Q1_0", Elems: 128, Bytes: 18, Fields: []Field{{0, 2, 1}}, body: q1_0},
	{Name: "Q2_0", Elems: 64, Bytes: 18, Fields: []Field{{0, 2, 1}}, body: q2_0},
	{Name: "PQ2_0", Elems: 128, Bytes: 34, Fields: []Field{{0, 2, 1}}, body: pq2_0},
	{Name: "Q4_0", Elems: 32, Bytes: 18, Fields: []Field{{0, 2, 1}}, body: q4_0},
	{Name: "Q4_1", Elems: 32, Bytes: 20, Fields: []Field{{0, 2, 2}}, body: q4_1},
	{Name: "Q5_0", Elems: 32, Bytes: 22, Fields: []Field{{0, 2, 1}, {2, 4, 1}}, body: q5_0},
	{Name: "Q5_1", Elems: 32, Bytes: 24, Fields: []Field{{0, 2, 2}, {4, 4, 1}}, body: q5_1},
	{Name: "Q6_0", Elems: 32, Bytes: 26, Fields: []Field{{0, 2, 1}}, body: q6_0},
	{Name: "Q8_0", Elems: 32, Bytes: 34, Fields: []Field{{0, 2, 1}}, body: q8_0},
	{Name: "Q8_1", Elems: 32, Bytes: 36, Fields: []Field{{0, 2, 2}}, body: q8_1},

	{Name: "Q2_K", Elems: 256, Bytes: 84, Fields: []Field{{80, 2, 2}}, body: q2_K},
	{Name: "Q3_K", Elems: 256, Bytes: 110, Fields: []Field{{108, 2, 1}}, body: q3_K},
	{Name: "Q4_K", Elems: 256, Bytes: 144, Fields: []Field{{0, 2, 2}}, body: q4_K},
	{Name: "Q5_K", Elems: 256, Bytes: 176, Fields: []Field{{0, 2, 2}}, body: q5_K},
	{Name: "Q6_K", Elems: 256, Bytes: 210, Fields: []Field{{208, 2, 1}}, body: q6_K},
	{Name: "Q8_K", Elems: 256, Bytes: 292, Fields: []Field{{0, 4, 1}, {260, 2, 16}}, body: q8_K},

	{Name: "IQ1_S", Elems: 256, Bytes: 50, Fields: []Field{{0, 2, 1}, {34, 2, 8}}, body: iq1_S},
	{Name: "IQ1_M", Elems: 256, Bytes: 56, Fields: []Field{{48, 2, 4}}, body: iq1_M},
	{Name: "IQ2_XXS", Elems: 256, Bytes: 66, Fields: []Field{{0, 2, 1}, {6, 4, 1}, {14, 4, 1}, {22, 4, 1}, {30, 4, 1}, {38, 4, 1}, {46, 4, 1}, {54, 4, 1}, {62, 4, 1}}, body: iq2_XXS},
	{Name: "IQ2_XS", Elems: 256, Bytes: 74, Fields: []Field{{0, 2, 33}}, body: iq2_XS},
	{Name: "IQ2_S", Elems: 256, Bytes: 82, Fields: []Field{{0, 2, 1}}, body: iq2_S},
	{Name: "IQ3_XXS", Elems: 256, Bytes: 98, Fields: []Field{{0, 2, 1}, {66, 4, 8}}, body: iq3_XXS},
	{Name: "IQ3_S", Elems: 256, Bytes: 110, Fields: []Field{{0, 2, 1}}, body: iq3_S},
	{Name: "IQ4_NL", Elems: 32, Bytes: 18, Fields: []Field{{0, 2, 1}}, body: iq4_NL},
	{Name: "IQ4_XS", Elems: 256, Bytes: 136, Fields: []Field{{0, 2, 2}}, body: iq4_XS},

	{Name: "TQ1_0", Elems: 256, Bytes: 54, Fields: []Field{{52, 2, 1}}, body: tq1_0},
	{Name: "TQ2_0", Elems: 256, Bytes: 66, Fields: []Field{{64, 2, 1}}, body: tq2_0},
	{Name: "MXFP4", Elems: 32, Bytes: 17, body: mxfp4},
	{Name: "NVFP4", Elems: 64, Bytes: 36, body: nvfp4},
}

// decodersTo returns the rows with plain Go decoders to a format.
func decodersTo(to Float) []Decoder {
	ds := slices.Clone(rows)
	for i := range ds {
		d := &ds[i]
		body, scaled := d.body, d.scaled
		d.To, d.Decode = to, func(dst, src []byte) { body(dst, src, to) }
		if scaled != nil {
			d.Scaled = func(dst, src []byte, scale float32) { scaled(dst, src, scale, to) }
		}
	}
	return ds
}

// typeOf returns the row of a type that is in the table.
func typeOf(name string) Decoder {
	for _, t := range types() {
		if t.Name == name {
			return t
		}
	}
	panic("kernel: no type " + name)
}
