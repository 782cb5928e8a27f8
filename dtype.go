package tensorfs

import (
	"iter"
	"math/bits"
)

// DType is a stored type: a row of one table. The zero value is Unknown.
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
func (t DType) Whole() bool { return dtypes[t].whole }

// Size returns the number of stored bytes of a tensor of the given row-major
// shape. It is false where the shape does not fit the type (rows that are not
// whole blocks), the size exceeds 2^61 (no file is that long), or the type is
// [DType.Whole].
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
