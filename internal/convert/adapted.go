package convert

import (
	"path"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/convert/preset"
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

// isRequantised reports whether adapters change a tensor that was quantised, so that its codes
// are other ones.
func isRequantised(t *tensorfs.Tensor) bool {
	if t.Change == nil || t.Quant != nil || t.DType != tensorfs.F32 {
		return false
	}
	of := t.Change.Of
	return of.Quant != nil || of.DType.Kind() != tensorfs.KindFloat
}

// adaptedAs is the type in the file of a tensor that adapters change, if none is asked for,
// and whether it holds the numbers. It is the base's type. If nothing here quantises to
// that without an importance matrix, it is Q8_0, or the type of plain numbers for rows that Q8_0 does not take.
func adaptedAs(t *tensorfs.Tensor) (to tensorfs.DType, exact bool) {
	of := t.Change.Of
	switch {
	case t.DType != tensorfs.F32 || t.Float == tensorfs.Unknown: // of the adapter's own numbers, or F32
		return t.DType, true
	case !isRequantised(t):
		return t.Float, false
	}
	if to = tensorfs.Q8_0; of.Quant == nil && views.Quantises(of.DType) && !(&preset.Options{}).NeedsImportance("", of.DType) {
		to = of.DType
	}
	if _, ok := to.Size(t.Shape); !ok || len(t.Shape) < 2 {
		return t.Float, false
	}
	return to, false
}

// requantise notes that a tensor is quantised again, and as what.
func (x *fileTensors) requantise(t *tensorfs.Tensor, to tensorfs.DType) {
	was := t.Change.Of.DType.String()
	if q := t.Change.Of.Quant; q != nil {
		was = q.Mode
	}
	if was != to.String() {
		was += " -> " + to.String()
	}
	if x.requantised == nil {
		x.requantised = map[string]int{}
	}
	x.requantised[was]++
	x.notes.Exact = false
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
