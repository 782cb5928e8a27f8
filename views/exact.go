package views

import (
	"fmt"
	"slices"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/views/kernel"
)

// Exact returns the type of ggml that holds the numbers of t, a module quantised
// as MLX does, in as few bits as it can without changing one. It reads the scales
// and biases, and the codes of groups that these do not decide.
//
//	                       type     unless                                            then
//	affine 2, 3, 4 bits    Q4_1     a scale or bias is not a half, and a code not 0   F16
//	affine 5 bits          Q5_1     the same                                          F16
//	affine 6, 8 bits       F16
//	mxfp4                  MXFP4    a scale is 0xFF                                   F16
//	mxfp8                  BF16     a scale is 0xFF, or a number is below 2^-126      F32
//	nvfp4                  NVFP4    rows are not a multiple of 64, a scale above      F16
//	                                0x7E, or there is a factor besides the scales
//	fp8                    F32
//	others                 that of the same numbers as     there are none            the float type
//	                       MLX has them                                              of the model
//
// exact is false for F16, to which numbers are rounded. The type of a tensor that
// MLX did not quantise is its own, or BF16 for floats of 8 bits.
func Exact(t *tensorfs.Tensor) (to tensorfs.DType, exact bool, err error) {
	if t.Quant == nil {
		return exactPlain(t)
	}
	if size, ok := tensorfs.F32.Size(t.Quant.Shape); !ok {
		return to, false, fmt.Errorf("shape %v is larger than any file; see raw/", t.Quant.Shape)
	} else if size == 0 {
		return tensorfs.F16, true, nil
	}
	if t.Quant.Numbers != nil {
		return exactPacking(t)
	}
	if t.Quant.Mode == "fp8" {
		_, err := codecOf(t, Options{}, kernel.Single)
		return tensorfs.F32, true, err
	}
	c, p, ok, err := repackCodec(t)
	if err == nil && ok {
		ok, err = c.holds(p)
	}
	switch {
	case err != nil:
		return to, false, err
	case ok:
		return typeNamed(p.Type), true, nil
	case t.Quant.Mode == "mxfp8":
		return tensorfs.F32, true, nil
	}
	return tensorfs.F16, false, nil
}

// exactPacking is Exact for what another program packed: the type of the same numbers as
// MLX has them, or the float type of the model.
func exactPacking(t *tensorfs.Tensor) (tensorfs.DType, bool, error) {
	if _, to, exact, err := sameExact(t); err != nil || exact {
		return to, exact, err
	}
	if t.Quant.Float == tensorfs.Unknown {
		return tensorfs.F16, false, nil
	}
	return t.Quant.Float, false, nil
}

// sameExact returns the numbers of a tensor as a module of MLX's kind and what Exact says
// of that; nil and false where there is none.
func sameExact(t *tensorfs.Tensor) (same *tensorfs.Tensor, to tensorfs.DType, exact bool, err error) {
	if t.Quant == nil || t.Quant.Same == nil {
		return nil, to, false, nil
	}
	if same, err = t.Quant.Same(); err != nil || same == nil {
		return nil, to, false, err
	}
	to, exact, err = Exact(same)
	return same, to, exact, err
}

// exactPlain is Exact for numbers that need no other tensor.
func exactPlain(t *tensorfs.Tensor) (tensorfs.DType, bool, error) {
	switch elems, bytes := t.DType.Block(); {
	case t.DType.Kind() == tensorfs.KindFloat && elems == 1 && bytes == 1:
		return tensorfs.BF16, true, nil
	case t.DType.GGML() < 0:
		return tensorfs.Unknown, false, fmt.Errorf("%s is not a type of ggml; see raw/", t.DType)
	}
	return t.DType, true, nil
}

// typeNamed returns the type of that name.
func typeNamed(name string) tensorfs.DType {
	for d := range tensorfs.DTypes() {
		if d.String() == name {
			return d
		}
	}
	return tensorfs.Unknown
}

// How many units Exact looks at in one go: of scales, and of codes as well.
const (
	maxScaleRun = 1 << 18
	maxCodeRun  = 1 << 9
)

// holds reports whether every unit of a repacking is exact. It reads codes only
// where the scales do not decide, more at a time where that goes on.
func (c *codec) holds(p kernel.Repack) (bool, error) {
	var b buffers
	codes := int64(1)
	for first := int64(0); first < c.blocks; {
		n := min(c.blocks-first, maxScaleRun)
		good, err := c.look(first, n, &b, func(in inputs) int { return p.Scales(in[1], in[2]) }, 1)
		if err != nil {
			return false, err
		}
		if good > 0 {
			codes = 1
		}
		if first += good; good == n {
			continue
		}
		n = min(c.blocks-first, codes, max(maxOut/c.bytes, 1))
		b.block = slices.Grow(b.block[:0], int(n*c.bytes))[:n*c.bytes]
		good, err = c.look(first, n, &b, func(in inputs) int { return p.Repack(b.block, in[0], in[1], in[2]) }, 0)
		if err != nil || good < n {
			return false, err
		}
		first, codes = first+n, min(2*codes, maxCodeRun)
	}
	return true, nil
}

// look calls f with the n blocks from first on of the streams from a number on.
func (c *codec) look(first, n int64, b *buffers, f func(inputs) int, from int) (result int64, err error) {
	var in inputs
	var memory [maxStreams]tensorfs.Memory
	for i, s := range c.streams[from:] {
		i += from
		at, size := s.span(first, n)
		if in[i], memory[i], err = tensorfs.View(s.data, at, size, &b.copies[i]); err != nil {
			return 0, err
		}
	}
	err = tensorfs.Guard(func() error {
		result = int64(f(in))
		return nil
	}, memory[:]...)
	return result, err
}
