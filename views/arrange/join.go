package arrange

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tensorfs/tensorfs"
)

// Join puts tensors together along a dimension, whose lengths may differ:
//
//	Join(0, q, k, v)   the rows of q, then the rows of k, then the rows of v
func Join(dim int, ts ...*tensorfs.Tensor) (*tensorfs.Tensor, error) {
	first := ts[0].Numbers()
	if dim < 0 || dim >= len(first) {
		return nil, fmt.Errorf("shape %v has no dimension %d", first, dim)
	}
	shape := with(first, dim, 0)
	for _, t := range ts {
		if err := movable(t, dim); err != nil {
			return nil, err
		}
		own := t.Numbers()
		if len(own) != len(first) || !slices.Equal(with(own, dim, 0), with(first, dim, 0)) {
			return nil, fmt.Errorf("shapes %v and %v differ in more than dimension %d", first, own, dim)
		}
		shape[dim] += own[dim]
	}
	outer := product(shape[:dim])
	global := func(ts []*tensorfs.Tensor) (*tensorfs.Tensor, error) {
		return nil, errors.New("each has a factor of its own")
	}
	return compose(ts, shape, global, func(parts []tensorfs.Data) tensorfs.Data {
		return tensorfs.Interleave(outer, parts...)
	})
}

// Stack makes one tensor of several of the same shape, with a new outermost
// dimension.
func Stack(ts ...*tensorfs.Tensor) (*tensorfs.Tensor, error) {
	first := ts[0].Numbers()
	for _, t := range ts {
		if err := movable(t, -1); err != nil {
			return nil, err
		}
		if !slices.Equal(t.Numbers(), first) {
			return nil, fmt.Errorf("shapes %v and %v differ", first, t.Numbers())
		}
	}
	shape := append([]int64{int64(len(ts))}, first...)
	global := func(ts []*tensorfs.Tensor) (*tensorfs.Tensor, error) {
		data := make([]tensorfs.Data, len(ts))
		for i, t := range ts {
			if product(t.Shape) != 1 {
				return nil, fmt.Errorf("a factor of shape %v is for more than a matrix", t.Shape)
			}
			data[i] = t.Data
		}
		return &tensorfs.Tensor{DType: ts[0].DType, Shape: shape[:1], Data: tensorfs.Concat(data...)}, nil
	}
	return compose(ts, shape, global, func(parts []tensorfs.Data) tensorfs.Data {
		return tensorfs.Concat(parts...)
	})
}

// Reshape returns the same numbers in another shape. If they are quantised, the length of
// rows stays.
func Reshape(t *tensorfs.Tensor, shape ...int64) (*tensorfs.Tensor, error) {
	own := t.Numbers()
	if err := movable(t, -1); err != nil {
		return nil, err
	}
	elems, _ := t.DType.Block()
	n, ok := tensorfs.Elements(shape)
	switch {
	case !ok || n != product(own):
		return nil, fmt.Errorf("shape %v does not hold the numbers of shape %v", shape, own)
	case (t.Quant != nil || elems > 1) && (len(shape) == 0 || len(own) == 0 || shape[len(shape)-1] != own[len(own)-1]):
		return nil, fmt.Errorf("rows of %s are quantised and not cut", t.DType)
	}
	global := func(ts []*tensorfs.Tensor) (*tensorfs.Tensor, error) {
		if product(ts[0].Shape) > 1 && shape[0] != own[0] {
			return nil, fmt.Errorf("a factor of shape %v is for each of dimension 0", ts[0].Shape)
		}
		return ts[0], nil
	}
	return compose([]*tensorfs.Tensor{t}, slices.Clone(shape), global, func(parts []tensorfs.Data) tensorfs.Data { return parts[0] })
}
