package whole

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/gguf"
	"github.com/tensorfs/tensorfs/views"
	"github.com/tensorfs/tensorfs/views/tree/whole/layout"
)

// alwaysF32 are the ends of names of weights that llama.cpp computes with F32
// alone, as it does with all tensors of one dimension and with all that are not
// called .weight: another type is loaded, and stops it at the first token.
var alwaysF32 = []string{
	"_norm.weight",
	"ffn_gate_inp.weight", "ffn_gate_inp_shexp.weight", "position_embd.weight", "token_types.weight",
	"ssm_conv1d.weight", "ssm_conv1d_q.weight", "ssm_conv1d_k.weight", "ssm_conv1d_v.weight", "shortconv.conv.weight", "indexer.proj.weight",
	"time_mix_first.weight", "time_mix_w1.weight", "time_mix_w2.weight", "time_mix_decay_w1.weight", "time_mix_decay_w2.weight", "time_mix_lerp_fused.weight",
	"altup_correct_coef.weight", "altup_predict_coef.weight",
}

// isF32 reports whether a tensor is F32 whatever the model has.
func isF32(name string, rank int) bool {
	return rank < 2 || !strings.HasSuffix(name, ".weight") ||
		slices.ContainsFunc(alwaysF32, func(end string) bool { return strings.HasSuffix(name, end) })
}

// isStack reports whether a tensor holds the matrices of all experts of a layer.
func isStack(name string) bool { return strings.HasSuffix(name, "_exps.weight") }

// typeOf returns the type that a tensor has in the file, and whether it holds the
// tensor's numbers exactly.
func (x *fileTensors) typeOf(name string, t *tensorfs.Tensor) (to tensorfs.DType, isExact bool, err error) {
	shape := t.Numbers()
	switch isF16 := x.opts.Type == tensorfs.F16 || x.opts.Type == tensorfs.Unknown && t.DType == tensorfs.F16; {
	case x.types[name] == "f16", x.types[name] == "conv" && isF16:
		return tensorfs.F16, t.Quant == nil && t.DType == tensorfs.F16, nil
	case x.types[name] != "", isF32(name, len(shape)):
		return tensorfs.F32, true, nil
	case x.opts.Type != tensorfs.Unknown && isStack(name) && (t.DType == tensorfs.MXFP4 || t.Quant != nil && t.Quant.Mode == "mxfp4"):
		// Experts that were published as MXFP4 would only lose by another rounding.
		if to, isExact, err = views.Exact(t); err != nil || isExact && to == tensorfs.MXFP4 {
			if to != x.opts.Type {
				x.kept = append(x.kept, name)
			}
			return to, isExact, err
		}
		fallthrough
	case x.opts.Type != tensorfs.Unknown:
		to = blocked(x.opts.Type, shape)
		return to, t.Quant == nil && t.DType == to, nil
	case t.Quant == nil && slices.Contains([]tensorfs.DType{tensorfs.F32, tensorfs.F16, tensorfs.BF16}, t.DType):
		return t.DType, true, nil
	}
	to, isExact, err = views.Exact(t)
	if _, ok := fileTypes[to]; err == nil && !ok {
		err = fmt.Errorf("%s is not a type of weights in llama.cpp", to)
	}
	return to, isExact, err
}

// blocked returns the type that was asked for, or another where its blocks do not fit
// into rows of that shape.
func blocked(to tensorfs.DType, shape []int64) tensorfs.DType {
	if elems, _ := to.Block(); shape[len(shape)-1]%elems != 0 {
		return tensorfs.F16 // as llama-quantize does
	}
	return to
}

// Put puts a tensor into the file.
func (x *fileTensors) Put(name string, t *tensorfs.Tensor, _ layout.Origin, _ bool) error {
	fail := func(err error) error { return fmt.Errorf("%s cannot be %s: %w", tensorfs.Quote(t.Source), name, err) }
	to, isExact, err := x.typeOf(name, t)
	if err != nil {
		return fail(err)
	}
	d, err := views.Encode(t, to)
	if err != nil {
		return fail(err)
	}
	shape := t.Numbers()
	x.list = append(x.list, gguf.Stored{Name: name, DType: to, Shape: shape, Data: d})
	x.note(name, to, shape, isExact)
	return nil
}

// note counts a tensor of the file.
func (x *fileTensors) note(name string, to tensorfs.DType, shape []int64, isExact bool) {
	x.notes.Types[to.String()]++
	if n, _ := tensorfs.Elements(shape); x.types[name] == "" && !isF32(name, len(shape)) {
		if x.numbers == nil {
			x.numbers = map[tensorfs.DType]int64{}
		}
		x.numbers[to] += n
	}
	if !isExact {
		if x.rounded == nil {
			x.rounded = map[string][]string{}
		}
		x.notes.Exact = false
		x.rounded[to.String()] = append(x.rounded[to.String()], name)
	}
}

// fileTypes are the values of general.file_type.
var fileTypes = map[tensorfs.DType]uint32{
	tensorfs.F32: 0, tensorfs.F16: 1, tensorfs.Q4_0: 2, tensorfs.Q4_1: 3, tensorfs.Q8_0: 7, tensorfs.Q5_0: 8, tensorfs.Q5_1: 9,
	tensorfs.BF16: 32, tensorfs.MXFP4: 38, tensorfs.NVFP4: 39,
}

// most returns the type that most numbers of matrices have.
func (x *fileTensors) most() (most tensorfs.DType) {
	for _, t := range slices.Sorted(maps.Keys(x.numbers)) {
		if x.numbers[t] > x.numbers[most] {
			most = t
		}
	}
	return most
}

// finish returns what is said about all tensors.
func (x *fileTensors) finish() tensorNotes {
	x.notes.FileType = fileTypes[x.most()]
	for _, t := range slices.Sorted(maps.Keys(x.rounded)) {
		x.notes.Notes = append(x.notes.Notes, fmt.Sprintf("%d tensors are rounded to %s, the first is %s", len(x.rounded[t]), t, x.rounded[t][0]))
	}
	if n := len(x.kept); n > 0 {
		x.notes.Notes = append(x.notes.Notes, fmt.Sprintf("%d tensors are quantised already and stay as they are, the first is %s", n, x.kept[0]))
	}
	return x.notes
}
