package packing

import (
	"fmt"
	"slices"

	"github.com/tensorfs/tensorfs"
)

// CompressedConfig is config.json's description of a module of compressed-tensors.
type CompressedConfig struct {
	Bits  int  // num_bits
	Group int  // group_size; 0 or less: one for a row
	Dense bool // rows of words are bit streams, as from version 0.20 on, where the shapes fit both
}

// CompressedPack returns the numbers of codes packed into words along rows:
//
//	codes    I32 [N, ceil(K*bits/32)], or older: [N, ceil(K/p)] with p = 32/bits whole codes in a word
//	scales   [N, K/g], [N, 1] or [1]
//	shape    I64 [2]: N and K
//	zeros    I32 [ceil(N*bits/32), K/g], packed along columns; or I8 of the shape of the scales
//	groups   I32 [K]; -1 everywhere: none
//
// shape, zeros and groups may be nil. The code of zero is 2^(bits-1) without zero points,
// and I8 counts from there.
func CompressedPack(c CompressedConfig, codes, scales, shape, zeros, groups *tensorfs.Tensor) (*tensorfs.Quant, error) {
	if c.Bits < 1 || c.Bits > 8 {
		return nil, fmt.Errorf("num_bits is %d, and it may be 1 to 8", c.Bits)
	}
	if len(codes.Shape) != 2 || codes.Shape[0] > maxSide || codes.Shape[1] > maxSide {
		return nil, wrong(codes, "has shape %v, but should be a matrix", codes.Shape)
	}
	n, width, bits := codes.Shape[0], codes.Shape[1], int64(c.Bits)
	k, err := c.columns(width, scales, shape)
	if err != nil {
		return nil, err
	}
	dense := wordsOf(k, bits, true) == width
	if loose := wordsOf(k, bits, false) == width; loose && (!dense || !c.Dense) {
		dense = false
	} else if !dense {
		return nil, wrong(codes, "has rows of %d words, and %d columns of %d bits (num_bits) take %d", width, k, bits, wordsOf(k, bits, true))
	}
	x, err := compressed(n, k, c, scales, groups)
	if err != nil {
		return nil, err
	}
	x.stated = statedBy(shape, n, k)
	x.codes = coder(rowFields{own(codes), c.Bits, width})
	if dense {
		x.codes = rowBits{own(codes), c.Bits, width}
	}
	middle := float32(int(1) << (bits - 1))
	switch {
	case zeros == nil:
		x.zeros = constant(middle)
	case zeros.DType == tensorfs.I8:
		x.zeros, err = bytesOf(zeros, scales, x.groups, middle)
	case !slices.Contains(words, zeros.DType):
		err = wrong(zeros, "is %s, and zero points are packed into I32, or I8", zeros.DType)
	default:
		err = hasShape(zeros, wordsOf(n, bits, dense), x.groups)
		x.zeros = stored{codes: turnedCodes{columnBits{own(zeros), c.Bits, x.groups, !dense}}}
	}
	if err != nil {
		return nil, err
	}
	return x.quant("pack-quantized", scales, codes, scales, shape, zeros, groups), nil
}

// CompressedInt returns the numbers of codes of a byte each, I8 [N, K], with scales and
// zero points as in [CompressedPack]; zero points are I8.
func CompressedInt(c CompressedConfig, codes, scales, zeros *tensorfs.Tensor) (*tensorfs.Quant, error) {
	if len(codes.Shape) != 2 || codes.Shape[0] > maxSide || codes.Shape[1] > maxSide {
		return nil, wrong(codes, "has shape %v, but should be a matrix", codes.Shape)
	}
	c.Bits = 8
	x, err := compressed(codes.Shape[0], codes.Shape[1], c, scales, nil)
	if err != nil {
		return nil, err
	}
	x.codes, x.zeros = rowBytes{own(codes), x.cols, true}, constant(128)
	if zeros != nil {
		if x.zeros, err = bytesOf(zeros, scales, x.groups, 128); err != nil {
			return nil, err
		}
	}
	return x.quant("int-quantized", scales, codes, scales, zeros), nil
}

// compressed returns what both have in common: scales, and the groups that they imply.
func compressed(n, k int64, c CompressedConfig, scales, groups *tensorfs.Tensor) (*integers, error) {
	if err := isFloat(scales); err != nil {
		return nil, err
	}
	elems, _ := tensorfs.Elements(scales.Shape)
	one := elems == 1
	group := int64(c.Group)
	if one || len(scales.Shape) == 2 && scales.Shape[1] == 1 {
		group = k
	}
	x, err := grouped(n, k, c.Bits, group, groups)
	if err != nil {
		return nil, err
	}
	if x.order != nil {
		x.order.none = true
	}
	x.scales = table{own(scales), n, x.groups, false}
	if one {
		x.scales = table{own(scales), 1, 1, false}
		return x, nil
	}
	return x, hasShape(scales, n, x.groups)
}

// columns returns how many columns a matrix has: from its groups, from the stored shape, or
// the most that fit the words.
func (c CompressedConfig) columns(width int64, scales, shape *tensorfs.Tensor) (int64, error) {
	if s := scales.Shape; c.Group > 0 && len(s) == 2 && s[1] > 1 && s[1] <= maxSide && c.Group <= maxSide {
		return s[1] * int64(c.Group), nil
	}
	if shape == nil {
		return width * 32 / int64(c.Bits), nil
	}
	got, err := shapeIn(shape)
	if err == nil && (got[1] < 1 || got[1] > maxSide) {
		err = wrong(shape, "has %d as the number of columns", got[1])
	}
	return got[1], err
}

// wordsOf returns how many words n codes take, as a bit stream or as many whole ones in
// each as it holds.
func wordsOf(n, bits int64, dense bool) int64 {
	if dense {
		return up(n*bits, 32)
	}
	return up(n, 32/bits)
}

// bytesOf returns zero points of a byte each, which are of the shape of the scales.
func bytesOf(zeros, scales *tensorfs.Tensor, groups int64, middle float32) (params, error) {
	elems, _ := tensorfs.Elements(scales.Shape)
	have, _ := tensorfs.Elements(zeros.Shape)
	switch {
	case zeros.DType != tensorfs.I8:
		return nil, wrong(zeros, "is %s, and zero points are I8", zeros.DType)
	case elems == 1 && have == 1:
		return oneByte{own(zeros), middle}, nil
	case !slices.Equal(zeros.Shape, scales.Shape):
		return nil, wrong(zeros, "has shape %v, and its scales %v", zeros.Shape, scales.Shape)
	}
	return stored{codes: rowBytes{own(zeros), groups, true}, offset: middle - 128}, nil
}

// oneByte is one zero point for all rows and groups.
type oneByte struct {
	t      *tensorfs.Tensor
	offset float32
}

func (x oneByte) params(dst []float32, _, _, _, _ int64) error {
	var b [1]byte
	if err := tensorfs.ReadFull(x.t.Data, b[:], 0); err != nil {
		return err
	}
	return constant(float32(int8(b[0]))+x.offset).params(dst, 0, 0, 0, 0)
}
