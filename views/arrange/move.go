package arrange

import (
	"fmt"

	"github.com/tensorfs/tensorfs"
)

// Permute moves the rows of q and k from Hugging Face's order to GGUF's: each head's first
// and second half take turns, because GGUF pairs the dimensions 2i and 2i+1, and Hugging
// Face pairs i and i+half.
//
//	0 1 2 3 | 4 5 6 7   becomes   0 4 1 5 2 6 3 7
//
// It is for weights and biases of so many heads.
func Permute(t *tensorfs.Tensor, heads int64) (*tensorfs.Tensor, error) {
	half, err := halfHead(t, heads)
	if err != nil {
		return nil, err
	}
	return move(t, 0, t.Numbers(), func(unit int64) []axis {
		return []axis{{heads, 2 * half * unit}, {half, unit}, {2, half * unit}}
	}, 0)
}

// Unpermute undoes [Permute].
func Unpermute(t *tensorfs.Tensor, heads int64) (*tensorfs.Tensor, error) {
	half, err := halfHead(t, heads)
	if err != nil {
		return nil, err
	}
	return move(t, 0, t.Numbers(), func(unit int64) []axis {
		return []axis{{heads, 2 * half * unit}, {2, unit}, {half, 2 * unit}}
	}, 0)
}

// halfHead returns half the rows of a head.
func halfHead(t *tensorfs.Tensor, heads int64) (int64, error) {
	if shape := t.Numbers(); heads > 0 && len(shape) > 0 && shape[0]%heads == 0 && shape[0]/heads%2 == 0 {
		return shape[0] / heads / 2, nil
	}
	return 0, fmt.Errorf("shape %v does not divide into the halves of %d heads", t.Numbers(), heads)
}

// Slice returns n indices of a dimension, from one on:
//
//	Slice(t, 1, 0, F)   the first F rows of every matrix of a stack
func Slice(t *tensorfs.Tensor, dim int, from, n int64) (*tensorfs.Tensor, error) {
	shape := t.Numbers()
	if dim < 0 || dim >= len(shape) || from < 0 || n < 0 || from > shape[dim]-n {
		return nil, fmt.Errorf("shape %v has no indices %d to %d of dimension %d", shape, from, from+n, dim)
	}
	if n == shape[dim] {
		return t, nil
	}
	outer, all := product(shape[:dim]), shape[dim]
	return move(t, dim, with(shape, dim, n), func(unit int64) []axis {
		return []axis{{outer, all * unit}, {n, unit}}
	}, from)
}

// EveryOther returns the indices first, first+2 ... of a dimension; first is 0 or 1.
func EveryOther(t *tensorfs.Tensor, dim int, first int64) (*tensorfs.Tensor, error) {
	shape := t.Numbers()
	if dim < 0 || dim >= len(shape) || shape[dim]%2 != 0 || first < 0 || first > 1 {
		return nil, fmt.Errorf("dimension %d of shape %v does not divide into pairs", dim, shape)
	}
	half := product(shape[:dim+1]) / 2
	return move(t, dim, with(shape, dim, shape[dim]/2), func(unit int64) []axis {
		return []axis{{half, 2 * unit}}
	}, first)
}

// Swap returns the indices of a dimension, which are outer times inner runs, with
// the two kinds of runs in turn:
//
//	Swap(t, 0, 2, 3)   a0 a1 a2 | b0 b1 b2   becomes   a0 b0 | a1 b1 | a2 b2
//
// So the rows of two joined tensors alternate, or all q, all k and all v become the
// q, k and v of one head after the other.
func Swap(t *tensorfs.Tensor, dim int, outer, inner int64) (*tensorfs.Tensor, error) {
	shape := t.Numbers()
	if dim < 0 || dim >= len(shape) || outer < 1 || inner < 1 || outer > shape[dim]/inner || shape[dim]%(outer*inner) != 0 {
		return nil, fmt.Errorf("dimension %d of shape %v does not divide into %d times %d", dim, shape, outer, inner)
	}
	before, all := product(shape[:dim]), shape[dim]
	run := all / outer / inner
	return move(t, dim, shape, func(unit int64) []axis {
		return []axis{{before, all * unit}, {inner, run * unit}, {outer, inner * run * unit}, {run, unit}}
	}, 0)
}

// move returns the tensor of that shape with other indices of a dimension, in its codes and
// all companions. axes returns the indices for units of unit bytes, and from is the first.
func move(t *tensorfs.Tensor, dim int, shape []int64, axes func(unit int64) []axis, from int64) (*tensorfs.Tensor, error) {
	if err := movable(t, dim); err != nil {
		return nil, err
	}
	units := max(product(t.Numbers()[:dim+1]), 1)
	global := func(parts []*tensorfs.Tensor) (*tensorfs.Tensor, error) {
		g := parts[0]
		if dim > 0 || product(g.Shape) == 1 {
			return g, nil
		}
		return &tensorfs.Tensor{DType: g.DType, Shape: shape[:1], Data: pick(g.Data, 4, from*4, axes(4)...)}, nil
	}
	return compose([]*tensorfs.Tensor{t}, shape, global, func(parts []tensorfs.Data) tensorfs.Data {
		unit := parts[0].Size() / units
		return pick(parts[0], unit, from*unit, axes(unit)...)
	})
}
