package whole

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/views/arrange"
)

// Experts are stored as a stack of each part, as a stack of gates joined with ups,
// or one by one.

// stacked returns the stack of a part of the experts. In a joined stack all rows of
// the gate come before those of the up.
func stacked(x *maker, from, param string) (*tensorfs.Tensor, error) {
	if t := x.find(from + param); t != nil {
		return x.stack(from, param)
	}
	if up, ok := halfOf(from); ok && x.find(gateUp(from)+param) != nil {
		t, err := x.joinedExperts(gateUp(from), param)
		if err != nil {
			return nil, err
		}
		rows := t.Numbers()[1]
		return arrange.Slice(t, 1, rows/2*up, rows/2)
	}
	return x.eachExpert(from, param)
}

// alternating is stacked where the rows of gate and up take turns, in the weights
// and in the biases.
func alternating(x *maker, from, param string) (*tensorfs.Tensor, error) {
	up, ok := halfOf(from)
	if !ok || x.find(from+param) != nil || x.find(gateUp(from)+param) == nil {
		return stacked(x, from, param)
	}
	t, err := x.joinedExperts(gateUp(from), param)
	if err != nil {
		return nil, err
	}
	return arrange.EveryOther(t, 1, up)
}

// halfOf says which half of gate_up a part is.
func halfOf(from string) (up int64, ok bool) {
	switch {
	case strings.HasSuffix(from, ".gate"):
		return 0, true
	case strings.HasSuffix(from, ".up"):
		return 1, true
	}
	return 0, false
}

func gateUp(from string) string { return from[:strings.LastIndexByte(from, '.')] + ".gate_up" }

// joinedExperts returns the stack of gates and ups, [E, 2F, D], or the biases [E, 2F].
func (x *maker) joinedExperts(name, param string) (*tensorfs.Tensor, error) {
	t, err := x.loose(x.take(name + param))
	if err != nil {
		return nil, err
	}
	if param == ".weight" {
		flat, err := x.transposedExperts(t)
		if err != nil {
			return nil, err
		}
		if flat {
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

// transposedExperts reports whether stacks of experts are stored as [E, in, out],
// which the joined one shows.
func (x *maker) transposedExperts(joined *tensorfs.Tensor) (bool, error) {
	shape, width := joined.Numbers(), x.sizes.Len("width")
	switch {
	case joined.Quant != nil || len(shape) != 3:
		return false, nil
	case shape[1] == width && shape[2] == width && x.arch != "gpt-oss":
		return false, fmt.Errorf("shape %v of %s does not tell rows from columns", shape, tensorfs.Quote(joined.Source))
	case shape[1] == width:
		return true, nil
	}
	return false, nil
}

// stack returns a part that the model has as a stack.
func (x *maker) stack(from, param string) (*tensorfs.Tensor, error) {
	t := x.take(from + param)
	joined := x.find(gateUp(from) + param)
	if joined == nil || param != ".weight" || !strings.HasSuffix(from, ".down") {
		return t, nil
	}
	t, err := x.loose(t)
	if err != nil {
		return nil, err
	}
	if flat, err := x.transposedExperts(joined); err != nil || !flat {
		return t, err
	}
	return arrange.Transpose(t)
}

// eachExpert stacks experts that are stored one by one.
func (x *maker) eachExpert(from, param string) (*tensorfs.Tensor, error) {
	at := strings.LastIndexByte(from, '.')
	var parts []*tensorfs.Tensor
	for {
		t, err := x.loose(x.take(fmt.Sprintf("%s.%d%s%s", from[:at], len(parts), from[at:], param)))
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
	if n := x.sizes.Len("experts"); n > 0 && n != int64(len(parts)) {
		return nil, fmt.Errorf("config.json has %d experts, and the model has %d of them in %s", n, len(parts), from)
	}
	t, err := arrange.Stack(slices.Clip(parts)...)
	if err != nil {
		return nil, fmt.Errorf("the experts of %s: %w", from, err)
	}
	return t, nil
}
