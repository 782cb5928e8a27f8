package tensorfs

import "math/bits"

// DType is a stored type: a row of the table below. The zero value is Unknown.
type DType uint8

// The stored types. Those of ggml come first, in ggml's order; then the types
// of BitNet and ik_llama files; then those of safetensors that ggml lacks.
const (
	Unknown DType = iota
	F32
	F16
	Q4_0
	Q4_1
	Q5_0
	Q5_1
	Q8_0
	Q8_1
	Q2_K
	Q3_K
	Q4_K
	Q5_K
	Q6_K
	Q8_K
	IQ2_XXS
	IQ2_XS
	IQ3_XXS
	IQ1_S
	IQ4_NL
	IQ3_S
	IQ2_S
	IQ4_XS
	I8
	I16
	I32
	I64
	F64
	IQ1_M
	BF16
	Q4_0_4_4
	Q4_0_4_8
	Q4_0_8_8
	TQ1_0
	TQ2_0
	IQ4_NL_4_4
	IQ4_NL_4_8
	IQ4_NL_8_8
	MXFP4
	NVFP4
	Q1_0
	Q2_0
	I2_S
	I8_S
	TL1
	TL2
	Q6_0
	IQ1_BN
	IQ2_BN
	IQ2_K
	IQ3_K
	IQ4_K
	IQ5_K
	IQ6_K
	IQ4_KS
	IQ2_KS
	IQ4_KSS
	IQ5_KS
	IQ2_KT
	IQ3_KT
	IQ4_KT
	IQ3_KS
	IQ2_KL
	IQ1_KT
	Bool
	U8
	U16
	U32
	U64
	C64
	F4
	F6_E2M3
	F6_E3M2
	F8_E5M2
	F8_E4M3
	F8_E8M0
	F8_E4M3FNUZ
	F8_E5M2FNUZ
	numDTypes
)

// Kind says what a stored type holds.
type Kind uint8

// The kinds of stored types.
const (
	KindOpaque  Kind = iota // layout not known, or not decodable from the tensor alone
	KindFloat               // plain floating-point numbers
	KindInteger             // plain integers and booleans
	KindBlock               // blocks that carry their own scale
)

// dtypeRow describes one stored type.
type dtypeRow struct {
	name    string
	elems   int64 // elements per block
	bits    int64 // bits per block
	rowMeta int64 // bytes that stand before the blocks of every row
	whole   bool  // sized as a whole tensor by its reader, not by rows of blocks
	kind    Kind
	ggml    int // ggml's number of the type, -1 without one
}

