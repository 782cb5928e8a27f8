package views

import (
	"fmt"
	"slices"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/views/kernel"
)

// Grouping is how MLX quantises a module.
type Grouping struct {
	Mode  string // affine, mxfp4, mxfp8, nvfp4
	Bits  int    // per code
	Group int    // numbers per scale
	CPU   bool   // by the rules of MLX on a CPU, which differ from a GPU's
}

// Quantise converts a tensor of plain numbers, F32, F16 or BF16, to MLX's module: codes as
// the tensor's own data, scales and, for affine modules, biases of their own. Its tensors
// have the name of t. Nothing is read before they are.
func Quantise(t *tensorfs.Tensor, by Grouping) (*tensorfs.Tensor, error) {
	rules := kernel.GPU
	if by.CPU {
		rules = kernel.CPU
	}
	q, ok := kernel.LookupQuantiser(rules, by.Mode, by.Bits, by.Group, t.DType.String())
	switch {
	case t.Quant != nil:
		return nil, fmt.Errorf("%s is quantised already", encodingOf(t))
	case !ok:
		return nil, fmt.Errorf("MLX does not quantise %s to %s with %d bits in groups of %d", t.DType, by.Mode, by.Bits, by.Group)
	case len(t.Shape) < 2 || t.Cols()%int64(by.Group) != 0:
		return nil, fmt.Errorf("shape %v is not rows of whole groups of %d", t.Shape, by.Group)
	}
	part := func(dtype tensorfs.DType, bytes int, make func(dst, src []byte)) (*tensorfs.Tensor, error) {
		_, width := dtype.Block()
		p := &tensorfs.Tensor{Name: t.Name, Source: t.Source, DType: dtype, Shape: slices.Clone(t.Shape), Data: tensorfs.Bytes(nil)}
		p.Shape[len(p.Shape)-1] = t.Cols() / int64(by.Group) * int64(bytes) / width
		if t.Data.Size() == 0 {
			return p, nil
		}
		c, err := encoderCodec(t, Options{}, kernel.Encoder{Name: by.Mode, Elems: by.Group, In: 4 * by.Group, Bytes: bytes, Encode: make})
		p.Data = &convert{c}
		return p, err
	}
	module, err := part(tensorfs.U32, q.Codes, func(dst, src []byte) { q.Quantise(dst, nil, nil, src) })
	if err != nil {
		return nil, err
	}
	module.Quant = &tensorfs.Quant{Mode: by.Mode, Bits: by.Bits, GroupSize: by.Group, Shape: t.Shape}
	scale := t.DType
	if q.Bias == 0 {
		scale = tensorfs.U8
	}
	if module.Quant.Scales, err = part(scale, q.Scale, func(dst, src []byte) { q.Quantise(nil, dst, nil, src) }); err != nil {
		return nil, err
	}
	if q.Bias > 0 {
		module.Quant.Biases, err = part(scale, q.Bias, func(dst, src []byte) { q.Quantise(nil, nil, dst, src) })
	}
	return module, err
}
