package layout

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/views/arrange"
)

// asHere gives a tensor GGUF's shape, from the move's shape.
func asHere(w *Walk, p *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	if p.param == ".bias" {
		return t, nil
	}
	if err := w.shaped(t, p.args, p.param); err != nil {
		return nil, err
	}
	return w.reshaped(t, p.Shape)
}

// asThere gives it the move's shape.
func asThere(w *Walk, p *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	if p.param == ".bias" {
		return t, nil
	}
	return w.reshaped(t, p.args)
}

// reshapedHere gives a weight GGUF's shape, whatever shape it has.
func reshapedHere(w *Walk, p *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	return w.reshaped(t, p.Shape)
}

// reshapedThere gives it the move's shape, if there is one.
func reshapedThere(w *Walk, p *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	if len(p.args) == 0 {
		return t, nil
	}
	return w.reshaped(t, p.args)
}

// turnedBy swaps the last two dimensions if config.json has a field.
func turnedBy(w *Walk, p *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	if w.facts("config."+p.args[0]) == nil {
		return t, nil
	}
	return arrange.Transpose(t)
}

// asHereTurned gives a weight the shape that GGUF has but for the order of the last two
// dimensions, and swaps these.
func asHereTurned(w *Walk, p *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	if err := w.shaped(t, p.args, p.param); err != nil {
		return nil, err
	}
	t, err := w.reshaped(t, lastTwoSwapped(p.Shape))
	if err != nil {
		return nil, err
	}
	return arrange.Transpose(t)
}

// asThereTurned swaps them back.
func asThereTurned(w *Walk, p *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	t, err := w.Numbers(w.name(p), t, PlainType(t))
	if err != nil {
		return nil, err
	}
	if t, err = arrange.Transpose(t); err != nil {
		return nil, err
	}
	return w.reshaped(t, p.args)
}

// lastTwoSwapped returns the names of dimensions with the last two in the other order.
func lastTwoSwapped(names []string) []string {
	n := len(names)
	return append(slices.Clone(names[:n-2]), names[n-1], names[n-2])
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

// kernelsHere drops the one channel that the kernels of a convolution have.
func kernelsHere(w *Walk, p *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	shape := t.Numbers()
	if p.param == ".bias" {
		return t, nil
	}
	if len(shape) == 2 {
		shape = append(shape, 1)
	}
	if len(shape) != 3 || shape[1] != 1 && shape[2] != 1 {
		return nil, fmt.Errorf("shape %v of %s does not fit kernels of one channel", shape, tensorfs.Quote(t.Source))
	}
	t, err := loose(t)
	if err != nil {
		return nil, err
	}
	there := []int64{shape[0], shape[1] * shape[2]}
	if len(p.Shape) == 4 { // as Kimi has them
		there = []int64{1, shape[0], 1, shape[1] * shape[2]}
	}
	return arrange.Reshape(t, there...)
}

// kernelsThere puts it where the side has it.
func kernelsThere(w *Walk, p *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	if p.param == ".bias" {
		return t, nil
	}
	t, err := w.Numbers(w.name(p), t, PlainType(t))
	if err != nil {
		return nil, err
	}
	n, _ := tensorfs.Elements(t.Numbers())
	k := t.Numbers()[len(t.Numbers())-1]
	if w.To == MLX {
		return arrange.Reshape(t, n/k, k, 1)
	}
	return arrange.Reshape(t, n/k, 1, k)
}
