package tensorfs

import (
	"iter"
	"math/bits"
)

// DType is a stored type: a row of one table. The zero value is Unknown.
type DType uint8

// The stored types: first ggml's types in ggml's order, then the types of BitNet and
// ik_llama files, then the safetensors types that ggml lacks.
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
	PQ2_0
	PTQ1_0
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

// Kind classifies the contents of a stored type.
type Kind uint8

// The kinds of stored types.
const (
	KindOpaque  Kind = iota // unknown layout, or not decodable from the tensor's bytes
	KindFloat               // plain floating-point numbers
	KindInteger             // plain integers and booleans
	KindBlock               // blocks that carry their own scale
)

// DTypes returns all types but Unknown.
func DTypes() iter.Seq[DType] {
	return func(yield func(DType) bool) {
		for t := Unknown + 1; t < numDTypes && yield(t); t++ {
		}
	}
}

// String returns the name that ggml or safetensors gives the type.
func (t DType) String() string { return dtypes[t].name }

// Kind returns what the type holds.
func (t DType) Kind() Kind { return dtypes[t].kind }

// GGML returns ggml's number for the type, or -1.
func (t DType) GGML() int { return dtypes[t].ggml }

// Block returns the numbers of elements and bytes in one block; bytes is 0 for
// types whose blocks are not whole bytes.
func (t DType) Block() (elems, bytes int64) {
	r := &dtypes[t]
	if r.bits%8 != 0 {
		return r.elems, 0
	}
	return r.elems, r.bits / 8
}

// Bits returns the number of bits in one block, even if that is not a whole number of bytes.
func (t DType) Bits() int64 { return dtypes[t].bits }

// Mantissa returns the bits of the mantissa of an IEEE float of 16 bits or more,
// whose other bits are the sign and the exponent; 0 for other types.
func (t DType) Mantissa() int { return dtypes[t].mantissa }

// FitsHalf reports whether no number that a tensor of this type can hold is 65520
// or above, or -65520 or below, and so becomes infinite when it is rounded to IEEE
// half. Types that cannot be decoded do not.
func (t DType) FitsHalf() bool { return dtypes[t].fitsHalf }

// RowGroup returns how many rows of a matrix are stored with their bytes
// interleaved: 1 where every row is stored separately, as in nearly all types.
func (t DType) RowGroup() int64 { return max(dtypes[t].rowGroup, 1) }

// Safetensors reports whether the type belongs to the safetensors format, under
// the name that String returns.
func (t DType) Safetensors() bool { return dtypes[t].safetensors }

// Whole reports whether the stored bytes of a tensor of this type are more than a
// sequence of rows: state is kept outside the rows, or the layout is not known.
// Such tensors can be neither sized from their shape nor cut or joined by rows.
func (t DType) Whole() bool { return dtypes[t].sizedByReader }

