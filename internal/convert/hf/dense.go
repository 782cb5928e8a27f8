package hf

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/safetensors"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/convert/layout"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
	"github.com/tensorfs/tensorfs/views"
	"github.com/tensorfs/tensorfs/views/arrange"
)

// dense is a release with another program's packing undone: plain numbers under the names
// that they have in a release, without a trace of the packing. Everything that can be
// converted from a release can be converted from it as well.
type dense struct {
	*tensorfs.Model
	notes []string // what is rounded, a line for each type
	exact bool
	kept  int // modules that MLX has with equal numbers, as which they are there
}

// isPacked reports whether another program packed weights of a release.
func isPacked(m *tensorfs.Model) bool {
	return m.Format == "huggingface" && slices.ContainsFunc(m.Tensors, func(t tensorfs.Tensor) bool { return t.Quant != nil || t.Opaque != "" })
}

// KeptPacked explains why whole models stay packed although plain numbers were asked for,
// "" if weights are unpacked or plain numbers were not asked for.
func KeptPacked(m *tensorfs.Model, opts convert.Options) string {
	switch {
	case !opts.Dequantise || isPacked(m):
		return ""
	case m.Format == "huggingface":
		return "its weights are not packed"
	}
	return "it is for directories that another program packed, and hf/ of others has plain numbers in any case"
}

// newDense returns a release without its packing. What MLX has with equal numbers stays as
// that where keep is set; such a model has no file of weights.
func newDense(m *tensorfs.Model, keep bool) (*dense, error) {
	x := &tensorMaker{m: m, left: convert.Towers{}}
	d := &dense{}
	var list []tensorfs.Tensor
	for i := range m.Tensors {
		t := &m.Tensors[i]
		if t.Owner != "" {
			continue
		}
		p, err := x.unpacked(t, keep)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", tensorfs.Quote(t.Source), err)
		}
		if p.Quant != nil {
			d.kept++
		}
		list = append(list, *p)
		x.store(p.Source, p, layout.OriginOf(t))
	}
	r := x.finish()
	sources, err := d.sources(m, r.List, keep)
	if err != nil {
		return nil, err
	}
	d.notes, d.exact = r.Notes, r.Exact
	d.Model, err = tensorfs.NewModel(tensorfs.Model{Format: m.Format, Path: m.Path, Name: m.Name, Architecture: m.Architecture, Layout: m.Layout,
		Tensors: list, Config: m.Config, Metadata: m.Metadata, Sources: sources, ModTime: m.ModTime})
	return d, err
}

// plainNames maps the ends of names of codes to the names of their numbers in a release.
var plainNames = []struct {
	end, plain string
	turned     bool // the release has the matrices as [in, out]
}{
	{".qweight", ".weight", false},
	{".weight_packed", ".weight", false},
	{"_blocks", "", true},
}

// unpacked returns a tensor as the release has it, and notes whether it is rounded.
func (x *tensorMaker) unpacked(t *tensorfs.Tensor, keep bool) (*tensorfs.Tensor, error) {
	if t.Opaque != "" {
		return nil, errors.New(t.Opaque)
	}
	if t.Quant == nil && t.Change == nil {
		return t, nil
	}
	name, turned := t.Source, false
	for _, n := range plainNames {
		if stem, ok := strings.CutSuffix(name, n.end); ok {
			name, turned = stem+n.plain, n.turned
			break
		}
	}
	var made *tensorfs.Tensor
	var err error
	if t.Change != nil {
		made, err = x.Numbers(name, t, cmp.Or(t.Float, t.DType))
		copied := *made
		made, turned = &copied, turned && t.Change.Of.Quant != nil
	}
	if made == nil && keep && !turned {
		made, err = moduleForMLX(t)
	}
	if made == nil && err == nil {
		made, err = x.plain(name, t)
	}
	if err == nil && turned {
		made, err = arrange.Transpose(made)
	}
	if err != nil {
		return nil, err
	}
	made.Name, made.Source = t.Weight(), name
	return made, nil
}

// plain returns a module as plain numbers of the type in which programs compute with it.
func (x *tensorMaker) plain(name string, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	to, exact, err := views.Plain(t)
	if err != nil {
		return nil, err
	}
	if exact {
		return layout.Encoded(t, to)
	}
	return x.Numbers(name, t, to)
}

