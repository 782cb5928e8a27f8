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
	q := heads / groups * head
	grouped, err := arrange.Reshape(t, groups, q+2*head, shape[1])
	if err != nil {
		return nil, err
	}
	parts := make([]*tensorfs.Tensor, 3)
	for i, rows := range [][2]int64{{0, q}, {q, head}, {q + head, head}} {
		if parts[i], err = arrange.Slice(grouped, 1, rows[0], rows[1]); err != nil {
			return nil, err
		}
		if parts[i], err = arrange.Reshape(parts[i], groups*rows[1], shape[1]); err != nil {
			return nil, err
		}
	}
	return arrange.Join(0, parts...)
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
