package layout

import (
	"fmt"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/views/arrange"
)

// Linear attention has several heads of v for each head of k. Hugging Face has them head of
// k by head of k; GGUF has the first of each, then the second of each.

// tiled and untiled permute the heads of v: rows after as many as the argument.
func tiled(w *Walk, p *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	return w.swapHeads(p, t, 0, w.Sizes.Len("ssm_groups"), w.Sizes.Len("v_per_k"))
}

func untiled(w *Walk, p *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	return w.swapHeads(p, t, 0, w.Sizes.Len("v_per_k"), w.Sizes.Len("ssm_groups"))
}

// tiledColumns and untiledColumns permute them if they are columns.
func tiledColumns(w *Walk, p *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	return w.swapHeads(p, t, 1, w.Sizes.Len("ssm_groups"), w.Sizes.Len("v_per_k"))
}

func untiledColumns(w *Walk, p *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	return w.swapHeads(p, t, 1, w.Sizes.Len("v_per_k"), w.Sizes.Len("ssm_groups"))
}

func (w *Walk) swapHeads(p *part, t *tensorfs.Tensor, dim int, outer, inner int64) (*tensorfs.Tensor, error) {
	if err := w.Sizes.Need("ssm_groups", "v_per_k"); err != nil {
		return nil, err
	}
	t, err := loose(t)
	if err != nil || outer == 1 || inner == 1 {
		return t, err
	}
	before := int64(0)
	if len(p.args) > 0 {
		before = w.Sizes.Len(p.args[0])
	}
	shape := t.Numbers()
	if len(shape) <= dim || before >= shape[dim] || (shape[dim]-before)%(outer*inner) != 0 {
		return nil, fmt.Errorf("shape %v of %s does not divide into %d heads of v", shape, tensorfs.Quote(t.Source), outer*inner)
	}
	swap := func(t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
		rest, err := arrange.Slice(t, dim, before, shape[dim]-before)
		if err == nil {
			rest, err = arrange.Swap(rest, dim, outer, inner)
		}
		if err != nil || before == 0 {
			return rest, err
		}
		first, err := arrange.Slice(t, dim, 0, before)
		if err != nil {
			return nil, err
		}
		return arrange.Join(dim, first, rest)
	}
	made, err := swap(t)
	if err == nil {
		return made, nil
	}
	// Blocks of columns that a head cuts.
	if t, err = w.Numbers(w.name(p), t, PlainType(t)); err != nil {
		return nil, err
	}
	return swap(t)
}

// For each head of k, Qwen3-Next has the rows for q, k, v and z; GGUF has all rows of q, of
// k and of v in one tensor, and the rows of z in another.

func mixedQKV(w *Walk, p *part) (*tensorfs.Tensor, error) {
	parts, err := w.mixed(p, 0, 3)
	if parts == nil || err != nil {
		return nil, err
	}
	return arrange.Join(0, parts...)
}

func mixedZ(w *Walk, p *part) (*tensorfs.Tensor, error) {
	parts, err := w.mixed(p, 3, 4)
	if parts == nil || err != nil {
		return nil, err
	}
	return parts[0], nil
}

// mixedRows are how many rows of a head of k make q, k, v and z.
func (w *Walk) mixedRows() (rows [4]int64, groups int64, err error) {
	k, v := w.Sizes.Len("state"), w.Sizes.Len("inner")
	if groups = w.Sizes.Len("ssm_groups"); groups < 1 || k < 1 || v < 1 || v%groups != 0 {
		return rows, 0, fmt.Errorf("v is %d numbers wide, which does not divide into %d heads of k", v, groups)
	}
	return [4]int64{k, k, v / groups, v / groups}, groups, nil
}

// mixed returns some of the four, as matrices of their own.
func (w *Walk) mixed(_ *part, from, to int) ([]*tensorfs.Tensor, error) {
	t, err := loose(w.take(w.inLayer("ssm.in.weight")))
	if t == nil || err != nil {
		return nil, err
	}
	rows, groups, err := w.mixedRows()
	if err != nil {
		return nil, err
	}
	shape, each := t.Numbers(), rows[0]+rows[1]+rows[2]+rows[3]
	if len(shape) != 2 || shape[0] != groups*each {
		return nil, fmt.Errorf("shape %v of %s does not fit %d heads of %d rows", shape, tensorfs.Quote(t.Source), groups, each)
	}
	if t, err = arrange.Reshape(t, groups, each, shape[1]); err != nil {
		return nil, err
	}
	var parts []*tensorfs.Tensor
	at := int64(0)
	for i, n := range rows {
		if i >= from && i < to {
			one, err := arrange.Slice(t, 1, at, n)
			if err == nil {
				one, err = arrange.Reshape(one, groups*n, shape[1])
			}
			if err != nil {
				return nil, err
			}
			parts = append(parts, one)
		}
		at += n
	}
	return parts, nil
}

// mix makes one matrix of the two.
func mix(w *Walk, m *module) error {
	rows, groups, err := w.mixedRows()
	if err != nil {
		return err
	}
	qkv, err := w.taken(w.inLayer("ssm.qkv.weight"), m.Shape, architectures.Always)
	if err != nil {
		return err
	}
	z, err := w.taken(w.inLayer("ssm.gate.weight"), []string{"inner", "width"}, architectures.Always)
	if err != nil {
		return err
	}
	name, width := m.to+".weight", qkv.Numbers()[1]
	var parts []*tensorfs.Tensor
	at := int64(0)
	for i, n := range rows {
		t, from := qkv, at
		if i == 3 {
			t, from = z, 0
		}
		one, err := arrange.Slice(t, 0, from, groups*n)
		if err == nil {
			one, err = arrange.Reshape(one, groups, n, width)
		}
		if err != nil {
			return err
		}
		parts, at = append(parts, one), at+groups*n
	}
	t, err := w.joined(name, 1, parts)
	if err == nil {
		t, err = arrange.Reshape(t, groups*(rows[0]+rows[1]+rows[2]+rows[3]), width)
	}
	if err != nil {
		return err
	}
	return w.Put(name, t, OriginOf(qkv), m.Plain)
}
