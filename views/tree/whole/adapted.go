package whole

import (
	"path"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/views"
)

// adaptedBySource returns the tensors that adapters change, by their names in the model's
// files.
func adaptedBySource(m *tensorfs.Model) map[string]*tensorfs.Tensor {
	list := map[string]*tensorfs.Tensor{}
	for i := range m.Tensors {
		if t := &m.Tensors[i]; t.Change != nil {
			list[t.Source] = t
		}
	}
	return list
}

// adaptedAs is the type in the file of a tensor that adapters change, if none is asked for,
// and whether it holds the numbers: that of the base, or, where nothing here quantises to it,
// Q8_0, or the type of plain numbers for rows that Q8_0 does not take.
func (x *fileTensors) adaptedAs(t *tensorfs.Tensor) (to tensorfs.DType, exact bool) {
	of := t.Change.Of
	switch isPlain := of.Quant == nil && of.DType.Kind() == tensorfs.KindFloat; {
	case t.DType != tensorfs.F32: // of the adapter's own numbers
		return t.DType, true
	case t.Float == tensorfs.Unknown:
		return tensorfs.F32, true
	case isPlain:
		return t.Float, false
	}
	was, to := of.DType, tensorfs.Q8_0
	if of.Quant == nil {
		if views.Quantises(was) {
			to = was
		}
	}
	if _, ok := to.Size(t.Shape); !ok || len(t.Shape) < 2 {
		return t.Float, false
	}
	name := was.String()
	if of.Quant != nil {
		name = of.Quant.Mode
	}
	if x.requantised == nil {
		x.requantised = map[string]int{}
	}
	x.requantised[name+" -> "+to.String()]++
	return to, false
}

// named returns keys of a model with the name of what was applied to it.
func named(meta []tensorfs.Meta, m *tensorfs.Model) []tensorfs.Meta {
	if len(m.Adapters) == 0 {
		return meta
	}
	const key = "general.name"
	meta = slices.Clone(meta)
	for i := range meta {
		if name, ok := meta[i].Value.(string); ok && meta[i].Key == key {
			for _, a := range m.Adapters {
				name += "+" + adapterName(a)
			}
			meta[i].Value = name
		}
	}
	return meta
}

// adapterName is the last part of how an adapter was named.
func adapterName(a tensorfs.Adapter) string {
	return strings.ToValidUTF8(strings.TrimSuffix(path.Base(a.Source), ".gguf"), "?")
}
