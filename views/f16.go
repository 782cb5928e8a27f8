package views

import (
	"fmt"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/views/kernel"
)

// half returns t as IEEE half, row-major, or why that is not possible: f16/ holds
// the reference's F32 value rounded to nearest even, or nothing.
func half(t *tensorfs.Tensor, opts Options) (h tensorfs.Tensor, reason string) {
	switch {
	case t.Owner != "":
		return h, companionOf(t)
	case t.Opaque != "":
		return h, t.Opaque
	case t.Quant == nil && t.DType.Kind() == tensorfs.KindInteger:
		return h, t.DType.String() + " holds integers, which half cannot hold exactly; see raw/"
	}
	h = tensorfs.Tensor{Name: t.Weight(), Source: t.Source, DType: tensorfs.F16, Shape: t.Numbers()}
	size, ok := tensorfs.F16.Size(h.Shape)
	switch {
	case !ok:
		return h, fmt.Sprintf("shape %v takes more bytes as half than any file has; see raw/", h.Shape)
	case size == 0:
		h.Data = tensorfs.Bytes(nil)
	case t.DType == tensorfs.F16 && !t.BigEndian && t.Quant == nil:
		h.Data = t.Data
	default:
		c, err := codecOf(t, opts, kernel.Half)
		if err != nil {
			return h, err.Error()
		}
		h.Data = &convert{c}
	}
	if h.Data.Size() != size {
		return h, fmt.Sprintf("%s of shape %v holds other numbers than shape %v; see raw/", t.DType, t.Shape, h.Shape)
	}
	return h, ""
}

// companionOf is why scales and biases are in no view but raw/.
func companionOf(t *tensorfs.Tensor) string {
	return "a companion of " + t.Owner + " and not a tensor of its own; see raw/"
}
