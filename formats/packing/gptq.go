package packing

import (
	"fmt"
	"slices"

	"github.com/tensorfs/tensorfs"
)

// words are the types of packed codes.
var words = []tensorfs.DType{tensorfs.I32, tensorfs.U32}

// GPTQConfig is config.json's description of a module of GPTQ's.
type GPTQConfig struct {
	Bits   int  // 2, 3, 4 or 8
	Group  int  // 0 or less: all columns
	V2     bool // zero points are stored as they are, not less one
	Wraps  bool // a zero point of 0, less one, is stored as 2^bits - 1
	Stream bool // 5, 6 and 7 bits too, which other programs do not store as a bit stream
}

// GPTQ returns the numbers of a module:
//
//	codes    I32 [K*bits/32, N]   each column of words is the bit stream of a row
//	zeros    I32 [K/g, N*bits/32] each row of words is a bit stream; zero = stored + 1, without V2
//	scales   [K/g, N]
//	groups   I32 [K]              the group of each column; nil: one after the other
//
// The zero point 2^bits, of a stored 2^bits - 1, is that number and does not wrap, without Wraps.
func GPTQ(c GPTQConfig, codes, zeros, scales, groups *tensorfs.Tensor) (*tensorfs.Quant, error) {
	if !slices.Contains([]int{2, 3, 4, 8}, c.Bits) && !(c.Stream && 4 < c.Bits && c.Bits < 8) {
		return nil, fmt.Errorf("bits is %d, and it may be 2, 3, 4 or 8", c.Bits)
	}
	if len(codes.Shape) != 2 {
		return nil, wrong(codes, "has shape %v, and not two dimensions", codes.Shape)
	}
	if !slices.Contains(words, zeros.DType) {
		return nil, wrong(zeros, "is %s, and zero points are packed into I32", zeros.DType)
	}
	lines, n := codes.Shape[0], codes.Shape[1]
	if lines > maxSide || n > maxSide || lines*32%int64(c.Bits) != 0 {
		return nil, wrong(codes, "has shape %v, which are not columns of %d bits", codes.Shape, c.Bits)
	}
	k := lines * 32 / int64(c.Bits)
	x, err := grouped(n, k, c.Bits, int64(c.Group), groups)
	if err != nil {
		return nil, err
	}
	if err := cmpErr(isFloat(scales), hasShape(scales, x.groups, n), hasShape(zeros, x.groups, n*int64(c.Bits)/32)); err != nil {
		return nil, err
	}
	if n*int64(c.Bits)%32 != 0 {
		return nil, wrong(zeros, "holds %d zero points of %d bits, which do not fill words", n, c.Bits)
	}
	points := stored{codes: turnedCodes{rowBits{own(zeros), c.Bits, zeros.Shape[1]}}}
	if !c.V2 {
		points.offset = 1
		if c.Wraps {
			points.wrap = float32(int(1) << c.Bits)
		}
	}
	x.codes, x.zeros = columnBits{t: own(codes), bits: c.Bits, width: n}, points
	x.scales = table{own(scales), n, x.groups, true}
	return x.quant("gptq", scales, codes, zeros, scales, groups), nil
}

// grouped returns a matrix of codes in groups of columns, all of them in one where group
// is not positive. order may be nil.
func grouped(n, k int64, bits int, group int64, by *tensorfs.Tensor) (*integers, error) {
	if n > maxSide || k > maxSide || n < 1 || k < 1 {
		return nil, fmt.Errorf("%d rows of %d columns are no matrix", n, k)
	}
	if group <= 0 || group > k {
		group = k
	}
	x := &integers{rows: n, cols: k, bits: bits, group: group, groups: up(k, group)}
	if by == nil {
		if k%group != 0 {
			return nil, fmt.Errorf("%d columns are not groups of %d (group_size)", k, group)
		}
		return x, nil
	}
	if by.DType != tensorfs.I32 && by.DType != tensorfs.U32 {
		return nil, wrong(by, "is %s, and groups of columns are I32", by.DType)
	}
	if err := hasShape(by, k); err != nil {
		return nil, err
	}
	x.order = &order{t: own(by), group: group, groups: x.groups}
	return x, nil
}

// cmpErr returns the first error.
func cmpErr(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// quant returns a module of a packing, which all of these tensors are of; codes are the
// first.
func (x *integers) quant(mode string, scales *tensorfs.Tensor, codes *tensorfs.Tensor, others ...*tensorfs.Tensor) *tensorfs.Quant {
	all := append([]*tensorfs.Tensor{codes}, others...)
	q := &tensorfs.Quant{Mode: mode, Bits: x.bits, GroupSize: int(x.group), Shape: []int64{x.rows, x.cols},
		Numbers: numbersOf(x, x.rows*x.cols, all...), Companions: withoutNil(others), Float: FloatOf(scales.DType)}
	q.Same = x.same(scales.DType, all)
	return q
}

// withoutNil returns the tensors that are not nil.
func withoutNil(ts []*tensorfs.Tensor) []*tensorfs.Tensor {
	return slices.DeleteFunc(slices.Clone(ts), func(t *tensorfs.Tensor) bool { return t == nil })
}
