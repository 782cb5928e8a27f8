package layout

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/views/arrange"
)

// GGUF has the experts of a layer as a stack of each part. Hugging Face has them as stacks,
// as a stack of gates joined with ups, or one by one; mlx-lm as stacks.

// stacked finds the stack of a part of the experts. In a joined stack all rows of the gate
// come before the rows of the up.
func stacked(w *Walk, p *part) (*tensorfs.Tensor, error) {
	if w.tensor(p.canonical()) != nil {
		return w.stack(p)
	}
	if up, ok := halfOf(p.from); ok && w.tensor(gateUp(p.from)+p.param) != nil {
		t, err := w.joinedExperts(p)
		if err != nil {
			return nil, err
		}
		rows := t.Numbers()[1]
		return arrange.Slice(t, 1, rows/2*up, rows/2)
	}
	return w.eachExpert(p)
}

// halfOf returns which half of gate_up a module is.
func halfOf(module string) (up int64, ok bool) {
	_, last := lastPart(module)
	return map[string]int64{"gate": 0, "up": 1}[last], last == "gate" || last == "up"
}

func gateUp(module string) string {
	before, _ := lastPart(module)
	return before + ".gate_up"
}

// lastPart cuts a name before its last part.
func lastPart(name string) (before, last string) {
	at := strings.LastIndexByte(name, '.')
	return name[:at], name[at+1:]
}

// joinedExperts returns the stack of gates and ups, [E, 2F, D], or the biases [E, 2F].
func (w *Walk) joinedExperts(p *part) (*tensorfs.Tensor, error) {
	t, err := loose(w.take(gateUp(p.from) + p.param))
	if err != nil {
		return nil, err
	}
	if p.param == ".weight" {
		turned, err := w.turnedExperts(t, p)
		if err != nil {
			return nil, err
		}
		if turned {
			if t, err = arrange.Transpose(t); err != nil {
				return nil, err
			}
		}
	}
	if shape := t.Numbers(); len(shape) < 2 || shape[1]%2 != 0 {
		return nil, fmt.Errorf("shape %v of %s does not divide into gates and ups", shape, tensorfs.Quote(t.Source))
	}
	return t, nil
}

// turnedExperts reports whether stacks of experts are stored as [E, in, out]. The shape of
// the joined stack shows it, or if that is square, the shape of the downs beside it. Alternating
// ones always are.
func (w *Walk) turnedExperts(joined *tensorfs.Tensor, p *part) (bool, error) {
	shape, width := joined.Numbers(), w.Sizes.Len("width")
	if joined.Quant != nil || len(shape) != 3 {
		return false, nil
	}
	if shape[1] == width && shape[2] == width && !p.Moved("alternate") {
		before, _ := lastPart(p.from)
		down := w.tensor(before + ".down.weight")
		if down == nil || len(down.Numbers()) != 3 || (down.Numbers()[1] == width) == (down.Numbers()[2] == width) {
			return false, fmt.Errorf("shape %v of %s does not tell rows from columns", shape, tensorfs.Quote(joined.Source))
		}
		return down.Numbers()[2] == width, nil
	}
	return shape[1] == width, nil
}

// eachNumbered stacks tensors whose names end with numbers.
func eachNumbered(w *Walk, p *part) (*tensorfs.Tensor, error) {
	var parts []*tensorfs.Tensor
	for {
		t, err := loose(w.take(fmt.Sprintf("%s.%d%s", p.from, len(parts), p.param)))
		switch {
		case err != nil:
			return nil, err
		case t != nil:
			parts = append(parts, t)
			continue
		case len(parts) == 0:
			return nil, nil
		}
		return arrange.Stack(slices.Clip(parts)...)
	}
}

// splitNumbered puts each tensor of such a stack.
func splitNumbered(w *Walk, m *module) error {
	stack, err := w.taken(m.from+".weight", m.Shape, architectures.Always)
	if err != nil {
		return err
	}
	return w.splitStack(strings.TrimSuffix(m.to, ".{e}"), "weight", stack)
}

// stack returns a part that the model has as a stack.
func (w *Walk) stack(p *part) (*tensorfs.Tensor, error) {
	t := w.take(p.canonical())
	joined := w.tensor(gateUp(p.from) + p.param)
	if joined == nil || p.param != ".weight" || !strings.HasSuffix(p.from, ".down") {
		return t, nil
	}
	t, err := loose(t)
	if err != nil {
		return nil, err
	}
	if turned, err := w.turnedExperts(joined, p); err != nil || !turned {
		return t, err
	}
	return arrange.Transpose(t)
}

