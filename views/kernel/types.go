package kernel

// types is the one table of stored types with self-contained blocks: name, elements and bytes per block, what a
// big-endian file swaps, and the plain Go decoder.
var types = []Decoder{
	{Name: "F32", Elems: 1, Bytes: 4, Fields: []Field{{0, 4, 1}}, Decode: f32, Number: numberF32},
	{Name: "F16", Elems: 1, Bytes: 2, Fields: []Field{{0, 2, 1}}, Decode: f16, Number: wide},
	{Name: "BF16", Elems: 1, Bytes: 2, Fields: []Field{{0, 2, 1}}, Decode: bf16, Number: numberBF16},
	{Name: "F64", Elems: 1, Bytes: 8, Fields: []Field{{0, 8, 1}}, Decode: f64},

	{Name: "F8_E4M3", Elems: 1, Bytes: 1, Decode: f8Decoder(&e4m3), Scaled: scaled(&e4m3)},
	{Name: "F8_E5M2", Elems: 1, Bytes: 1, Decode: f8Decoder(&e5m2), Scaled: scaled(&e5m2)},
	{Name: "F8_E4M3FNUZ", Elems: 1, Bytes: 1, Decode: f8Decoder(&e4m3fnuz)},
	{Name: "F8_E5M2FNUZ", Elems: 1, Bytes: 1, Decode: f8Decoder(&e5m2fnuz)},
	{Name: "F8_E8M0", Elems: 1, Bytes: 1, Decode: f8Decoder(&e8m0NaN)},

	{Name: "Q1_0", Elems: 128, Bytes: 18, Fields: []Field{{0, 2, 1}}, Decode: q1_0},
	{Name: "Q2_0", Elems: 64, Bytes: 18, Fields: []Field{{0, 2, 1}}, Decode: q2_0},
	{Name: "Q4_0", Elems: 32, Bytes: 18, Fields: []Field{{0, 2, 1}}, Decode: q4_0},
	{Name: "Q4_1", Elems: 32, Bytes: 20, Fields: []Field{{0, 2, 2}}, Decode: q4_1},
	{Name: "Q5_0", Elems: 32, Bytes: 22, Fields: []Field{{0, 2, 1}, {2, 4, 1}}, Decode: q5_0},
	{Name: "Q5_1", Elems: 32, Bytes: 24, Fields: []Field{{0, 2, 2}, {4, 4, 1}}, Decode: q5_1},
	{Name: "Q6_0", Elems: 32, Bytes: 26, Fields: []Field{{0, 2, 1}}, Decode: q6_0},
	{Name: "Q8_0", Elems: 32, Bytes: 34, Fields: []Field{{0, 2, 1}}, Decode: q8_0},
	{Name: "Q8_1", Elems: 32, Bytes: 36, Fields: []Field{{0, 2, 2}}, Decode: q8_1},

	{Name: "Q2_K", Elems: 256, Bytes: 84, Fields: []Field{{80, 2, 2}}, Decode: q2_K},
	{Name: "Q3_K", Elems: 256, Bytes: 110, Fields: []Field{{108, 2, 1}}, Decode: q3_K},
	{Name: "Q4_K", Elems: 256, Bytes: 144, Fields: []Field{{0, 2, 2}}, Decode: q4_K},
	{Name: "Q5_K", Elems: 256, Bytes: 176, Fields: []Field{{0, 2, 2}}, Decode: q5_K},
	{Name: "Q6_K", Elems: 256, Bytes: 210, Fields: []Field{{208, 2, 1}}, Decode: q6_K},
	{Name: "Q8_K", Elems: 256, Bytes: 292, Fields: []Field{{0, 4, 1}, {260, 2, 16}}, Decode: q8_K},

	{Name: "IQ1_S", Elems: 256, Bytes: 50, Fields: []Field{{0, 2, 1}, {34, 2, 8}}, Decode: iq1_S},
	{Name: "IQ1_M", Elems: 256, Bytes: 56, Fields: []Field{{48, 2, 4}}, Decode: iq1_M},
	{Name: "IQ2_XXS", Elems: 256, Bytes: 66, Fields: []Field{{0, 2, 1}, {6, 4, 1}, {14, 4, 1}, {22, 4, 1}, {30, 4, 1}, {38, 4, 1}, {46, 4, 1}, {54, 4, 1}, {62, 4, 1}}, Decode: iq2_XXS},
	{Name: "IQ2_XS", Elems: 256, Bytes: 74, Fields: []Field{{0, 2, 33}}, Decode: iq2_XS},
	{Name: "IQ2_S", Elems: 256, Bytes: 82, Fields: []Field{{0, 2, 1}}, Decode: iq2_S},
	{Name: "IQ3_XXS", Elems: 256, Bytes: 98, Fields: []Field{{0, 2, 1}, {66, 4, 8}}, Decode: iq3_XXS},
	{Name: "IQ3_S", Elems: 256, Bytes: 110, Fields: []Field{{0, 2, 1}}, Decode: iq3_S},
	{Name: "IQ4_NL", Elems: 32, Bytes: 18, Fields: []Field{{0, 2, 1}}, Decode: iq4_NL},
	{Name: "IQ4_XS", Elems: 256, Bytes: 136, Fields: []Field{{0, 2, 2}}, Decode: iq4_XS},

	{Name: "TQ1_0", Elems: 256, Bytes: 54, Fields: []Field{{52, 2, 1}}, Decode: tq1_0},
	{Name: "TQ2_0", Elems: 256, Bytes: 66, Fields: []Field{{64, 2, 1}}, Decode: tq2_0},
	{Name: "MXFP4", Elems: 32, Bytes: 17, Decode: mxfp4},
	{Name: "NVFP4", Elems: 64, Bytes: 36, Decode: nvfp4},
}

// typeOf returns the row of a type that is in the table.
func typeOf(name string) Decoder {
	for _, t := range types {
		if t.Name == name {
			return t
		}
	}
	panic("kernel: no type " + name)
}
