package layout

import (
	"fmt"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/views/arrange"
)

// ungroup puts all rows of q before the rows of k and of v. Falcon stores them by groups of
// heads that share k and v.
func ungroup(w *Walk, _ *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	t, err := loose(t)
	if err != nil {
		return nil, err
	}
	heads, head, groups := w.Sizes.Len("heads"), w.Sizes.Len("head"), w.Sizes.Len("kv_heads")
	shape := t.Numbers()
	if len(shape) != 2 || groups < 1 || shape[0] != w.Sizes.Len("qkv") || heads%groups != 0 {
		return nil, fmt.Errorf("shape %v of %s does not divide into %d groups of %d heads of %d", shape, tensorfs.Quote(t.Source), groups, heads, head)
	}
	return gathered(t, groups, heads/groups*head, head, head)
}

// gathered puts the rows of each part together, if groups have rows of all parts one after the other.
func gathered(t *tensorfs.Tensor, groups int64, rows ...int64) (*tensorfs.Tensor, error) {
	shape := t.Numbers()
	grouped, err := arrange.Reshape(t, groups, shape[0]/groups, shape[1])
	if err != nil {
		return nil, err
	}
	parts := make([]*tensorfs.Tensor, len(rows))
	at := int64(0)
	for i, n := range rows {
		if parts[i], err = arrange.Slice(grouped, 1, at, n); err != nil {
			return nil, err
		}
		if parts[i], err = arrange.Reshape(parts[i], groups*n, shape[1]); err != nil {
			return nil, err
		}
		at += n
	}
	return arrange.Join(0, parts...)
}

// unsharded does the same for a matrix of 8-bit floats that has the rows of q, k and v for each of several
// processors, as the number of its scales shows. Other matrices have all of q, then k, then v.
func unsharded(w *Walk, _ *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	if q := t.Quant; q == nil || q.Mode != "fp8" || len(t.Shape) != 2 || len(q.Scales.Shape) != 2 || !strings.HasSuffix(q.Scales.Source, ".weight_scale_inv") {
		return t, nil
	}
	shards, err := w.shards(t)
	if err != nil {
		return nil, err
	}
	heads, head, v := w.Sizes.Len("heads"), w.Sizes.Len("head"), w.Sizes.Len("v_head")
	rest := t.Shape[0] - heads*head
	if head < 1 || v < 1 || rest < 0 || heads%shards != 0 || rest%((head+v)*shards) != 0 {
		return nil, fmt.Errorf("shape %v of %s does not divide into q, k and v of %d heads for %d processors", t.Shape, tensorfs.Quote(t.Source), heads, shards)
	}
	if t, err = loose(t); err != nil {
		return nil, err
	}
	each := rest / (head + v) / shards
	return gathered(t, shards, heads/shards*head, each*head, each*v)
}

// shards is for how many processors the rows and scales of a matrix of 8-bit floats are.
func (w *Walk) shards(t *tensorfs.Tensor) (int64, error) {
	const side = 128 // of a block, which llama.cpp's converter takes for granted
	rows, scales, source := t.Shape[0], t.Quant.Scales.Shape[0], tensorfs.Quote(t.Source)
	if t.Quant.Block != [2]int{side, side} {
		return 0, fmt.Errorf("the scales of %s are not for blocks of %d x %d", source, side, side)
	}
	var found []int64
	for _, n := range []int64{8, 4} { // as llama.cpp's converter tries them
		if rows%n == 0 && scales == n*((rows/n+side-1)/side) {
			found = append(found, n)
		}
	}
	heads, _ := w.facts("config.num_key_value_heads").(int64) // by which vLLM divides
	switch {
	case len(found) == 0:
		return 0, fmt.Errorf("%s has %d rows of scales, which are not of 8 or 4 processors", source, scales)
	case len(found) > 1 && found[0] != heads:
		return 0, fmt.Errorf("%s has %d rows of scales, which may be of 8 or of 4 processors", source, scales)
	case int64(max(t.Quant.Shards, 1)) != found[0] && rows/found[0]%side != 0:
		return 0, fmt.Errorf("%s has %d rows of scales, which may be of %d processors or of all rows", source, scales, found[0])
	}
	return found[0], nil
}

// partOfGroups finds q, k or v, which may be rows of a joined module by groups of heads.
func partOfGroups(w *Walk, p *part) (*tensorfs.Tensor, error) {
	if t := w.take(p.canonical()); t != nil {
		return t, nil
	}
	t := w.take(strings.TrimSuffix(p.from, p.Module) + p.args[0] + p.param)
	if t == nil {
		return nil, nil
	}
	t, err := ungroup(w, p, t)
	if err != nil {
		return nil, err
	}
	head := w.Sizes.Len("head")
	q, k := w.Sizes.Len("heads")*head, w.Sizes.Len("kv_heads")*head
	_, which := lastPart(p.Module)
	rows := map[string][2]int64{"q": {0, q}, "k": {q, k}, "v": {q + k, k}}[which]
	return arrange.Slice(t, 0, rows[0], rows[1])
}

// group moves the rows of q, k and v so that heads that share k and v are together.
func group(w *Walk, _ *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	heads, groups, head, width := w.Sizes.Len("heads"), w.Sizes.Len("kv_heads"), w.Sizes.Len("head"), w.Sizes.Len("width")
	switch {
	case groups < 1 || heads%groups != 0:
		return nil, fmt.Errorf("%d heads do not share %d of k and v evenly", heads, groups)
	case groups == 1:
		return t, nil
	}
	parts := make([]*tensorfs.Tensor, 3)
	at := int64(0)
	for i, rows := range []int64{heads * head, groups * head, groups * head} {
		part, err := arrange.Slice(t, 0, at, rows)
		if err != nil {
			return nil, err
		}
		if parts[i], err = arrange.Reshape(part, groups, rows/groups, width); err != nil {
			return nil, err
		}
		at += rows
	}
	t, err := arrange.Join(1, parts...)
	if err != nil {
		return nil, err
	}
	return arrange.Reshape(t, at, width)
}

// oneAfterAnother puts all rows of q before the rows of k and of v, if each head's three
// are together.
func oneAfterAnother(w *Walk, _ *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	t, err := loose(t)
	if err != nil {
		return nil, err
	}
	if shape, heads := t.Numbers(), w.Sizes.Len("heads"); len(shape) == 0 || heads < 1 || shape[0]%(3*heads) != 0 {
		return nil, fmt.Errorf("shape %v of %s does not divide into q, k and v of %d heads", shape, tensorfs.Quote(t.Source), heads)
	}
	return arrange.Swap(t, 0, w.Sizes.Len("heads"), 3)
}

// threeOfEachHead moves the rows of q, k and v, which GGUF has after each other, to where
// the three of a head are together.
func threeOfEachHead(w *Walk, _ *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	return arrange.Swap(t, 0, 3, w.Sizes.Len("heads"))
}
