package arrange

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/tensorfs/tensorfs"
)

// compose returns a tensor of that shape that is described like ts[0], with the length of
// its rows: fn is applied to the codes of ts, and to their scales and biases, and global to
// the factors of whole tensors.
func compose(ts []*tensorfs.Tensor, shape []int64, global func(ts []*tensorfs.Tensor) (*tensorfs.Tensor, error), fn func(parts []tensorfs.Data) tensorfs.Data) (*tensorfs.Tensor, error) {
	ts = asWide(ts)
	first := ts[0]
	row := max(len(first.Numbers())-1, 0) // dimensions from here on belong only to a part
	part := func(pick func(t *tensorfs.Tensor) *tensorfs.Tensor) (*tensorfs.Tensor, error) {
		p := pick(first)
		if p == nil {
			return nil, nil
		}
		data := make([]tensorfs.Data, len(ts))
		for i, t := range ts {
			other := pick(t)
			if other.DType != p.DType || other.BigEndian != p.BigEndian || len(other.Shape) != len(p.Shape) || row < len(p.Shape) && !slices.Equal(other.Shape[row+1:], p.Shape[row+1:]) {
				return nil, fmt.Errorf("%s of shape %v and %s of shape %v are not stored in the same way", p.DType, p.Shape, other.DType, other.Shape)
			}
			data[i] = other.Data
		}
		to := &tensorfs.Tensor{Name: p.Name, Source: p.Source, DType: p.DType, Shape: shape, BigEndian: p.BigEndian, Float: p.Float, Data: fn(data)}
		if slices.ContainsFunc(ts, func(t *tensorfs.Tensor) bool { return pick(t).Float != p.Float }) {
			to.Float = tensorfs.Unknown
		}
		if i := slices.IndexFunc(ts, func(t *tensorfs.Tensor) bool { return pick(t).Change != nil }); i >= 0 {
			to.Change = pick(ts[i]).Change
		}
		if first.Quant != nil {
			to.Shape = append(slices.Clone(shape[:len(shape)-1]), p.Shape[row:]...)
		}
		return to, nil
	}
	for _, t := range ts {
		if t.Opaque != "" {
			return nil, errors.New(t.Opaque)
		}
		if !alike(first.Quant, t.Quant) {
			return nil, errors.New("they are quantised in different ways")
		}
	}
	to, err := part(func(t *tensorfs.Tensor) *tensorfs.Tensor { return t })
	if err != nil || first.Quant == nil {
		return to, err
	}
	q := *first.Quant
	to.Quant, q.Shape = &q, shape
	q.Scales, err = part(func(t *tensorfs.Tensor) *tensorfs.Tensor { return t.Quant.Scales })
	if err == nil {
		q.Biases, err = part(func(t *tensorfs.Tensor) *tensorfs.Tensor { return t.Quant.Biases })
	}
	if err == nil && q.Global != nil {
		globals := make([]*tensorfs.Tensor, len(ts))
		for i, t := range ts {
			globals[i] = t.Quant.Global
		}
		q.Global, err = global(globals)
	}
	return to, err
}

// asWide returns plain tensors that would have one type in a file as F32, if some are F32 because they are
// calculated.
func asWide(ts []*tensorfs.Tensor) []*tensorfs.Tensor {
	float := func(t *tensorfs.Tensor) tensorfs.DType { return cmp.Or(t.Float, t.DType) }
	same, mixed := true, false
	for _, t := range ts {
		same = same && t.Quant == nil && float(t) == float(ts[0])
		mixed = mixed || t.DType != ts[0].DType
	}
	if !same || !mixed {
		return ts
	}
	wide := slices.Clone(ts)
	for i, t := range ts {
		if t.DType == tensorfs.F32 {
			continue
		}
		w, err := calculated("widened", t, tensorfs.F32, widened)
		if err != nil {
			return ts
		}
		w.Float = t.DType
		wide[i] = w
	}
	return wide
}

// widened are numbers as they are.
var widened = numbers{
	tensorfs.BF16: numberB16,
	tensorfs.F16:  number16,
}

// alike reports whether the codes of two tensors mean the same.
func alike(a, b *tensorfs.Quant) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Mode == b.Mode && a.Bits == b.Bits && a.GroupSize == b.GroupSize && a.Block == b.Block && a.Shards == b.Shards &&
		(a.Scales == nil) == (b.Scales == nil) && (a.Biases == nil) == (b.Biases == nil) && (a.Global == nil) == (b.Global == nil)
}

// movable returns an error unless the indices of a dimension can be moved.
func movable(t *tensorfs.Tensor, dim int) error {
	elems, _ := t.DType.Block()
	switch {
	case t.Opaque != "":
		return errors.New(t.Opaque)
	case t.DType.Whole() || t.DType.RowGroup() > 1:
		return fmt.Errorf("rows of %s are not stored one after the other", t.DType)
	case t.Quant != nil && !t.Quant.ByRows():
		return fmt.Errorf("scales of %s belong to more than a row", t.Quant.Mode)
	case (t.Quant != nil || elems > 1) && dim >= len(t.Numbers())-1:
		return fmt.Errorf("rows of %s are quantised and not cut", t.DType)
	case t.DType.Bits()%8 != 0:
		return fmt.Errorf("a number of %s is less than a byte", t.DType)
	}
	return nil
}

// product is the number of elements of a shape.
func product(shape []int64) int64 {
	n, _ := tensorfs.Elements(shape)
	return n
}

// with returns a shape with another length of a dimension.
func with(shape []int64, dim int, n int64) []int64 {
	shape = slices.Clone(shape)
	shape[dim] = n
	return shape
}