// eachExpert stacks experts that are stored one by one.
func (w *Walk) eachExpert(p *part) (*tensorfs.Tensor, error) {
	experts, name := lastPart(p.from)
	var parts []*tensorfs.Tensor
	for {
		t, err := loose(w.take(fmt.Sprintf("%s.%d.%s%s", experts, len(parts), name, p.param)))
		if err != nil {
			return nil, err
		}
		if t == nil {
			break
		}
		parts = append(parts, t)
	}
	if len(parts) == 0 {
		return nil, nil
	}
	if n := w.Sizes.Len(p.Shape[0]); n > 0 && n != int64(len(parts)) {
		return nil, fmt.Errorf("config.json has %d experts, and the model has %d of them in %s", n, len(parts), p.from)
	}
	t, err := arrange.Stack(slices.Clip(parts)...)
	if err != nil {
		return nil, fmt.Errorf("the experts of %s: %w", p.from, err)
	}
	return t, nil
}

// stackOrEach makes a part of a layer's experts: one tensor for each expert, or a stack in
// mlx-lm. Ollama's converter gives Mixtral's w2 the name of the up and w3 the name of the
// down, which their shapes show.
func stackOrEach(w *Walk, m *module) error {
	experts, part := lastPart(m.from)
	up, width, ff := w.tensor(experts+".up.weight"), w.Sizes.Len("width"), w.Sizes.Len("ff")
	if up != nil && len(up.Shape) == 3 && up.Shape[1] == width && up.Shape[2] == ff && width != ff {
		part = map[string]string{"gate": "gate", "up": "down", "down": "up"}[part]
	}
	stack, err := w.taken(experts+"."+part+".weight", m.Shape, architectures.Maybe)
	switch {
	case err != nil:
		return err
	case stack == nil:
		return w.oneByOne(m, experts, part)
	case w.To == MLX:
		return w.Put(m.to+".weight", stack, OriginOf(stack), false)
	}
	before, after, _ := strings.Cut(m.to, ".{e}.")
	return w.splitStack(before, after+".weight", stack)
}

// maxExperts is how many experts of a stack become tensors of their own. Models have
// some hundreds; a shape may say that each has a few bytes, and a tensor of a
// directory costs far more than those.
const maxExperts = 1 << 12

// splitStack puts each tensor of a stack into a directory, as NAME.e.PART.
func (w *Walk) splitStack(name, part string, stack *tensorfs.Tensor) error {
	shape, at := stack.Numbers(), OriginOf(stack)
	if shape[0] > maxExperts {
		return fmt.Errorf("%s has %d experts, and at most %d become tensors of a directory", tensorfs.Quote(stack.Source), shape[0], maxExperts)
	}
	each := int64(0)
	if shape[0] > 0 {
		each = stack.Data.Size() / shape[0]
	}
	for e := range shape[0] {
		t, err := arrange.Slice(stack, 0, e, 1)
		if err == nil {
			t, err = arrange.Reshape(t, shape[1:]...)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", tensorfs.Quote(stack.Source), err)
		}
		if err := w.Put(fmt.Sprintf("%s.%d.%s", name, e, part), t, Origin{at.File, at.Offset + e*each}, false); err != nil {
			return err
		}
	}
	return nil
}

// oneByOne is for GGUF files that have one tensor for each expert.
func (w *Walk) oneByOne(m *module, experts, part string) error {
	var all []*tensorfs.Tensor
	if w.Sizes.Len(m.Shape[0]) == 0 {
		return fmt.Errorf("the experts %s of architecture %s are missing", experts, w.Arch.Name)
	}
	for e := range w.Sizes.Len(m.Shape[0]) {
		t, err := w.taken(fmt.Sprintf("%s.%d.%s.weight", experts, e, part), m.Shape[1:], architectures.Always)
		if err != nil {
			return err
		}
		if all = append(all, t); w.To == MLX {
			continue
		}
		if err := w.Put(strings.Replace(m.to, "{e}", strconv.FormatInt(e, 10), 1)+".weight", t, OriginOf(t), false); err != nil {
			return err
		}
	}
	if w.To != MLX {
		return nil
	}
	name, at := m.to+".weight", OriginOf(all[0])
	stack, err := arrange.Stack(all...)
	if err != nil { // of several types, which are one as numbers
		for i, t := range all {
			if all[i], err = w.Numbers(name, t, w.Float); err != nil {
				return err
			}
		}
		if stack, err = arrange.Stack(all...); err != nil {
			return fmt.Errorf("the experts %s: %w", experts, err)
		}
	}
	return w.Put(name, stack, at, false)
}
