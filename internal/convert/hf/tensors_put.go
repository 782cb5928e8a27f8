package hf

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/safetensors"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/convert/layout"
	"github.com/tensorfs/tensorfs/views"
)

// placed is a tensor of the directory.
type placed struct {
	safetensors.Stored
	layout.Origin
	Numbers []int64 // the shape of a module that is quantised, before that
}

// quantised is a module of mlx-lm's that is not plain numbers.
type quantised struct {
	name string
	quantSetting
}

// quantSetting is what mlx-lm is told of a quantised module.
type quantSetting struct {
	Group int    `json:"group_size"`
	Bits  int    `json:"bits"`
	Mode  string `json:"mode"`
}

// Put puts a tensor into the directory, quantised where mlx-lm takes it so unless
// it has to be plain.
func (x *tensorMaker) Put(name string, t *tensorfs.Tensor, o layout.Origin, plain bool) error {
	if module, ok := strings.CutSuffix(name, ".weight"); ok && x.mlx && !plain && !x.again {
		q, ok := t, t.Quant != nil
		if !ok {
			q, ok = views.Split(t)
		}
		if ok {
			return x.putModule(module, q, o)
		}
	}
	to := layout.PlainType(t)
	switch {
	case strings.HasSuffix(name, correctionBias):
		to = tensorfs.F32
	case x.mlx && x.isUncast(name):
	case x.float != tensorfs.Unknown:
		to = x.float
	}
	p, err := x.Numbers(name, t, to)
	if err != nil {
		return err
	}
	if !x.again && (t.Quant != nil || !layout.IsFloat(t.DType) || x.factors != nil && x.factors.applied[t.Source]) {
		if x.quantised == nil {
			x.quantised = map[string]bool{}
		}
		x.quantised[name] = true
	}
	x.store(name, p, o)
	return nil
}

// correctionBias ends the names of tensors that are always F32.
const correctionBias = "e_score_correction_bias"

// uncast are the ends of names of tensors that mlx-lm does not cast, whatever the architecture is.
var uncast = []string{"A_log", ".router_bias", ".mlp.gate.gate.weight"}

// isUncast reports whether mlx-lm does not cast a tensor.
func (x *tensorMaker) isUncast(name string) bool {
	return x.uncast != "" && strings.HasSuffix(name, x.uncast) || slices.ContainsFunc(uncast, func(end string) bool { return strings.HasSuffix(name, end) })
}

// store appends a tensor as it is.
func (x *tensorMaker) store(name string, t *tensorfs.Tensor, o layout.Origin) {
	x.list = append(x.list, placed{safetensors.Stored{Name: name, DType: t.DType, Shape: t.Shape, Data: t.Data}, o, t.Numbers()})
}

// putModule puts codes, scales and biases into the directory.
func (x *tensorMaker) putModule(module string, t *tensorfs.Tensor, o layout.Origin) error {
	q := t.Quant
	x.modules = append(x.modules, quantised{module, quantSetting{q.GroupSize, q.Bits, q.Mode}})
	x.store(module+".weight", t, o)
	x.store(module+".scales", q.Scales, o)
	if q.Biases != nil {
		x.store(module+".biases", q.Biases, o)
	}
	return nil
}

// Table puts a table of integers into the directory.
func (x *tensorMaker) Table(name string, t *tensorfs.Tensor, o layout.Origin) error {
	x.store(name, t, o)
	return nil
}

// Packed puts blocks of MXFP4 into the directory as the release of gpt-oss has them.
func (x *tensorMaker) Packed(name string, t *tensorfs.Tensor, o layout.Origin) error {
	codes, err := views.Codes(t)
	if err != nil {
		return err
	}
	x.experts = true
	x.store(name+"_blocks", codes, o)
	x.store(name+"_scales", t.Quant.Scales, o)
	return nil
}

// Numbers returns a tensor as plain numbers of a type, and notes whether it is rounded.
func (x *tensorMaker) Numbers(name string, t *tensorfs.Tensor, to tensorfs.DType) (*tensorfs.Tensor, error) {
	made, err := layout.Encoded(t, to)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be %s: %w", tensorfs.Quote(t.Source), tensorfs.Printable(name), err)
	}
	if exact := t.Quant == nil && (t.DType == to || to == tensorfs.F32); !exact {
		if x.rounded == nil {
			x.rounded = map[string][]string{}
		}
		if list := x.rounded[to.String()]; len(list) == 0 || list[len(list)-1] != name { // not for each part of one
			x.rounded[to.String()] = append(list, name)
		}
	}
	return made, nil
}

// torchTypes are the values of torch_dtype.
var torchTypes = map[string]tensorfs.DType{"float32": tensorfs.F32, "float16": tensorfs.F16, "bfloat16": tensorfs.BF16}

// torch returns the type to which a program that loads the directory casts all numbers.
func (x *tensorMaker) torch() string {
	to := x.float
	if to == tensorfs.Unknown {
		have := map[tensorfs.DType]bool{}
		for _, t := range x.list {
			have[t.DType] = have[t.DType] || len(t.Shape) > 1
		}
		to = commonFloat(have)
	}
	for name, t := range torchTypes {
		if t == to {
			return name
		}
	}
	return "bfloat16"
}

// finish returns what was made.
func (x *tensorMaker) finish() result {
	slices.SortStableFunc(x.list, func(a, b placed) int {
		return cmp.Or(cmp.Compare(b.DType.Bits(), a.DType.Bits()), strings.Compare(a.File, b.File), cmp.Compare(a.Offset, b.Offset), strings.Compare(a.Name, b.Name))
	})
	r := result{Torch: x.torch(), Quantization: x.quantization(), Experts: x.experts, Types: map[string]int{}, Exact: len(x.rounded) == 0, Left: x.left}
	for _, t := range x.list {
		r.List = append(r.List, t.Stored)
		r.Types[t.DType.String()]++
	}
	r.Notes = convert.RoundedNotes(x.rounded)
	if x.factors != nil {
		r.Notes = append(r.Notes, x.factors.notes()...)
		r.Exact = r.Exact && len(x.factors.rounded) == 0
	}
	return r
}

// quantization returns the JSON object of that name for config.json: the most
// frequent setting, and the modules that differ from it.
func (x *tensorMaker) quantization() []byte {
	if x.description != nil {
		return x.description
	}
	if len(x.modules) == 0 {
		return nil
	}
	count := map[quantSetting]int{}
	for _, m := range x.modules {
		count[m.quantSetting]++
	}
	settings := slices.SortedFunc(maps.Keys(count), func(a, b quantSetting) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a.Bits, b.Bits), strings.Compare(a.Mode, b.Mode), cmp.Compare(a.Group, b.Group))
	})
	top := settings[0]
	text := fmt.Appendf(nil, `{"group_size":%d,"bits":%d,"mode":%q`, top.Group, top.Bits, top.Mode)
	for _, m := range x.modules {
		if m.quantSetting == top {
			continue
		}
		own, err := json.Marshal(m.quantSetting)
		if err != nil { // numbers and a word cannot fail
			panic(err)
		}
		text = append(tensorfs.AppendJSONString(append(text, ','), m.name), ':')
		text = append(text, own...)
	}
	return append(text, '}')
}
