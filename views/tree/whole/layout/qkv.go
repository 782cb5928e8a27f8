package layout

import (
	"fmt"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/views/arrange"
)

// ungroup puts all rows of q before those of k and of v. Falcon stores them by
// groups of heads that share k and v.
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

// group moves the rows of q, k and v to where those of the heads that share k and v are
// together.
func group(w *Walk, _ *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	heads, groups, head, width := w.Sizes.Len("heads"), w.Sizes.Len("kv_heads"), w.Sizes.Len("head"), w.Sizes.Len("width")
	isNew := w.find("layers.0.attention_norm_2.weight") != nil // of Falcon's newer kind of layers
	switch {
	case groups < 1 || heads%groups != 0 || groups != 1 && groups != heads && !isNew:
		return nil, fmt.Errorf("%d heads that share %d of k and v are not a Hugging Face model of architecture falcon without attn_norm_2", heads, groups)
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

// oneAfterAnother puts all rows of q before those of k and of v, where the three of a head
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
