package layout

import (
	"fmt"
	"strconv"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/views/arrange"
)

// asHere gives a tensor the shape that GGUF has, of that which the move says.
func asHere(w *Walk, p *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	if p.param == ".bias" {
		return t, nil
	}
	if err := w.shaped(t, p.args, p.param); err != nil {
		return nil, err
	}
	return w.reshaped(t, p.Shape)
}

// asThere gives it the shape that the move says.
func asThere(w *Walk, p *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	if p.param == ".bias" {
		return t, nil
	}
	return w.reshaped(t, p.args)
}

func (w *Walk) reshaped(t *tensorfs.Tensor, names []string) (*tensorfs.Tensor, error) {
	t, err := loose(t)
	if err != nil {
		return nil, err
	}
	shape := make([]int64, len(names))
	for i, name := range names {
		if shape[i], err = strconv.ParseInt(name, 10, 64); err == nil {
			continue
		}
		if shape[i] = w.Sizes.Len(name); shape[i] < 1 {
			return nil, fmt.Errorf("the size %s of %s is not known", name, tensorfs.Quote(t.Source))
		}
	}
	return arrange.Reshape(t, shape...)
}
