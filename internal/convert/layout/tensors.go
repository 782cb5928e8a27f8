package layout

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
)

// Tensors finds the tensors of a model by their canonical names.
type Tensors struct {
	list  []tensorfs.Tensor
	codes map[string]int32 // tensors by the weight whose codes they hold under another name
}

// TensorsOf returns what finds the tensors of a model.
func TensorsOf(m *tensorfs.Model) *Tensors {
	x := &Tensors{m.Tensors, map[string]int32{}}
	for i := range x.list {
		if q := x.list[i].Quant; q != nil && q.Weight != "" {
			x.codes[q.Weight] = int32(i)
		}
	}
	return x
}

// Find returns the tensor that holds a weight, or nil.
func (x *Tensors) Find(name string) *tensorfs.Tensor {
	if i := x.index(name); i >= 0 {
		return &x.list[i]
	}
	return nil
}

func (x *Tensors) index(name string) int {
	if i, ok := x.codes[name]; ok {
		return int(i)
	}
	i, ok := slices.BinarySearchFunc(x.list, name, func(t tensorfs.Tensor, s string) int { return strings.Compare(t.Name, s) })
	if !ok || x.list[i].Owner != "" {
		return -1
	}
	return i
}

// FactsOf returns the facts of a model's config: facts of its files by their names, and
// facts with a default after "assumed.".
func FactsOf(m *tensorfs.Model) architectures.Facts {
	all := make(map[string]any, 2*len(m.Config))
	for _, f := range m.Config {
		all["assumed."+f.Name] = f.Value
		if !f.Assumed {
			all[f.Name] = f.Value
		}
	}
	return func(name string) any { return all[name] }
}

// Origin is where in the model's files the numbers of a tensor begin. A reader of a file of
// moved tensors, from front to back, should read the model's files in the same direction.
type Origin struct {
	File   string
	Offset int64
}

// OriginOf returns where a tensor's numbers begin.
func OriginOf(t *tensorfs.Tensor) Origin {
	if e := t.Origin(); len(e) > 0 {
		return Origin{e[0].File, e[0].Offset}
	}
	return Origin{}
}

// IsFloat reports whether a directory has plain numbers of a type.
func IsFloat(t tensorfs.DType) bool {
	return t == tensorfs.F32 || t == tensorfs.F16 || t == tensorfs.BF16
}

// PlainType is the type of a tensor that is not quantised: its own, or F16. For several
// tensors it is their common type, or F16.
func PlainType(ts ...*tensorfs.Tensor) tensorfs.DType {
	is := func(t *tensorfs.Tensor) tensorfs.DType { return cmp.Or(t.Float, t.DType) }
	for _, t := range ts {
		if t.Quant != nil || is(t) != is(ts[0]) || !IsFloat(t.DType) {
			return tensorfs.F16
		}
	}
	return is(ts[0])
}
