package hf

import (
	"cmp"
	"slices"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/safetensors"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/convert/layout"
)

// isAdapted reports whether adapters change tensors of a model, so that its files differ
// from the stored ones.
func isAdapted(m *tensorfs.Model) bool {
	return slices.ContainsFunc(m.Tensors, func(t tensorfs.Tensor) bool { return t.Change != nil })
}

// adaptedFiles returns the files of a stored directory, with the tensors that adapters
// change in one file of weights. A module that MLX quantised stays so unless an adapter
// changes it: mlx-lm takes a weight without scales for plain numbers. A module that another
// program packed does not.
func (k *kind) adaptedFiles(m *tensorfs.Model, opts convert.Options) (*convert.Files, error) {
	if m.Format != "mlx" {
		d, err := newDense(m, false)
		if err != nil {
			return nil, err
		}
		opts.Dequantise = false
		f, err := k.files(d.Model, opts)
		if err == nil {
			f.Exact, f.Notes = f.Exact && d.exact, slices.Concat(d.notes, f.Notes)
		}
		return f, err
	}
	x := &tensorMaker{m: m, purpose: purpose{mlx: true}, left: convert.Towers{}}
	for i := range m.Tensors {
		t := &m.Tensors[i]
		if t.Change != nil {
			made, err := x.Numbers(t.Source, t, cmp.Or(t.Float, t.DType))
			if err != nil {
				return nil, err
			}
			x.store(t.Source, made, layout.OriginOf(t))
			continue
		}
		x.store(t.Source, t, layout.OriginOf(t))
	}
	r := x.finish()
	weights, err := safetensors.Compose([][2]string{{"format", k.format}}, r.List)
	if err != nil {
		return nil, err
	}
	f := &convert.Files{Tensors: len(r.List), Types: r.Types, Exact: r.Exact, Notes: r.Notes}
	if f.List, err = sources(m, func(name string) bool { return !isWeights(name) }); err != nil {
		return nil, err
	}
	f.List = append(f.List, convert.File{Path: weightsName, Data: weights}, convert.File{Path: weightsName + ".index.json", Data: weightsIndex(r.List)})
	return f, mendStored(m, f)
}
