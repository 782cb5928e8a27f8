package views

import (
	"fmt"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/views/kernel"
)

// pack returns t as a GPU kernel takes it: blocks as stored, a module's codes, scales and
// biases as one file, plain floats as F16. If there is no such form, reason explains it.
func pack(t *tensorfs.Tensor, opts Options) (p tensorfs.Tensor, reason string) {
	kind := t.DType.Kind()
	// A kernel may know block types that cannot be decoded here.
	foreign := kind == tensorfs.KindOpaque && t.DType.GGML() >= 0 && !t.DType.Whole()
	switch {
	case t.Owner != "":
		return p, companionOf(t.Owner)
	case t.Opaque != "" && !foreign:
		return p, t.Opaque
	case t.Quant != nil && t.Quant.Mode == "fp8":
		return p, "8-bit floats with scales beside them are not a layout that a kernel takes; see raw/ and f16/"
	case t.Quant != nil && t.Quant.Numbers != nil:
		return p, t.Quant.Mode + " is not a layout that a kernel takes as it is; see raw/ and f16/"
	case t.Quant != nil:
		return packGroups(t)
	case (kind == tensorfs.KindBlock || foreign) && t.BigEndian:
		return p, t.DType.String() + " blocks of a big-endian file are not accepted by kernels; see raw/ and f16/"
	case kind == tensorfs.KindBlock || foreign:
		p = *t
		p.Parts = layOut(part{"weights", t.DType.String(), t.Data})
		return p, ""
	case t.DType == tensorfs.F32, t.DType == tensorfs.F16, t.DType == tensorfs.BF16:
		if p, reason = half(t, opts); reason == "" {
			p.Parts = layOut(part{"weights", "F16", p.Data})
		}
		return p, reason
	}
	return p, fmt.Sprintf("no kernel takes %s; see raw/", t.DType)
}

// part is what becomes a [tensorfs.Part] when its offset is known.
type part struct {
	name, dtype string
	data        tensorfs.Data
}

// layOut places parts back to back.
func layOut(parts ...part) []tensorfs.Part {
	out := make([]tensorfs.Part, len(parts))
	at := int64(0)
	for i, p := range parts {
		out[i] = tensorfs.Part{Name: p.name, DType: p.dtype, Offset: at, Bytes: p.data.Size()}
		at += p.data.Size()
	}
	return out
}

// packGroups returns a module as one file:
//
//	affine   [W | S | B]   codes as stored, scales and biases as F16
//	others   [W | S]       codes and U8 scales as stored
func packGroups(t *tensorfs.Tensor) (p tensorfs.Tensor, reason string) {
	c, err := groupCodec(t, kernel.Half)
	if err == nil {
		err = c.check(t)
	}
	if err != nil {
		return p, err.Error()
	}
	parts, overflow := []part{{"weights", t.DType.String(), t.Data}}, false
	for _, c := range []struct {
		name   string
		tensor *tensorfs.Tensor
	}{{"scales", t.Quant.Scales}, {"biases", t.Quant.Biases}} {
		switch {
		case c.tensor == nil:
		case c.tensor.DType == tensorfs.U8:
			parts = append(parts, part{c.name, "U8", c.tensor.Data})
		default:
			h, reason := half(&tensorfs.Tensor{DType: c.tensor.DType, Shape: c.tensor.Shape, Data: c.tensor.Data}, Options{})
			if reason != "" {
				return p, reason
			}
			parts = append(parts, part{c.name, "F16", h.Data})
			overflow = overflow || h.MayOverflow
		}
	}
	p = packModule(t, parts)
	p.MayOverflow = overflow
	return p, ""
}

// packModule returns parts as one tensor described like t.
func packModule(t *tensorfs.Tensor, parts []part) tensorfs.Tensor {
	p := *t
	p.Name, p.Shape, p.Parts = t.Weight(), t.Quant.Shape, layOut(parts...)
	data := make([]tensorfs.Data, len(parts))
	for i := range parts {
		data[i] = parts[i].data
	}
	p.Data = tensorfs.Concat(data...)
	return p
}
