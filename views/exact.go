package views

import (
	"encoding/binary"
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
	if t.Quant.Numbers != nil || t.Quant.Mode == "fp8" {
		if _, to, exact, err := sameExact(t); err != nil || exact {
			return to, exact, err
		}
		return Plain(t)
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

// Plain returns the type for the numbers of t when they are to be dequantised: the one in
// which the program that packed them, and programs that load them, compute; if that is
// unknown, F16, or F32 for 8-bit floats. exact reports whether it holds them all. The type
// of a tensor that is not quantised is its own.
//
// Of numbers with 4 bits of their own, and scales that are powers of two, BF16 holds all:
// of mxfp4, and of 8-bit floats whose scales it reads.
func Plain(t *tensorfs.Tensor) (to tensorfs.DType, exact bool, err error) {
	q := t.Quant
	if q == nil {
		return t.DType, true, nil
	}
	if _, err := Encode(t, tensorfs.F32); err != nil {
		return to, false, err
	}
	switch to = q.Float; {
	case to == tensorfs.F32, to == tensorfs.Unknown && q.Mode == "fp8":
		return tensorfs.F32, true, nil
	case to == tensorfs.Unknown:
		return tensorfs.F16, false, nil
	case to == tensorfs.BF16 && q.Mode == "mxfp4":
		return to, true, nil
	case to == tensorfs.BF16 && q.Mode == "fp8":
		exact, err = powersOfTwo(q.Scales)
	}
	return to, exact, err
}

// powersOfTwo reports whether all scales are powers of two, large enough that BF16 holds
// every product with an 8-bit float.
func powersOfTwo(t *tensorfs.Tensor) (bool, error) {
	const least, fraction = 127 - 117, 1<<23 - 1 // an F8_E5M2 is a multiple of 2^-16, and BF16 has multiples of 2^-133
	d, err := Encode(&tensorfs.Tensor{DType: t.DType, Shape: t.Shape, Data: t.Data}, tensorfs.F32)
	if err != nil {
		return false, err
	}
	piece := make([]byte, min(d.Size(), 1<<16))
	for at := int64(0); at < d.Size(); at += int64(len(piece)) {
		piece = piece[:min(int64(len(piece)), d.Size()-at)]
		if err := tensorfs.ReadFull(d, piece, at); err != nil {
			return false, err
		}
		for p := piece; len(p) > 0; p = p[4:] {
			if bits := binary.LittleEndian.Uint32(p); bits&fraction != 0 || bits>>23&255 < least {
				return false, nil
			}
		}
	}
	return true, nil
}

// Same returns t, a module that another program packed, as one of MLX's kind that a type of
// ggml holds, with rows that can be moved; nil if that is not possible. It reads what Exact
// does.
func Same(t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	same, _, exact, err := sameExact(t)
	if err != nil || !exact {
		return nil, err
	}
	return same, nil
}

// sameExact returns the numbers of a tensor as a module of MLX's kind, with Exact's result
// for it; nil and false if that is not possible.
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

// maxScaleRun and maxCodeRun are how many units Exact checks at a time: only their scales, and
// their scales and codes.
const (
	maxScaleRun = 1 << 18
	maxCodeRun  = 1 << 9
)

// holds reports whether every unit of a repacking is exact. It reads the codes of a unit only if
// its scales do not decide. The number of units per read of codes doubles until scales decide again.
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

// look calls f with n blocks, from block first on, of all streams except the first from ones.
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
