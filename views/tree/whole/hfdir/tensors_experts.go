package hfdir

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/views"
	"github.com/tensorfs/tensorfs/views/arrange"
)

// stackOrEach makes a part of a layer's experts: one tensor for each expert, or a
// stack in mlx-lm. Ollama's converter gives Mixtral's w2 the name of the up and w3 that
// of the down, which their shapes show.
func stackOrEach(x *tensorMaker, r *module) error {
	experts, part := lastPart(r.from)
	up, width, ff := x.find(experts+".up.weight"), x.dim("width"), x.dim("ff")
	if x.arch == "llama" && up != nil && len(up.Shape) == 3 && up.Shape[1] == width && up.Shape[2] == ff && width != ff {
		part = map[string]string{"gate": "gate", "up": "down", "down": "up"}[part]
	}
	stack, err := x.take(experts+"."+part+".weight", strings.Join(r.Shape, " "), maybe)
	switch {
	case err != nil:
		return err
	case stack == nil:
		return x.oneByOne(r, experts, part)
	case x.mlx:
		return x.put(r.to+".weight", stack, originOf(stack), false)
	}
	before, after, _ := strings.Cut(r.to, ".{e}.")
	return x.splitStack(before, after+".weight", stack)
}

// lastPart cuts a name before its last part.
func lastPart(name string) (before, last string) {
	at := strings.LastIndexByte(name, '.')
	return name[:at], name[at+1:]
}

// maxExperts is how many experts of a stack become tensors of their own. Models have
// some hundreds; a shape may say that each has a few bytes, and a tensor of a
// directory costs far more than those.
const maxExperts = 1 << 12

// splitStack puts each tensor of a stack into the directory, as NAME.e.PART.
func (x *tensorMaker) splitStack(name, part string, stack *tensorfs.Tensor) error {
	shape, o := stack.Numbers(), originOf(stack)
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
		if err := x.put(fmt.Sprintf("%s.%d.%s", name, e, part), t, origin{o.file, o.offset + e*each}, false); err != nil {
			return err
		}
	}
	return nil
}

// oneByOne is for files that have one tensor for each expert.
func (x *tensorMaker) oneByOne(r *module, experts, part string) error {
	var all []*tensorfs.Tensor
	if x.dim("experts") == 0 {
		return fmt.Errorf("the experts %s of architecture %s are missing", experts, x.arch)
	}
	for e := range x.dim("experts") {
		t, err := x.take(fmt.Sprintf("%s.%d.%s.weight", experts, e, part), strings.Join(r.Shape[1:], " "), always)
		if err != nil {
			return err
		}
		all = append(all, t)
		if x.mlx {
			continue
		}
		if err := x.put(strings.Replace(r.to, "{e}", strconv.FormatInt(e, 10), 1)+".weight", t, originOf(t), false); err != nil {
			return err
		}
	}
	if !x.mlx {
		return nil
	}
	name, o := r.to+".weight", originOf(all[0])
	if stack, err := arrange.Stack(all...); err == nil {
		return x.put(name, stack, o, false)
	}
	for i, t := range all { // of several types, which are one as numbers
		var err error
		if all[i], err = x.numbers(name, t, x.float); err != nil {
			return err
		}
	}
	stack, err := arrange.Stack(all...)
	if err != nil {
		return fmt.Errorf("the experts %s: %w", experts, err)
	}
	return x.put(name, stack, o, false)
}

// gptOSSExperts takes the stacks of gpt-oss: all three with the gate.
func gptOSSExperts(x *tensorMaker, r *module) error {
	experts, part := lastPart(r.from)
	if part != "gate" {
		return nil
	}
	to, _, _ := strings.Cut(r.to, ".{e}.")
	if x.mlx {
		to, _ = lastPart(r.to)
	}
	var weights, biases [3]*tensorfs.Tensor
	for i, p := range []struct{ from, to, shape string }{
		{".gate", ".gate_proj", "experts eff width"}, {".up", ".up_proj", "experts eff width"}, {".down", ".down_proj", "experts width eff"},
	} {
		var err error
		if weights[i], err = x.take(experts+p.from+".weight", p.shape, always); err != nil {
			return err
		}
		if biases[i], err = x.take(experts+p.from+".bias", p.shape, always); err != nil {
			return err
		}
		if !x.mlx {
			continue
		}
		if err := x.put(to+p.to+".weight", weights[i], originOf(weights[i]), false); err != nil {
			return err
		}
		if err := x.put(to+p.to+".bias", biases[i], originOf(biases[i]), false); err != nil {
			return err
		}
	}
	if x.mlx {
		return nil
	}
	return x.putGPTOSS(to, weights, biases)
}

// putGPTOSS puts the experts of gpt-oss into the directory: gate, up and down as
// [E, out, in]. The release has gates and ups in alternating rows, and, where the
// experts are not MXFP4, as [E, in, out].
func (x *tensorMaker) putGPTOSS(name string, weights, biases [3]*tensorfs.Tensor) error {
	to, o := plainType(biases[:2]...), originOf(biases[0])
	for i := range 2 {
		var err error
		if biases[i], err = x.numbers(name+".gate_up_proj_bias", biases[i], to); err != nil {
			return err
		}
	}
	bias, err := x.alternate(biases[0], biases[1])
	if err != nil {
		return err
	}
	if err := x.put(name+".gate_up_proj_bias", bias, o, false); err != nil {
		return err
	}
	if err := x.put(name+".down_proj_bias", biases[2], originOf(biases[2]), false); err != nil {
		return err
	}
	packed := true
	for _, t := range weights {
		q := moduleOf(t)
		packed = packed && q != nil && q.Quant.Mode == "mxfp4" && q.Quant.Global == nil
	}
	if !packed {
		to = plainType(weights[:2]...) // the down is a tensor of its own
		for i, t := range weights {
			own := to
			if i == 2 {
				own = plainType(t)
			}
			if weights[i], err = x.numbers(name+[]string{".gate_up_proj", ".gate_up_proj", ".down_proj"}[i], t, own); err != nil {
				return err
			}
		}
	}
	gateUp, err := x.alternate(weights[0], weights[1])
	if err != nil {
		return err
	}
	for _, t := range []struct {
		name string
		*tensorfs.Tensor
		origin
	}{{".gate_up_proj", gateUp, originOf(weights[0])}, {".down_proj", weights[2], originOf(weights[2])}} {
		if packed {
			q := moduleOf(t.Tensor)
			codes, err := views.Codes(q)
			if err != nil {
				return err
			}
			x.experts = true
			x.store(name+t.name+"_blocks", codes, t.origin)
			x.store(name+t.name+"_scales", q.Quant.Scales, t.origin)
			continue
		}
		out, err := arrange.Transpose(t.Tensor)
		if err != nil {
			return err
		}
		if err := x.put(name+t.name, out, t.origin, false); err != nil {
			return err
		}
	}
	return nil
}

// moduleOf returns t as a module quantised as MLX does, nil where it is none.
func moduleOf(t *tensorfs.Tensor) *tensorfs.Tensor {
	if t.Quant != nil {
		return t
	}
	if q, ok := views.Split(t); ok {
		return q
	}
	return nil
}

// alternate joins two stacks, or two biases of stacks, with their rows in turn.
func (x *tensorMaker) alternate(a, b *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	t, err := arrange.Join(1, a, b)
	if err != nil || t.Numbers()[1] == 0 {
		return t, err
	}
	return arrange.Swap(t, 1, 2, t.Numbers()[1]/2)
}
