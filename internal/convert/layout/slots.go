package layout

import (
	"fmt"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/views/arrange"
)

// permuteFused moves the rows of the heads of q and k in a matrix of q, k and v.
func permuteFused(w *Walk, _ *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	t, err := loose(t)
	if err != nil {
		return nil, err
	}
	head, shape := w.Sizes.Len("head"), t.Numbers()
	q, k := w.Sizes.Len("heads")*head, w.Sizes.Len("kv_heads")*head
	if len(shape) != 2 || head < 2 || shape[0] != q+2*k {
		return nil, fmt.Errorf("shape %v of %s does not divide into q, k and v of heads of %d", shape, tensorfs.Quote(t.Source), head)
	}
	parts := make([]*tensorfs.Tensor, 3)
	at := int64(0)
	for i, rows := range []int64{q, k, k} {
		if parts[i], err = arrange.Slice(t, 0, at, rows); err == nil && i < 2 {
			parts[i], err = arrange.Permute(parts[i], rows/head)
		}
		if err != nil {
			return nil, err
		}
		at += rows
	}
	return arrange.Join(0, parts...)
}

// slots puts an adapter of zeros before the adapters of a model.
func slots(w *Walk, p *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	shape := t.Numbers()
	if t.Quant != nil || !IsFloat(t.DType) || len(shape) != 4 || shape[1] != 1 || shape[0] < 1 {
		return nil, fmt.Errorf("%s of shape %v holds no adapters of plain numbers", tensorfs.Quote(t.Source), shape)
	}
	n, rows, columns := shape[0], shape[2], shape[3]
	t, err := arrange.Reshape(t, n*rows, columns)
	if head := w.Sizes.Len("head"); err == nil && len(p.args) > 0 {
		if head < 2 || rows%head != 0 {
			return nil, fmt.Errorf("%d rows of %s do not divide into heads of %d", rows, tensorfs.Quote(t.Source), head)
		}
		t, err = arrange.Permute(t, n*rows/head)
	}
	if err == nil {
		t, err = arrange.Reshape(t, n, rows, columns)
	}
	if err != nil {
		return nil, err
	}
	none := &tensorfs.Tensor{Name: t.Name, Source: t.Source, DType: t.DType, Shape: []int64{1, rows, columns}, Data: zeros(t.Data.Size() / n)}
	return arrange.Join(0, none, t)
}

// zeros is Data of so many zeros.
type zeros int64

func (z zeros) Size() int64 { return int64(z) }

func (z zeros) ReadAt(p []byte, off int64) (int, error) {
	n, err := tensorfs.ClipRange(int64(z), p, off)
	clear(p[:n])
	return n, err
}