// moduleForMLX returns the module of MLX's with the numbers of another program's, nil if
// there is no such module.
func moduleForMLX(t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	if t.Quant.Same != nil {
		return t.Quant.Same()
	}
	if t.Quant.Mode != "mxfp4" {
		return nil, nil
	}
	words, ok := asWords(t)
	if !ok {
		return nil, nil
	}
	return words, nil
}

// packingFiles say how a model is packed, and some programs look for them.
var packingFiles = []string{"quantize_config.json", "quant_config.json", "hf_quant_config.json"}

// sources returns the files of the release.
func (d *dense) sources(m *tensorfs.Model, list []safetensors.Stored, keep bool) ([]tensorfs.Source, error) {
	add := func(of []tensorfs.Source, name string, data tensorfs.Data) []tensorfs.Source {
		return append(of, tensorfs.Source{Name: name, Open: func() (tensorfs.File, error) { return unclosed{data}, nil }})
	}
	files, err := sources(m, func(name string) bool {
		return !isWeights(name) && name != configName && !slices.Contains(packingFiles, name)
	})
	if err != nil {
		return nil, err
	}
	stored, err := storedConfig(m)
	if err != nil {
		return nil, err
	}
	text := stored
	if isPacked(m) || slices.ContainsFunc(m.Tensors, func(t tensorfs.Tensor) bool { return t.Change != nil && t.Change.Of.Quant != nil }) {
		if text, err = unquantised(stored); err != nil {
			return nil, err
		}
	}
	all := add(nil, configName, tensorfs.Bytes(text))
	for _, f := range files {
		all = add(all, f.Path, f.Data)
	}
	if keep {
		return all, nil
	}
	weights, err := safetensors.Compose([][2]string{{"format", "pt"}}, list)
	if err != nil {
		return nil, err
	}
	return add(add(all, weightsName, weights), weightsName+".index.json", weightsIndex(list)), nil
}

// unclosed is Data that others close.
type unclosed struct{ tensorfs.Data }

func (unclosed) Close() error { return nil }

// unquantised returns a config.json without its keys about quantisation.
func unquantised(stored []byte) ([]byte, error) {
	o, err := jsonobj.ParseFile(configName, stored)
	if err != nil {
		return nil, err
	}
	return replaced(o, "", true).Lines(false), nil
}

// unpackedFiles returns the files of a directory of plain numbers; how is a note about it.
func (k *kind) unpackedFiles(m *tensorfs.Model, opts convert.Options, how string) (*convert.Files, error) {
	d, err := newDense(m, false)
	if err != nil {
		return nil, err
	}
	opts.Dequantise = false
	f, err := k.files(d.Model, opts)
	if err != nil {
		return nil, err
	}
	d.tell(f, how)
	return f, nil
}

// tell notes what became of the weights.
func (d *dense) tell(f *convert.Files, how string) {
	f.Exact, f.Notes = f.Exact && d.exact, slices.Concat([]string{how}, d.notes, f.Notes)
}

// notLoaded explains why mlx-lm does not load a release as it is packed, "" if it does.
func notLoaded(m *tensorfs.Model) (string, error) {
	stored, err := storedConfig(m)
	if err != nil {
		return "", err
	}
	config, err := forMLX(stored, true, sourceNames(m))
	if err != nil {
		return "", err
	}
	return unpacked(m, config), nil
}

// mlxOfPacked returns mlx/ of a release that is packed in a way that mlx-lm does not load:
// its modules as MLX's where these have equal numbers, and as plain numbers where not.
func mlxOfPacked(m *tensorfs.Model, opts convert.Options, why string) (*convert.Files, error) {
	d, err := newDense(m, true)
	if err != nil {
		return nil, fmt.Errorf("%s; %w", why, err)
	}
	if d.kept > 0 {
		f, err := quantisedStored(d.Model, nil)
		if err == nil {
			d.tell(f, fmt.Sprintf("mlx-lm cannot load the stored packing: %d modules are repacked as MLX's with equal numbers, and the rest is plain numbers", d.kept))
			return f, nil
		}
	}
	return mlx.unpackedFiles(m, opts, "mlx-lm cannot load the stored packing: the weights are plain numbers")
}