// dtypes is the one table of stored types. Sizes are those of ggml's type
// table, of ik_llama's for the types from Q6_0 to IQ1_KT, and of the
// safetensors format.
var dtypes = [numDTypes]dtypeRow{
	Unknown:     {"UNKNOWN", 1, 0, 0, true, KindOpaque, -1},
	F32:         {"F32", 1, 32, 0, false, KindFloat, 0},
	F16:         {"F16", 1, 16, 0, false, KindFloat, 1},
	Q4_0:        {"Q4_0", 32, 18 * 8, 0, false, KindBlock, 2},
	Q4_1:        {"Q4_1", 32, 20 * 8, 0, false, KindBlock, 3},
	Q5_0:        {"Q5_0", 32, 22 * 8, 0, false, KindBlock, 6},
	Q5_1:        {"Q5_1", 32, 24 * 8, 0, false, KindBlock, 7},
	Q8_0:        {"Q8_0", 32, 34 * 8, 0, false, KindBlock, 8},
	Q8_1:        {"Q8_1", 32, 36 * 8, 0, false, KindBlock, 9},
	Q2_K:        {"Q2_K", 256, 84 * 8, 0, false, KindBlock, 10},
	Q3_K:        {"Q3_K", 256, 110 * 8, 0, false, KindBlock, 11},
	Q4_K:        {"Q4_K", 256, 144 * 8, 0, false, KindBlock, 12},
	Q5_K:        {"Q5_K", 256, 176 * 8, 0, false, KindBlock, 13},
	Q6_K:        {"Q6_K", 256, 210 * 8, 0, false, KindBlock, 14},
	Q8_K:        {"Q8_K", 256, 292 * 8, 0, false, KindBlock, 15},
	IQ2_XXS:     {"IQ2_XXS", 256, 66 * 8, 0, false, KindBlock, 16},
	IQ2_XS:      {"IQ2_XS", 256, 74 * 8, 0, false, KindBlock, 17},
	IQ3_XXS:     {"IQ3_XXS", 256, 98 * 8, 0, false, KindBlock, 18},
	IQ1_S:       {"IQ1_S", 256, 50 * 8, 0, false, KindBlock, 19},
	IQ4_NL:      {"IQ4_NL", 32, 18 * 8, 0, false, KindBlock, 20},
	IQ3_S:       {"IQ3_S", 256, 110 * 8, 0, false, KindBlock, 21},
	IQ2_S:       {"IQ2_S", 256, 82 * 8, 0, false, KindBlock, 22},
	IQ4_XS:      {"IQ4_XS", 256, 136 * 8, 0, false, KindBlock, 23},
	I8:          {"I8", 1, 8, 0, false, KindInteger, 24},
	I16:         {"I16", 1, 16, 0, false, KindInteger, 25},
	I32:         {"I32", 1, 32, 0, false, KindInteger, 26},
	I64:         {"I64", 1, 64, 0, false, KindInteger, 27},
	F64:         {"F64", 1, 64, 0, false, KindFloat, 28},
	IQ1_M:       {"IQ1_M", 256, 56 * 8, 0, false, KindBlock, 29},
	BF16:        {"BF16", 1, 16, 0, false, KindFloat, 30},
	Q4_0_4_4:    {"Q4_0_4_4", 32, 18 * 8, 0, false, KindBlock, 31},
	Q4_0_4_8:    {"Q4_0_4_8", 32, 18 * 8, 0, false, KindBlock, 32},
	Q4_0_8_8:    {"Q4_0_8_8", 32, 18 * 8, 0, false, KindBlock, 33},
	TQ1_0:       {"TQ1_0", 256, 54 * 8, 0, false, KindBlock, 34},
	TQ2_0:       {"TQ2_0", 256, 66 * 8, 0, false, KindBlock, 35},
	IQ4_NL_4_4:  {"IQ4_NL_4_4", 32, 18 * 8, 0, false, KindOpaque, 36},
	IQ4_NL_4_8:  {"IQ4_NL_4_8", 32, 18 * 8, 0, false, KindOpaque, 37},
	IQ4_NL_8_8:  {"IQ4_NL_8_8", 32, 18 * 8, 0, false, KindOpaque, 38},
	MXFP4:       {"MXFP4", 32, 17 * 8, 0, false, KindBlock, 39},
	NVFP4:       {"NVFP4", 64, 36 * 8, 0, false, KindBlock, 40},
	Q1_0:        {"Q1_0", 128, 18 * 8, 0, false, KindBlock, 41},
	Q2_0:        {"Q2_0", 64, 18 * 8, 0, false, KindBlock, 42},
	I2_S:        {"I2_S", 4, 8, 0, true, KindBlock, 36},
	I8_S:        {"I8_S", 1, 8, 0, true, KindOpaque, 37},
	TL1:         {"TL1", 4, 8, 0, true, KindOpaque, 38},
	TL2:         {"TL2", 1, 0, 0, true, KindOpaque, 39},
	Q6_0:        {"Q6_0", 32, 26 * 8, 0, false, KindBlock, 133},
	IQ1_BN:      {"IQ1_BN", 64, 13 * 8, 2, false, KindOpaque, 134},
	IQ2_BN:      {"IQ2_BN", 64, 16 * 8, 4, false, KindOpaque, 135},
	IQ2_K:       {"IQ2_K", 256, 76 * 8, 0, false, KindOpaque, 137},
	IQ3_K:       {"IQ3_K", 256, 110 * 8, 0, false, KindOpaque, 138},
	IQ4_K:       {"IQ4_K", 256, 144 * 8, 0, false, KindOpaque, 139},
	IQ5_K:       {"IQ5_K", 256, 176 * 8, 0, false, KindOpaque, 140},
	IQ6_K:       {"IQ6_K", 256, 212 * 8, 0, false, KindOpaque, 141},
	IQ4_KS:      {"IQ4_KS", 256, 136 * 8, 4, false, KindOpaque, 144},
	IQ2_KS:      {"IQ2_KS", 256, 70 * 8, 2, false, KindOpaque, 145},
	IQ4_KSS:     {"IQ4_KSS", 256, 128 * 8, 4, false, KindOpaque, 146},
	IQ5_KS:      {"IQ5_KS", 256, 168 * 8, 4, false, KindOpaque, 152},
	IQ2_KT:      {"IQ2_KT", 256, 68 * 8, 4, false, KindOpaque, 153},
	IQ3_KT:      {"IQ3_KT", 256, 100 * 8, 4, false, KindOpaque, 154},
	IQ4_KT:      {"IQ4_KT", 256, 128 * 8, 4, false, KindOpaque, 155},
	IQ3_KS:      {"IQ3_KS", 256, 102 * 8, 2, false, KindOpaque, 156},
	IQ2_KL:      {"IQ2_KL", 256, 86 * 8, 2, false, KindOpaque, 157},
	IQ1_KT:      {"IQ1_KT", 256, 56 * 8, 4, false, KindOpaque, 158},
	Bool:        {"BOOL", 1, 8, 0, false, KindInteger, -1},
	U8:          {"U8", 1, 8, 0, false, KindInteger, -1},
	U16:         {"U16", 1, 16, 0, false, KindInteger, -1},
	U32:         {"U32", 1, 32, 0, false, KindInteger, -1},
	U64:         {"U64", 1, 64, 0, false, KindInteger, -1},
	C64:         {"C64", 1, 64, 0, false, KindOpaque, -1},
	F4:          {"F4", 1, 4, 0, false, KindOpaque, -1},
	F6_E2M3:     {"F6_E2M3", 1, 6, 0, false, KindOpaque, -1},
	F6_E3M2:     {"F6_E3M2", 1, 6, 0, false, KindOpaque, -1},
	F8_E5M2:     {"F8_E5M2", 1, 8, 0, false, KindFloat, -1},
	F8_E4M3:     {"F8_E4M3", 1, 8, 0, false, KindFloat, -1},
	F8_E8M0:     {"F8_E8M0", 1, 8, 0, false, KindFloat, -1},
	F8_E4M3FNUZ: {"F8_E4M3FNUZ", 1, 8, 0, false, KindFloat, -1},
	F8_E5M2FNUZ: {"F8_E5M2FNUZ", 1, 8, 0, false, KindFloat, -1},
}

