package layout

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/views"
)

// Parameters of an activation are a number for each layer: a tensor for Hugging Face, and
// an element of a list among the keys of a GGUF file.

// Scalar returns the only number of a tensor.
func Scalar(t *tensorfs.Tensor) (float32, error) {
	for _, n := range t.Numbers() {
		if n != 1 {
			return 0, fmt.Errorf("%s has the shape %v, and is not one number", tensorfs.Quote(t.Source), t.Numbers())
		}
	}
	list, err := views.Floats(t)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", tensorfs.Quote(t.Source), err)
	}
	return list[0], nil
}

// intoKey leaves it to the settings to write the key.
func intoKey(w *Walk, p *part) (*tensorfs.Tensor, error) {
	if w.take(p.canonical()) == nil {
		return nil, fmt.Errorf("the tensor %s is missing", p.canonical())
	}
	return nil, nil
}

// outOfKey makes the tensor of a layer. If the move has a second argument, it has no
// dimension for Hugging Face; for mlx-lm it never has one.
func outOfKey(w *Walk, m *module) error {
	args := m.Moves[0].Args
	for _, k := range w.Model.Metadata {
		if x, one := k.Value.(float32); one && k.Key == args[0] { // of the whole model
			t := float32s(m.from, []float32{x})
			return w.Put(m.HFPart(m.to, ".weight"), t, OriginOf(t), true)
		}
		list, ok := k.Value.(tensorfs.Array)
		if k.Key != args[0] || !ok || int64(list.Len()) != w.Layers {
			continue
		}
		n := int64(0)
		for v := range list.Values() {
			x, ok := v.(float32)
			if n++; n-1 != w.layer || !ok {
				continue
			}
			t := float32s(m.from, []float32{x})
			if len(args) > 1 || w.To == MLX {
				t.Shape = nil
			}
			return w.Put(m.HFPart(m.to, ".weight"), t, OriginOf(t), true)
		}
	}
	return fmt.Errorf("the file has no list %s of %d numbers", args[0], w.Layers)
}

// filled makes a list of one number: a field of config.json, or what the description has.
func filled(w *Walk, p *part) (*tensorfs.Tensor, error) {
	x, err := strconv.ParseFloat(p.args[0], 32)
	if err != nil {
		var ok bool
		if x, ok = w.facts("number." + p.args[0]).(float64); !ok {
			return nil, fmt.Errorf("config.json has no number %s", p.args[0])
		}
	}
	n := w.Sizes.Len(p.Shape[0])
	if len(p.Shape) != 1 || n < 1 {
		return nil, fmt.Errorf("the length of %s is not known", w.name(p))
	}
	return float32s(p.from, slices.Repeat([]float32{float32(x)}, int(n))), nil
}

// unfilled leaves it to the settings to write the field.
func unfilled(w *Walk, m *module) error {
	_, err := w.taken(m.from+".weight", m.Shape, architectures.Always)
	return err
}

// Filled returns the number that all numbers of a tensor are.
func Filled(t *tensorfs.Tensor) (float32, error) {
	list, err := views.Floats(t)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%s: %w", tensorfs.Quote(t.Source), err)
	case len(list) == 0 || slices.ContainsFunc(list, func(x float32) bool { return x != list[0] }):
		return 0, fmt.Errorf("the numbers of %s differ, and config.json has one for all", tensorfs.Quote(t.Source))
	}
	return list[0], nil
}

// SlopesBias returns the bias of ALiBi that makes such slopes: the first of so many heads is two to the
// power of -bias divided by the next lower power of two.
func SlopesBias(t *tensorfs.Tensor, heads int64) (float64, error) {
	list, err := views.Floats(t)
	if err != nil || len(list) == 0 || !(list[0] > 0) || heads < 1 {
		return 0, fmt.Errorf("%s has no slopes of %d heads", tensorfs.Quote(t.Source), heads)
	}
	return -math.Round(math.Log2(float64(list[0])) * float64(int64(1)<<(bits.Len64(uint64(heads))-1))), nil
}