// Size returns the number of stored bytes of a tensor of the given row-major
// shape. It is false where the shape does not fit the type (rows that are not
// whole blocks), the size exceeds 2^61 (no file is that long), or the type is
// [DType.Whole].
func (t DType) Size(shape []int64) (int64, bool) {
	r := &dtypes[t]
	if r.sizedByReader {
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

// dtypeRow holds everything known about a stored type. How its blocks are decoded
// is in the row of its decoder, in views/kernel.
type dtypeRow struct {
	name          string // that ggml or safetensors gives it
	elems         int64  // elements per block
	bits          int64  // bits per block
	kind          Kind
	ggml          int   // ggml's number for the type, or none
	mantissa      int   // bits of an IEEE float's mantissa; 0 for other types
	fitsHalf      bool  // no number, whatever the block's scales, is too large for IEEE half
	rowMeta       int64 // bytes before the blocks of every row
	rowGroup      int64 // rows whose bytes are interleaved; 0 for separate rows
	sizedByReader bool  // sized as a whole tensor by its reader, not by rows of blocks
	safetensors   bool  // a type of that format, by its name
}

// none is the number given to types that ggml lacks.
const none = -1

// dtypes is the one table of stored types. Sizes come from ggml's type table, from
// ik_llama.cpp's for Q6_0 to IQ1_KT, from Prism's for PQ2_0 and PTQ1_0, and from the
// safetensors format.
var dtypes = [numDTypes]dtypeRow{
	Unknown:     {name: "UNKNOWN", elems: 1, bits: 0, kind: KindOpaque, ggml: none, sizedByReader: true},
	F32:         {name: "F32", elems: 1, bits: 32, kind: KindFloat, ggml: 0, mantissa: 23, safetensors: true},
	F16:         {name: "F16", elems: 1, bits: 16, kind: KindFloat, ggml: 1, fitsHalf: true, mantissa: 10, safetensors: true},
	Q4_0:        {name: "Q4_0", elems: 32, bits: 18 * 8, kind: KindBlock, ggml: 2},
	Q4_1:        {name: "Q4_1", elems: 32, bits: 20 * 8, kind: KindBlock, ggml: 3},
	Q5_0:        {name: "Q5_0", elems: 32, bits: 22 * 8, kind: KindBlock, ggml: 6},
	Q5_1:        {name: "Q5_1", elems: 32, bits: 24 * 8, kind: KindBlock, ggml: 7},
	Q8_0:        {name: "Q8_0", elems: 32, bits: 34 * 8, kind: KindBlock, ggml: 8},
	Q8_1:        {name: "Q8_1", elems: 32, bits: 36 * 8, kind: KindBlock, ggml: 9},
	Q2_K:        {name: "Q2_K", elems: 256, bits: 84 * 8, kind: KindBlock, ggml: 10},
	Q3_K:        {name: "Q3_K", elems: 256, bits: 110 * 8, kind: KindBlock, ggml: 11},
	Q4_K:        {name: "Q4_K", elems: 256, bits: 144 * 8, kind: KindBlock, ggml: 12},
	Q5_K:        {name: "Q5_K", elems: 256, bits: 176 * 8, kind: KindBlock, ggml: 13},
	Q6_K:        {name: "Q6_K", elems: 256, bits: 210 * 8, kind: KindBlock, ggml: 14},
	Q8_K:        {name: "Q8_K", elems: 256, bits: 292 * 8, kind: KindBlock, ggml: 15},
	IQ2_XXS:     {name: "IQ2_XXS", elems: 256, bits: 66 * 8, kind: KindBlock, ggml: 16},
	IQ2_XS:      {name: "IQ2_XS", elems: 256, bits: 74 * 8, kind: KindBlock, ggml: 17},
	IQ3_XXS:     {name: "IQ3_XXS", elems: 256, bits: 98 * 8, kind: KindBlock, ggml: 18},
	IQ1_S:       {name: "IQ1_S", elems: 256, bits: 50 * 8, kind: KindBlock, ggml: 19},
	IQ4_NL:      {name: "IQ4_NL", elems: 32, bits: 18 * 8, kind: KindBlock, ggml: 20},
	IQ3_S:       {name: "IQ3_S", elems: 256, bits: 110 * 8, kind: KindBlock, ggml: 21},
	IQ2_S:       {name: "IQ2_S", elems: 256, bits: 82 * 8, kind: KindBlock, ggml: 22},
	IQ4_XS:      {name: "IQ4_XS", elems: 256, bits: 136 * 8, kind: KindBlock, ggml: 23},
	I8:          {name: "I8", elems: 1, bits: 8, kind: KindInteger, ggml: 24, safetensors: true},
	I16:         {name: "I16", elems: 1, bits: 16, kind: KindInteger, ggml: 25, safetensors: true},
	I32:         {name: "I32", elems: 1, bits: 32, kind: KindInteger, ggml: 26, safetensors: true},
	I64:         {name: "I64", elems: 1, bits: 64, kind: KindInteger, ggml: 27, safetensors: true},
	F64:         {name: "F64", elems: 1, bits: 64, kind: KindFloat, ggml: 28, mantissa: 52, safetensors: true},
	IQ1_M:       {name: "IQ1_M", elems: 256, bits: 56 * 8, kind: KindBlock, ggml: 29},
	BF16:        {name: "BF16", elems: 1, bits: 16, kind: KindFloat, ggml: 30, mantissa: 7, safetensors: true},
	Q4_0_4_4:    {name: "Q4_0_4_4", elems: 32, bits: 18 * 8, kind: KindBlock, ggml: 31, rowGroup: 4},
	Q4_0_4_8:    {name: "Q4_0_4_8", elems: 32, bits: 18 * 8, kind: KindBlock, ggml: 32, rowGroup: 4},
	Q4_0_8_8:    {name: "Q4_0_8_8", elems: 32, bits: 18 * 8, kind: KindBlock, ggml: 33, rowGroup: 8},
	TQ1_0:       {name: "TQ1_0", elems: 256, bits: 54 * 8, kind: KindBlock, ggml: 34, fitsHalf: true},
	TQ2_0:       {name: "TQ2_0", elems: 256, bits: 66 * 8, kind: KindBlock, ggml: 35},
	IQ4_NL_4_4:  {name: "IQ4_NL_4_4", elems: 32, bits: 18 * 8, kind: KindOpaque, ggml: 36},
	IQ4_NL_4_8:  {name: "IQ4_NL_4_8", elems: 32, bits: 18 * 8, kind: KindOpaque, ggml: 37},
	IQ4_NL_8_8:  {name: "IQ4_NL_8_8", elems: 32, bits: 18 * 8, kind: KindOpaque, ggml: 38},
	MXFP4:       {name: "MXFP4", elems: 32, bits: 17 * 8, kind: KindBlock, ggml: 39},
	NVFP4:       {name: "NVFP4", elems: 64, bits: 36 * 8, kind: KindBlock, ggml: 40, fitsHalf: true},
	Q1_0:        {name: "Q1_0", elems: 128, bits: 18 * 8, kind: KindBlock, ggml: 41, fitsHalf: true},
	Q2_0:        {name: "Q2_0", elems: 64, bits: 18 * 8, kind: KindBlock, ggml: 42},
	PQ2_0:       {name: "PQ2_0", elems: 128, bits: 34 * 8, kind: KindBlock, ggml: 142},
	PTQ1_0:      {name: "PTQ1_0", elems: 128, bits: 28 * 8, kind: KindOpaque, ggml: 143},
	I2_S:        {name: "I2_S", elems: 4, bits: 8, kind: KindBlock, ggml: 36, sizedByReader: true},
	I8_S:        {name: "I8_S", elems: 1, bits: 8, kind: KindOpaque, ggml: 37, sizedByReader: true},
	TL1:         {name: "TL1", elems: 4, bits: 8, kind: KindOpaque, ggml: 38, sizedByReader: true},
	TL2:         {name: "TL2", elems: 1, bits: 0, kind: KindOpaque, ggml: 39, sizedByReader: true},
	Q6_0:        {name: "Q6_0", elems: 32, bits: 26 * 8, kind: KindBlock, ggml: 133},
	IQ1_BN:      {name: "IQ1_BN", elems: 64, bits: 13 * 8, kind: KindOpaque, ggml: 134, rowMeta: 2},
	IQ2_BN:      {name: "IQ2_BN", elems: 64, bits: 16 * 8, kind: KindOpaque, ggml: 135, rowMeta: 4},
	IQ2_K:       {name: "IQ2_K", elems: 256, bits: 76 * 8, kind: KindOpaque, ggml: 137},
	IQ3_K:       {name: "IQ3_K", elems: 256, bits: 110 * 8, kind: KindOpaque, ggml: 138},
	IQ4_K:       {name: "IQ4_K", elems: 256, bits: 144 * 8, kind: KindOpaque, ggml: 139},
	IQ5_K:       {name: "IQ5_K", elems: 256, bits: 176 * 8, kind: KindOpaque, ggml: 140},
	IQ6_K:       {name: "IQ6_K", elems: 256, bits: 212 * 8, kind: KindOpaque, ggml: 141},
	IQ4_KS:      {name: "IQ4_KS", elems: 256, bits: 136 * 8, kind: KindOpaque, ggml: 144, rowMeta: 4},
	IQ2_KS:      {name: "IQ2_KS", elems: 256, bits: 70 * 8, kind: KindOpaque, ggml: 145, rowMeta: 2},
	IQ4_KSS:     {name: "IQ4_KSS", elems: 256, bits: 128 * 8, kind: KindOpaque, ggml: 146, rowMeta: 4},
	IQ5_KS:      {name: "IQ5_KS", elems: 256, bits: 168 * 8, kind: KindOpaque, ggml: 152, rowMeta: 4},
	IQ2_KT:      {name: "IQ2_KT", elems: 256, bits: 68 * 8, kind: KindOpaque, ggml: 153, rowMeta: 4},
	IQ3_KT:      {name: "IQ3_KT", elems: 256, bits: 100 * 8, kind: KindOpaque, ggml: 154, rowMeta: 4},
	IQ4_KT:      {name: "IQ4_KT", elems: 256, bits: 128 * 8, kind: KindOpaque, ggml: 155, rowMeta: 4},
	IQ3_KS:      {name: "IQ3_KS", elems: 256, bits: 102 * 8, kind: KindOpaque, ggml: 156, rowMeta: 2},
	IQ2_KL:      {name: "IQ2_KL", elems: 256, bits: 86 * 8, kind: KindOpaque, ggml: 157, rowMeta: 2},
	IQ1_KT:      {name: "IQ1_KT", elems: 256, bits: 56 * 8, kind: KindOpaque, ggml: 158, rowMeta: 4},
	Bool:        {name: "BOOL", elems: 1, bits: 8, kind: KindInteger, ggml: none, safetensors: true},
	U8:          {name: "U8", elems: 1, bits: 8, kind: KindInteger, ggml: none, safetensors: true},
	U16:         {name: "U16", elems: 1, bits: 16, kind: KindInteger, ggml: none, safetensors: true},
	U32:         {name: "U32", elems: 1, bits: 32, kind: KindInteger, ggml: none, safetensors: true},
	U64:         {name: "U64", elems: 1, bits: 64, kind: KindInteger, ggml: none, safetensors: true},
	C64:         {name: "C64", elems: 1, bits: 64, kind: KindOpaque, ggml: none, safetensors: true},
	F4:          {name: "F4", elems: 1, bits: 4, kind: KindOpaque, ggml: none, safetensors: true},
	F6_E2M3:     {name: "F6_E2M3", elems: 1, bits: 6, kind: KindOpaque, ggml: none, safetensors: true},
	F6_E3M2:     {name: "F6_E3M2", elems: 1, bits: 6, kind: KindOpaque, ggml: none, safetensors: true},
	F8_E5M2:     {name: "F8_E5M2", elems: 1, bits: 8, kind: KindFloat, ggml: none, fitsHalf: true, safetensors: true},
	F8_E4M3:     {name: "F8_E4M3", elems: 1, bits: 8, kind: KindFloat, ggml: none, fitsHalf: true, safetensors: true},
	F8_E8M0:     {name: "F8_E8M0", elems: 1, bits: 8, kind: KindFloat, ggml: none, safetensors: true},
	F8_E4M3FNUZ: {name: "F8_E4M3FNUZ", elems: 1, bits: 8, kind: KindFloat, ggml: none, fitsHalf: true, safetensors: true},
	F8_E5M2FNUZ: {name: "F8_E5M2FNUZ", elems: 1, bits: 8, kind: KindFloat, ggml: none, fitsHalf: true, safetensors: true},
}
