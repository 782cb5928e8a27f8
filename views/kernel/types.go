package kernel

// types is the one table of stored types with self-contained blocks: name, elements and bytes per block, what a
// big-endian file swaps, and the plain Go decoder.
var types = []Decoder{
	{"F32", 1, 4, []Field{{0, 4, 1}}, f32},
	{"F16", 1, 2, []Field{{0, 2, 1}}, f16},
	{"BF16", 1, 2, []Field{{0, 2, 1}}, bf16},
	{"F64", 1, 8, []Field{{0, 8, 1}}, f64},

	{"F8_E4M3", 1, 1, nil, f8Decoder(&e4m3)},
	{"F8_E5M2", 1, 1, nil, f8Decoder(&e5m2)},
	{"F8_E4M3FNUZ", 1, 1, nil, f8Decoder(&e4m3fnuz)},
	{"F8_E5M2FNUZ", 1, 1, nil, f8Decoder(&e5m2fnuz)},
	{"F8_E8M0", 1, 1, nil, f8Decoder(&e8m0NaN)},

	{"Q1_0", 128, 18, []Field{{0, 2, 1}}, q1_0},
	{"Q2_0", 64, 18, []Field{{0, 2, 1}}, q2_0},
	{"Q4_0", 32, 18, []Field{{0, 2, 1}}, q4_0},
	{"Q4_1", 32, 20, []Field{{0, 2, 2}}, q4_1},
	{"Q5_0", 32, 22, []Field{{0, 2, 1}, {2, 4, 1}}, q5_0},
	{"Q5_1", 32, 24, []Field{{0, 2, 2}, {4, 4, 1}}, q5_1},
	{"Q6_0", 32, 26, []Field{{0, 2, 1}}, q6_0},
	{"Q8_0", 32, 34, []Field{{0, 2, 1}}, q8_0},
	{"Q8_1", 32, 36, []Field{{0, 2, 2}}, q8_1},

	{"Q2_K", 256, 84, []Field{{80, 2, 2}}, q2_K},
	{"Q3_K", 256, 110, []Field{{108, 2, 1}}, q3_K},
	{"Q4_K", 256, 144, []Field{{0, 2, 2}}, q4_K},
	{"Q5_K", 256, 176, []Field{{0, 2, 2}}, q5_K},
	{"Q6_K", 256, 210, []Field{{208, 2, 1}}, q6_K},
	{"Q8_K", 256, 292, []Field{{0, 4, 1}, {260, 2, 16}}, q8_K},

	{"IQ1_S", 256, 50, []Field{{0, 2, 1}, {34, 2, 8}}, iq1_S},
	{"IQ1_M", 256, 56, []Field{{48, 2, 4}}, iq1_M},
	{"IQ2_XXS", 256, 66, []Field{{0, 2, 1}, {6, 4, 1}, {14, 4, 1}, {22, 4, 1}, {30, 4, 1}, {38, 4, 1}, {46, 4, 1}, {54, 4, 1}, {62, 4, 1}}, iq2_XXS},
	{"IQ2_XS", 256, 74, []Field{{0, 2, 33}}, iq2_XS},
	{"IQ2_S", 256, 82, []Field{{0, 2, 1}}, iq2_S},
	{"IQ3_XXS", 256, 98, []Field{{0, 2, 1}, {66, 4, 8}}, iq3_XXS},
	{"IQ3_S", 256, 110, []Field{{0, 2, 1}}, iq3_S},
	{"IQ4_NL", 32, 18, []Field{{0, 2, 1}}, iq4_NL},
	{"IQ4_XS", 256, 136, []Field{{0, 2, 2}}, iq4_XS},

	{"TQ1_0", 256, 54, []Field{{52, 2, 1}}, tq1_0},
	{"TQ2_0", 256, 66, []Field{{64, 2, 1}}, tq2_0},
	{"MXFP4", 32, 17, nil, mxfp4},
	{"NVFP4", 64, 36, nil, nvfp4},
}
