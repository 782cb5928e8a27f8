package layout

import (
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/views"
	"github.com/tensorfs/tensorfs/views/arrange"
)

// The release of gpt-oss has gates and ups of the experts in alternating rows of one
// stack, and, where the experts are not MXFP4, stacks as [E, in, out].

// alternating is stacked where the rows of gate and up take turns, in the weights
// and in the biases.
func alternating(w *Walk, p *part) (*tensorfs.Tensor, error) {
	up, ok := halfOf(p.from)
	if !ok || w.tensor(p.canonical()) != nil || w.tensor(gateUp(p.from)+p.param) == nil {
		return stacked(w, p)
	}
	t, err := w.joinedExperts(p)
	if err != nil {
		return nil, err
	}
	return arrange.EveryOther(t, 1, up)
}

// trio is gate, up and down of the experts of a layer.
type trio [3]*tensorfs.Tensor

// alternated makes all stacks of a layer with the gate.
func alternated(w *Walk, m *module) error {
	experts, part := lastPart(m.from)
	if part != "gate" {
		return nil
	}
	to, _, _ := strings.Cut(m.to, ".{e}.")
	if w.To == MLX {
		to, _ = lastPart(m.to)
	}
	var weights, biases trio
	for i, name := range []string{"gate", "up", "down"} {
		shape := []string{"experts", "eff", "width"}
		if name == "down" {
			shape = []string{"experts", "width", "eff"}
		}
		for j, param := range []string{".weight", ".bias"} {
			list := []*trio{&weights, &biases}[j]
			var err error
			if list[i], err = w.taken(experts+"."+name+param, shape, architectures.Always); err != nil {
				return err
			}
			if w.To != MLX {
				continue
			}
			if err := w.Put(to+"."+name+"_proj"+param, list[i], OriginOf(list[i]), false); err != nil {
				return err
			}
		}
	}
	if w.To == MLX {
		return nil
	}
	return w.alternate(to, weights, biases)
}

// alternate puts the experts into a directory: gate, up and down as [E, out, in].
func (w *Walk) alternate(name string, weights, biases trio) error {
	if err := w.alternateBiases(name, biases); err != nil {
		return err
	}
	packed := true
	for _, t := range weights {
		q := moduleOf(t)
		packed = packed && q != nil && q.Quant.Mode == "mxfp4" && q.Quant.Global == nil
	}
	names := [3]string{name + ".gate_up_proj", name + ".gate_up_proj", name + ".down_proj"}
	if !packed {
		gates := PlainType(weights[:2]...) // the down is a tensor of its own
		for i, to := range []tensorfs.DType{gates, gates, PlainType(weights[2])} {
			var err error
			if weights[i], err = w.Numbers(names[i], weights[i], to); err != nil {
				return err
			}
		}
	}
	both, err := inTurn(weights[0], weights[1])
	if err != nil {
		return err
	}
	for i, t := range []*tensorfs.Tensor{both, nil, weights[2]} {
		if t == nil {
			continue
		}
		if packed {
			if err := w.Packed(names[i], moduleOf(t), OriginOf(weights[i])); err != nil {
				return err
			}
			continue
		}
		out, err := arrange.Transpose(t)
		if err != nil {
			return err
		}
		if err := w.Put(names[i], out, OriginOf(weights[i]), false); err != nil {
			return err
		}
	}
	return nil
}

func (w *Walk) alternateBiases(name string, biases trio) error {
	to := PlainType(biases[:2]...)
	gate, err := w.Numbers(name+".gate_up_proj_bias", biases[0], to)
	if err != nil {
		return err
	}
	up, err := w.Numbers(name+".gate_up_proj_bias", biases[1], to)
	if err != nil {
		return err
	}
	both, err := inTurn(gate, up)
	if err != nil {
		return err
	}
	if err := w.Put(name+".gate_up_proj_bias", both, OriginOf(biases[0]), false); err != nil {
		return err
	}
	return w.Put(name+".down_proj_bias", biases[2], OriginOf(biases[2]), false)
}

// moduleOf returns t as a module quantised as MLX does, nil if it is not one.
func moduleOf(t *tensorfs.Tensor) *tensorfs.Tensor {
	if t.Quant != nil {
		return t
	}
	if q, ok := views.Split(t); ok {
		return q
	}
	return nil
}

// inTurn joins two stacks, or two biases of stacks, with their rows in turn.
func inTurn(a, b *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	t, err := arrange.Join(1, a, b)
	if err != nil || t.Numbers()[1] == 0 {
		return t, err
	}
	return arrange.Swap(t, 1, 2, t.Numbers()[1]/2)
}
