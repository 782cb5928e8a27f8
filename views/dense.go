package views

import (
	"fmt"

	"github.com/tensorfs/tensorfs"
)

// dense returns t as plain floats, row-major, or why that is not possible. f32/
// holds the reference's F32 value itself, f16/ and bf16/ that value rounded to
// nearest even.
func dense(t *tensorfs.Tensor, opts Options, to tensorfs.DType) (d tensorfs.Tensor, reason string) {
	data, err := opts.Encode(t, to)
	if err != nil {
		return d, err.Error()
	}
	return tensorfs.Tensor{
		Name: t.Weight(), Source: t.Source, DType: to, Shape: t.Numbers(), Data: data,
		MayOverflow: to == tensorfs.F16 && !fitsHalf(t), Factor: t.Factor, Change: t.Change,
	}, ""
}

// half is dense to IEEE half.
func half(t *tensorfs.Tensor, opts Options) (tensorfs.Tensor, string) {
	return dense(t, opts, tensorfs.F16)
}

// fitsHalf reports whether no number that t can hold as it is stored becomes
// infinite as half. A module's scales make all sizes of numbers, except for NVFP4's
// without a global factor: these reach 480 * 6.
func fitsHalf(t *tensorfs.Tensor) bool {
	if t.Quant != nil {
		return t.Quant.Mode == "nvfp4" && t.Quant.Global == nil
	}
	return t.DType.FitsHalf()
}

// floats are the tensors of f16/ as another type.
func (b *basis) floats(to tensorfs.DType) *derived {
	halves := b.f16()
	if to == tensorfs.F16 {
		return halves
	}
	return halves.as("", func(t *tensorfs.Tensor, opts Options) (tensorfs.Tensor, string) {
		return dense(t, opts, to)
	}, func(t *tensorfs.Tensor) string {
		if _, ok := to.Size(t.Numbers()); !ok {
			return tooLong(t, to)
		}
		return ""
	})
}

// tooLong is why a view leaves out a tensor that would have 2^61 bytes or more.
func tooLong(t *tensorfs.Tensor, to tensorfs.DType) string {
	return fmt.Sprintf("shape %v takes more bytes as %s than any file has; see raw/", t.Numbers(), to)
}

// companionOf is why scales and biases are in no view but raw/.
func companionOf(owner string) string {
	return "a companion of " + owner + " and not a tensor of its own; see raw/"
}
