package views

import (
	"fmt"

	"github.com/tensorfs/tensorfs"
)

// packed shows what a GPU kernel takes: blocks as stored, a module's codes,
// scales and biases as one file, plain floats as F16.
func packed(ts []tensorfs.Tensor, opts Options) ([]tensorfs.Tensor, []Absent) {
	var out []tensorfs.Tensor
	var absent []Absent
	for i := range ts {
		p, reason := pack(&ts[i], opts)
		if reason != "" {
			absent = append(absent, Absent{ts[i].Name, reason})
			continue
		}
		out = append(out, p)
	}
	return out, absent
}

// pack returns t as a kernel takes it, or why there is no such form.
func pack(t *tensorfs.Tensor, opts Options) (p tensorfs.Tensor, reason string) {
	kind := t.DType.Kind()
	switch {
	case t.Owner != "":
		return p, "a part of " + t.Owner
	case t.Quant != nil && t.Quant.Mode == "fp8":
		return p, "no kernel layout joins F8 elements and their scales; see raw/ and f16/"
	case t.Quant != nil:
		return packGroups(t)
	case kind == tensorfs.KindBlock, kind == tensorfs.KindOpaque && t.DType.GGML() >= 0 && !t.DType.Whole():
		if t.BigEndian {
			return p, t.DType.String() + " blocks of a big-endian file are not what kernels take; see raw/ and f16/"
		}
		p = *t
		p.Sections = sections(part{"weights", t.DType.String(), t.Data})
		return p, ""
	case t.DType == tensorfs.F32, t.DType == tensorfs.F16, t.DType == tensorfs.BF16:
		if p, reason = half(t, opts); reason == "" {
			p.Sections = sections(part{"weights", "F16", p.Data})
		}
		return p, reason
	case t.Opaque != "":
		return p, t.Opaque
	}
	return p, fmt.Sprintf("no kernel takes %s; see raw/", t.DType)
}

// part is a section's Data before offsets are known.
type part struct {
	name, dtype string
	data        tensorfs.Data
}

// sections lays parts one behind the other.
func sections(parts ...part) []tensorfs.Section {
	out := make([]tensorfs.Section, len(parts))
	at := int64(0)
	for i, p := range parts {
		out[i] = tensorfs.Section{Name: p.name, DType: p.dtype, Offset: at, Bytes: p.data.Size()}
		at += p.data.Size()
	}
	return out
}

// packGroups returns a module as one file:
//
//	affine   [W | S | B]   codes as stored, scales and biases as F16
//	others   [W | S]       codes and U8 scales as stored
func packGroups(t *tensorfs.Tensor) (tensorfs.Tensor, string) {
	parts, reason := groupParts(t)
	if reason != "" {
		return tensorfs.Tensor{}, reason
	}
	return packModule(t, parts), ""
}

// packModule returns parts as one tensor with t's description.
func packModule(t *tensorfs.Tensor, parts []part) tensorfs.Tensor {
	p := *t
	p.Name, p.Shape, p.Sections = weightName(t), t.Quant.Shape, sections(parts...)
	data := make([]tensorfs.Data, len(parts))
	for i := range parts {
		data[i] = parts[i].data
	}
	p.Data = concat(data...)
	return p
}

// groupParts returns the sections of a module's packed form.
func groupParts(t *tensorfs.Tensor) ([]part, string) {
	q := t.Quant
	parts := []part{{"weights", t.DType.String(), t.Data}}
	for _, c := range []struct {
		name   string
		tensor *tensorfs.Tensor
	}{{"scales", q.Scales}, {"biases", q.Biases}} {
		switch {
		case c.tensor == nil:
		case c.tensor.DType == tensorfs.U8:
			parts = append(parts, part{c.name, "U8", c.tensor.Data})
		case c.tensor.DType == tensorfs.F16 && !c.tensor.BigEndian:
			parts = append(parts, part{c.name, "F16", c.tensor.Data})
		default:
			c16, err := blockCodec(c.tensor)
			if err != nil {
				return nil, err.Error()
			}
			parts = append(parts, part{c.name, "F16", &convert{c16}})
		}
	}
	return parts, ""
}
