package layout

import (
	"fmt"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/views/arrange"
)

// Llama 4 has its experts as stacks of [in, out]: gates and ups side by side, and downs.

// turnedHalf finds the gates or the ups.
func turnedHalf(w *Walk, p *part) (*tensorfs.Tensor, error) {
	up, _ := halfOf(p.from)
	t, err := plain(w.tensor(gateUp(p.from) + p.param))
	if t == nil || err != nil {
		return nil, err
	}
	w.take(gateUp(p.from) + p.param)
	shape := t.Numbers()
	if len(shape) != 3 || shape[2]%2 != 0 {
		return nil, fmt.Errorf("shape %v of %s does not divide into gates and ups", shape, tensorfs.Quote(t.Source))
	}
	if t, err = arrange.Slice(t, 2, up*shape[2]/2, shape[2]/2); err != nil {
		return nil, err
	}
	return arrange.Transpose(t)
}

// sideBySide puts the gates and the ups into one stack, with the gates. mlx-lm has them as GGUF has.
func sideBySide(w *Walk, m *module) error {
	if w.To == MLX {
		return w.putAlike(m)
	}
	before, last := lastPart(m.from)
	if last != "gate" {
		return nil
	}
	gate, err := w.taken(before+".gate.weight", m.Shape, architectures.Always)
	if err != nil {
		return err
	}
	up, err := w.taken(before+".up.weight", m.Shape, architectures.Always)
	if err != nil {
		return err
	}
	t, err := w.joined(m.to, 1, []*tensorfs.Tensor{gate, up})
	if err != nil {
		return err
	}
	return w.putTurned(m, t, OriginOf(gate))
}

// turnedStack finds the downs, and turnedBack puts them into a directory.
func turnedStack(w *Walk, p *part) (*tensorfs.Tensor, error) {
	t := w.take(p.canonical())
	if t == nil {
		return nil, nil
	}
	t, err := plain(t)
	if err != nil {
		return nil, err
	}
	return arrange.Transpose(t)
}

func turnedBack(w *Walk, m *module) error {
	if w.To == MLX {
		return w.putAlike(m)
	}
	t, err := w.taken(m.from+".weight", m.Shape, architectures.Always)
	if err != nil {
		return err
	}
	return w.putTurned(m, t, OriginOf(t))
}

// putAlike puts the weight of a module as it is.
func (w *Walk) putAlike(m *module) error {
	t, err := w.taken(m.from+".weight", m.Shape, architectures.Always)
	if err != nil {
		return err
	}
	return w.Put(m.to+".weight", t, OriginOf(t), m.Plain)
}

func (w *Walk) putTurned(m *module, t *tensorfs.Tensor, at Origin) error {
	t, err := w.Numbers(m.to, t, PlainType(t))
	if err == nil {
		t, err = arrange.Transpose(t)
	}
	if err != nil {
		return err
	}
	return w.Put(m.to, t, at, m.Plain)
}
