package views

import (
	"fmt"
	"slices"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/views/kernel"
)

// Split returns t, which is stored in blocks of ggml's, as a module quantised as
// MLX does: the same numbers as codes, scales and, for affine modules, biases of
// their own. ok is false if MLX has no such module, or none for rows of that
// length. Its tensors have the name of t.
//
//	Q4_0, Q4_1   affine  4 bits  groups of 32   scales and biases F16
//	Q5_0, Q5_1   affine  5 bits  groups of 32
//	Q8_0         affine  8 bits  groups of 32
//	MXFP4        mxfp4   4 bits  groups of 32   scales U8
//	NVFP4        nvfp4   4 bits  groups of 16   scales U8
//
// Two kinds of blocks, which no quantiser makes, have other numbers there: blocks
// whose bias is beyond the halves, and blocks whose scale is not a number.
func Split(t *tensorfs.Tensor) (module *tensorfs.Tensor, ok bool) {
	s, ok := kernel.LookupSplit(t.DType.String())
	if !ok || t.Quant != nil || t.Owner != "" || t.Opaque != "" || t.BigEndian && s.Scale != "U8" || len(t.Shape) < 2 || t.Cols()%int64(s.Elems) != 0 {
		return nil, false
	}
	part := func(dtype tensorfs.DType, per int64, split func(dst, src []byte)) *tensorfs.Tensor {
		_, width := dtype.Block()
		p := &tensorfs.Tensor{Name: t.Name, Source: t.Source, DType: dtype, Shape: slices.Clone(t.Shape)}
		p.Shape[len(p.Shape)-1] = t.Cols() / int64(s.Elems) * per
		p.Data = tensorfs.Bytes(nil)
		if t.Data.Size() > 0 {
			p.Data = &convert{codec{
				streams: []stream{blocksOf(t.Data, int64(s.Bytes))},
				elems:   int64(s.Elems),
				bytes:   per * width,
				blocks:  t.Data.Size() / int64(s.Bytes),
				decode: func(dst []byte, _ int64, in inputs) error {
					split(dst, in[0])
					return nil
				},
			}}
		}
		return p
	}
	scale, groups := typeNamed(s.Scale), int64(s.Elems/s.Group)
	module = part(tensorfs.U32, int64(s.Elems*s.Bits/32), s.Codes)
	module.Quant = &tensorfs.Quant{Mode: s.Mode, Bits: s.Bits, GroupSize: s.Group, Shape: t.Shape, Scales: part(scale, groups, s.Scales)}
	if s.Biased {
		module.Quant.Biases = part(scale, groups, s.Biases)
	}
	return module, true
}

// Codes returns the codes of a module as bytes, in the shape in which gpt-oss
// stores them: [.., groups, bytes of a group].
func Codes(t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	q := t.Quant
	if q == nil || q.GroupSize == 0 || q.Scales == nil || q.GroupSize*q.Bits%8 != 0 {
		return nil, fmt.Errorf("%s has no groups of codes", encodingOf(t))
	}
	shape := append(slices.Clone(q.Shape), int64(q.GroupSize*q.Bits/8))
	shape[len(shape)-2] /= int64(q.GroupSize)
	size, ok := tensorfs.U8.Size(shape)
	if !ok || size != t.Data.Size() {
		return nil, fmt.Errorf("%s of shape %v holds other numbers than shape %v", t.DType, t.Shape, q.Shape)
	}
	return &tensorfs.Tensor{Name: t.Name, Source: t.Source, DType: tensorfs.U8, Shape: shape, Data: t.Data}, nil
}
