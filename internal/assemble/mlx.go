package assemble

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/tensorfs/tensorfs"
)

// The layout of MLX, for a module of K columns:
//
//	codes    U32 [..., K*bits/32]   the codes of a row as a little-endian bit stream
//	scales   [..., K/group]
//	biases   [..., K/group]         affine only
//	global   one number, or one per leading index; nvfp4 only, and optional
//
// Every leading dimension is a batch. Scales are F16, BF16 or F32 in affine
// mode, U8 otherwise.

// Params say how codes become numbers.
type Params struct {
	Mode        string
	Bits, Group int
}

// Affine is the mode whose scales are floats and come with biases. The scales of
// all other modes are bytes.
const Affine = "affine"

// modes has the bits and group sizes that exist for each mode, the default first.
var modes = []struct {
	name         string
	bits, groups []int
}{
	{Affine, []int{4, 2, 3, 5, 6, 8}, []int{64, 32, 128}},
	{"mxfp4", []int{4}, []int{32}},
	{"mxfp8", []int{8}, []int{32}},
	{"nvfp4", []int{4}, []int{16}},
}

// Default returns the parameters of a mode for which none are given; false for an unknown mode.
func Default(mode string) (Params, bool) {
	for _, m := range modes {
		if m.name == mode {
			return Params{mode, m.bits[0], m.groups[0]}, true
		}
	}
	return Params{Mode: mode}, false
}

// Fitting returns the parameters that fit the lengths of rows of codes and of
// scales and that keep accepts.
func Fitting(codes, scales *tensorfs.Tensor, keep func(Params) bool) (fitting []Params) {
	for p := range existing {
		if last(codes) > 0 && p.fit(codes, scales) && keep(p) {
			fitting = append(fitting, p)
		}
	}
	return fitting
}

// existing yields all parameters that exist.
func existing(yield func(Params) bool) {
	for _, m := range modes {
		for _, b := range m.bits {
			for _, g := range m.groups {
				if !yield(Params{m.name, b, g}) {
					return
				}
			}
		}
	}
}

// exist returns an error unless the mode has such bits and group sizes.
func (p Params) exist() error {
	for e := range existing {
		if p == e {
			return nil
		}
	}
	return fmt.Errorf("%s with %d bits in groups of %d does not exist", p.Mode, p.Bits, p.Group)
}

// fit reports whether rows of codes are as long as the rows of scales require.
func (p Params) fit(codes, scales *tensorfs.Tensor) bool {
	h1, l1 := bits.Mul64(uint64(last(codes)), 32)
	h2, l2 := bits.Mul64(uint64(last(scales)), uint64(p.Bits*p.Group))
	return h1 == h2 && l1 == l2
}

// Quant returns how codes and their companions become numbers, or why they do not belong
// together. biases and global may be nil.
func (p Params) Quant(codes, scales, biases, global *tensorfs.Tensor) (*tensorfs.Quant, error) {
	floats := []tensorfs.DType{tensorfs.F16, tensorfs.BF16, tensorfs.F32}
	isAffine := p.Mode == Affine
	if err := p.exist(); err != nil {
		return nil, err
	}
	switch {
	case codes.DType != tensorfs.U32:
		return nil, fmt.Errorf("it has scales, but holds %s; codes are U32", codes.DType)
	case len(codes.Shape) == 0 || len(codes.Shape) != len(scales.Shape) || !slices.Equal(lead(codes), lead(scales)):
		return nil, fmt.Errorf("codes of shape %v and scales of shape %v do not belong together", codes.Shape, scales.Shape)
	case !p.fit(codes, scales):
		return nil, fmt.Errorf("codes of shape %v and scales of shape %v are not %s with %d bits in groups of %d", codes.Shape, scales.Shape, p.Mode, p.Bits, p.Group)
	case isAffine && !slices.Contains(floats, scales.DType):
		return nil, fmt.Errorf("scales of %s are F16, BF16 or F32, not %s", p.Mode, scales.DType)
	case isAffine && biases == nil:
		return nil, fmt.Errorf("%s needs biases, and it has none", p.Mode)
	case isAffine && (biases.DType != scales.DType || !slices.Equal(biases.Shape, scales.Shape)):
		return nil, fmt.Errorf("biases are %s of shape %v, scales %s of shape %v", biases.DType, biases.Shape, scales.DType, scales.Shape)
	case !isAffine && scales.DType != tensorfs.U8:
		return nil, fmt.Errorf("scales of %s are U8, not %s", p.Mode, scales.DType)
	case !isAffine && biases != nil:
		return nil, fmt.Errorf("%s takes no biases, and it has some", p.Mode)
	case global == nil:
	case p.Mode != "nvfp4":
		return nil, fmt.Errorf("%s takes no global scale, and it has one", p.Mode)
	case global.DType != tensorfs.F32 || !oneFor(global.Shape, codes.Shape):
		return nil, fmt.Errorf("its global scale is %s of shape %v: neither one number nor one per leading index", global.DType, global.Shape)
	}
	hi, columns := bits.Mul64(uint64(last(scales)), uint64(p.Group))
	shape := append(slices.Clone(lead(codes)), int64(columns))
	if _, ok := tensorfs.Elements(shape); !ok || hi != 0 {
		return nil, fmt.Errorf("codes of shape %v hold 2^63 numbers or more", codes.Shape)
	}
	return &tensorfs.Quant{Mode: p.Mode, Bits: p.Bits, GroupSize: p.Group, Shape: shape, Scales: scales, Biases: biases, Global: global}, nil
}

// oneFor reports whether a global scale is one number or one per leading index.
func oneFor(global, codes []int64) bool {
	return len(global) == 0 || len(global) == 1 && (global[0] == 1 || global[0] == codes[0])
}

// last is the length of a tensor's rows, 0 if it has none.
func last(t *tensorfs.Tensor) int64 {
	if len(t.Shape) == 0 {
		return 0
	}
	return t.Cols()
}

// lead is a tensor's shape without the length of its rows.
func lead(t *tensorfs.Tensor) []int64 { return t.Shape[:max(0, len(t.Shape)-1)] }