// String returns the name that ggml or safetensors gives the type.
func (t DType) String() string { return dtypes[t].name }

// Kind returns what the type holds.
func (t DType) Kind() Kind { return dtypes[t].kind }

// GGML returns ggml's number of the type, or -1.
func (t DType) GGML() int { return dtypes[t].ggml }

// Block returns the elements and the bytes of one block; bytes is 0 for types
// whose blocks are no whole bytes.
func (t DType) Block() (elems, bytes int64) {
	r := &dtypes[t]
	if r.bits%8 != 0 {
		return r.elems, 0
	}
	return r.elems, r.bits / 8
}

// Bits returns the bits of one block, also of blocks that are no whole bytes.
func (t DType) Bits() int64 { return dtypes[t].bits }

// RowMeta returns the bytes that stand before the blocks of every row.
func (t DType) RowMeta() int64 { return dtypes[t].rowMeta }

// Whole reports whether the stored bytes of a tensor of this type are no plain
// sequence of rows: state stands outside the rows, or the layout is not known.
// Such tensors can be neither sized from their shape nor cut or joined by rows.
func (t DType) Whole() bool { return dtypes[t].whole }

// Size returns the stored bytes of a tensor of row-major shape. It is false
// where the shape does not fit the type (rows that are no whole blocks), the
// size exceeds 2^61 (no file is that long), or the type is [DType.Whole].
func (t DType) Size(shape []int64) (int64, bool) {
	r := &dtypes[t]
	if r.whole {
		return 0, false
	}
	n, ok := Elements(shape)
	if !ok {
		return 0, false
	}
	cols := int64(1)
	if len(shape) > 0 {
		cols = shape[len(shape)-1]
	}
	if cols%r.elems != 0 {
		return 0, false
	}
	if n == 0 {
		return 0, true
	}
	hi, blocks := bits.Mul64(uint64(n/r.elems), uint64(r.bits))
	if hi != 0 || blocks%8 != 0 {
		return 0, false
	}
	hi, meta := bits.Mul64(uint64(n/cols), uint64(r.rowMeta))
	if hi != 0 || meta > 1<<62 {
		return 0, false
	}
	return int64(blocks/8 + meta), true // at most 2^61 + 2^62
}

// Elements returns the product of a shape's dimensions. It is false where a
// dimension is negative or the product of the non-zero ones exceeds 2^63-1.
func Elements(shape []int64) (int64, bool) {
	n, zero := int64(1), false
	for _, d := range shape {
		switch {
		case d < 0:
			return 0, false
		case d == 0:
			zero = true
		default:
			hi, lo := bits.Mul64(uint64(n), uint64(d))
			if hi != 0 || lo > 1<<63-1 {
				return 0, false
			}
			n = int64(lo)
		}
	}
	if zero {
		return 0, true
	}
	return n, true
}
