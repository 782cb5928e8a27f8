package convert

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/gguf"
	"github.com/tensorfs/tensorfs/formats/images"
	"github.com/tensorfs/tensorfs/formats/names"
	"github.com/tensorfs/tensorfs/internal/convert/preset"
)

// This file writes GGUF files of image and video models, which follow no rule of language
// models: ComfyUI-GGUF's converter and its patch of llama-quantize decide what is in them.

// drawn is a tensor of a denoiser.
type drawn struct {
	name   string
	tensor *tensorfs.Tensor
	shape  []int64 // of the file
	to     tensorfs.DType
	asked  tensorfs.DType // by a preset, of the numbers as to; Unknown without one
}

// imageFile returns the file of a denoiser.
func imageFile(m *tensorfs.Model, a *images.Architecture, opts Options) (*Files, error) {
	if m.Layout == "gguf" && !opts.Rewrites() && len(adaptedBySource(m)) == 0 {
		return stored(m, opts)
	}
	if opts.Quantise != nil {
		if err := opts.Quantise.ForImage(); err != nil {
			return nil, err
		}
	}
	f := newFiles()
	var list []drawn
	var meta []tensorfs.Meta
	var err error
	if m.Layout == "gguf" {
		list, meta, err = storedImage(m)
	} else {
		list, meta, err = f.composedImage(m, a)
	}
	if err != nil {
		return nil, err
	}
	if q := opts.Quantise; q != nil {
		prefix := images.Prefix(namesOf(list))
		tensors := make([]preset.Tensor, len(list))
		for i, d := range list {
			tensors[i] = preset.Tensor{Name: strings.TrimPrefix(d.name, prefix), Canonical: d.tensor.Name, Shape: d.shape, Type: d.to}
		}
		changed := false
		for i, to := range q.ImageTypes(a, tensors) {
			if to == list[i].to {
				continue
			}
			if q.NeedsImportance(list[i].name, to) {
				return nil, fmt.Errorf("%s would be %s, which is made only by an importance matrix, and these are of language models; choose another type with --tensor-type", tensorfs.Printable(list[i].name), to)
			}
			list[i].asked, changed = to, true
		}
		if !changed && m.Layout == "gguf" {
			opts.Quantise = nil
			f, err := imageFile(m, a, opts)
			if err == nil {
				f.Notes = append(f.Notes, fmt.Sprintf("not converted to %s: no weight of it has another type that is converted", q))
			}
			return f, err
		}
		meta = quantisedKeys(meta, q.FileType, nil)
		if opts.Importance != nil {
			f.Notes = append(f.Notes, "the importance matrix is not used: it is of a language model")
		}
	}
	if meta, err = apply(opts.Changes, meta); err != nil {
		return nil, err
	}
	composed, err := f.draw(list)
	if err != nil {
		return nil, err
	}
	d, err := gguf.ComposeWithin(gguf.LimitsOfComfyUI, meta, composed)
	if err != nil {
		return nil, err
	}
	f.List, f.weights = []File{{LanguageFile, d}}, weightsOf(composed)
	return f, nil
}

func namesOf(list []drawn) []string {
	all := make([]string, len(list))
	for i := range list {
		all[i] = list[i].name
	}
	return all
}

// storedImage returns the tensors of a GGUF file as they are.
func storedImage(m *tensorfs.Model) (list []drawn, meta []tensorfs.Meta, err error) {
	for i := range m.Tensors {
		t := &m.Tensors[i]
		if t.BigEndian {
			return nil, nil, errors.New("the model is big-endian, which ComfyUI-GGUF does not read")
		}
		to := t.DType
		if t.Change != nil {
			to, _ = adaptedAs(t)
		}
		list = append(list, drawn{name: t.Source, tensor: t, shape: t.Shape, to: to})
	}
	slices.SortStableFunc(list, func(a, b drawn) int { return inFileOrder(a.tensor, b.tensor) })
	return list, slices.DeleteFunc(slices.Clone(m.Metadata), func(e tensorfs.Meta) bool { return strings.HasPrefix(e.Key, splitKeys) }), nil
}

// composedImage returns the tensors and keys that ComfyUI-GGUF's converter writes of a
// safetensors file, or of a directory of diffusers in the reference's names.
func (f *Files) composedImage(m *tensorfs.Model, a *images.Architecture) (list []drawn, meta []tensorfs.Meta, err error) {
	if a.NoFile {
		return nil, nil, fmt.Errorf("no program's rules for a GGUF file of %s are known; programs load its safetensors file, which hf/ has", a.Title)
	}
	if list, _, err = f.denoiser(m, a); err != nil {
		return nil, nil, err
	}
	types := map[tensorfs.DType]int{}
	var shapes []tensorfs.Meta
	for i := range list {
		d := &list[i]
		types[d.tensor.DType]++
		if err := d.choose(a); err != nil {
			return nil, nil, err
		}
		n, _ := tensorfs.Elements(d.shape)
		if folded := a.Fold(d.shape, n); !slices.Equal(folded, d.shape) {
			value := make([]int32, len(d.shape))
			for j, n := range d.shape {
				value[j] = int32(n)
			}
			shapes = append(shapes, tensorfs.Meta{Key: gguf.KeyShape + d.name, Value: value})
			d.shape = folded
		}
	}
	fileType := fileTypes[tensorfs.BF16]
	for of, n := range types {
		if of != tensorfs.BF16 && n >= types[tensorfs.BF16] {
			fileType = fileTypes[tensorfs.F16]
		}
	}
	meta = []tensorfs.Meta{{Key: "general.architecture", Value: a.Name}, {Key: keyVersion, Value: uint32(2)}, {Key: keyType, Value: fileType}}
	return afterBiases(list), append(meta, shapes...), nil
}

// choose sets the type of a tensor by the type that it has.
func (d *drawn) choose(a *images.Architecture) error {
	t, n := d.tensor, int64(0)
	n, _ = tensorfs.Elements(d.shape)
	wide := a.Wide(d.name, d.shape, n)
	switch {
	case t.Quant != nil || t.Owner != "" || images.IsScale(d.name):
		return fmt.Errorf("%s belongs to weights whose scales are tensors of their own, which ComfyUI-GGUF's converter does not apply; name the release of the model in BF16 or F16", tensorfs.Quote(t.Source))
	case len(d.shape) > 4 && !a.Five:
		return fmt.Errorf("%s has %d dimensions, and a file of %s has no such tensors", tensorfs.Quote(t.Source), len(d.shape), a.Title)
	case len(d.shape) > 4, wide && (t.DType == tensorfs.F32 || t.DType == tensorfs.BF16):
		d.to = tensorfs.F32
	case t.DType == tensorfs.BF16:
		d.to = tensorfs.BF16
	case t.DType == tensorfs.F32 || t.DType == tensorfs.F16 || t.DType == tensorfs.F8_E4M3 || t.DType == tensorfs.F8_E5M2:
		d.to = tensorfs.F16
	default:
		return fmt.Errorf("%s is %s, and ComfyUI-GGUF's converter has no type for it", tensorfs.Quote(t.Source), t.DType)
	}
	return nil
}

// afterBiases moves the tensors of five dimensions, which the converter's second step adds: each is
// after the bias of its module, or at the end.
func afterBiases(list []drawn) []drawn {
	var ordered, five []drawn
	for _, d := range list {
		if len(d.shape) > 4 {
			five = append(five, d)
		} else {
			ordered = append(ordered, d)
		}
	}
	for _, d := range five {
		at := slices.IndexFunc(ordered, func(o drawn) bool { return o.name == strings.TrimSuffix(d.name, ".weight")+".bias" })
		if at < 0 {
			at = len(ordered) - 1
		}
		ordered = slices.Insert(ordered, at+1, d)
	}
	return ordered
}

// Denoiser returns the tensors of an image model's denoiser under the names that its GGUF file
// has, with their stored types, and whether these are not the names of its own files.
func Denoiser(m *tensorfs.Model) (list []tensorfs.Tensor, isTranslated bool, err error) {
	drawn, isTranslated, err := newFiles().denoiser(m, images.Find(m.Architecture))
	for _, d := range drawn {
		t := *d.tensor
		t.Name = names.Escape(d.name)
		list = append(list, t)
	}
	return list, isTranslated, err
}

// denoiser returns the tensors of the denoiser by their names in the reference, in the order of
// the files or, of diffusers' names, of these names, and notes what else the model has.
func (f *Files) denoiser(m *tensorfs.Model, a *images.Architecture) (list []drawn, isTranslated bool, err error) {
	at := make(map[string]*tensorfs.Tensor, len(m.Tensors))
	stored := make([]*tensorfs.Tensor, len(m.Tensors))
	sources := make([]string, len(m.Tensors))
	for i := range m.Tensors {
		stored[i] = &m.Tensors[i]
	}
	slices.SortStableFunc(stored, inFileOrder)
	for i, t := range stored {
		sources[i], at[t.Source] = t.Source, t
	}
	known, prefix := images.Recognise(sources)
	if known == nil && a.Translated() {
		list, err = translatedImage(a, sources, at)
		return list, true, err
	}
	if known != a {
		return nil, false, fmt.Errorf("the names of diffusers for %s are not translated; name its safetensors file with the names of the reference", a.Title)
	}
	others := map[string]int64{}
	for _, t := range stored {
		name, ok := strings.CutPrefix(t.Source, prefix)
		switch {
		case !ok:
			part, _, _ := strings.Cut(t.Source, ".")
			others[part]++
		case a.Dropped(name):
			f.Leave(tensorfs.Printable(name), "no program reads it")
		default:
			list = append(list, drawn{name: name, tensor: t, shape: t.Numbers()})
		}
	}
	for part, n := range others {
		f.Leave(tensorfs.Printable(part), fmt.Sprintf("left out (tensors: %d): it is beside the denoiser, and programs take it from a file of its own", n))
	}
	return list, false, nil
}

// translatedImage returns the tensors of a directory of diffusers by their names in the reference.
func translatedImage(a *images.Architecture, sources []string, at map[string]*tensorfs.Tensor) (list []drawn, err error) {
	made, err := a.FromDiffusers(sources)
	for _, s := range made {
		t, err := joined(s, at)
		if err != nil {
			return nil, err
		}
		list = append(list, drawn{name: s.Name, tensor: t, shape: t.Shape})
	}
	return list, err
}

// joined makes a tensor of the reference of diffusers' tensors.
func joined(s images.Source, at map[string]*tensorfs.Tensor) (*tensorfs.Tensor, error) {
	first := at[s.Of[0]]
	if len(s.Of) == 1 && !s.Exchange {
		return first, nil
	}
	t := *first
	t.Shape = slices.Clone(first.Shape)
	parts := make([]tensorfs.Data, len(s.Of))
	for i, name := range s.Of {
		p := at[name]
		if len(p.Shape) == 0 || p.Quant != nil || p.DType != first.DType || !slices.Equal(p.Shape[1:], first.Shape[1:]) {
			return nil, fmt.Errorf("%s is %s of shape %v, and does not fit %s of shape %v", tensorfs.Quote(name), p.DType, p.Shape, tensorfs.Quote(first.Source), first.Shape)
		}
		if parts[i] = p.Data; i > 0 {
			t.Shape[0] += p.Shape[0]
		}
	}
	t.Data = tensorfs.Concat(parts...)
	if s.Exchange {
		if t.Shape[0]%2 != 0 {
			return nil, fmt.Errorf("%s of shape %v has no two halves", tensorfs.Quote(t.Source), t.Shape)
		}
		half := t.Data.Size() / 2
		t.Data = tensorfs.Concat(tensorfs.Section(t.Data, half, half), tensorfs.Section(t.Data, 0, half))
	}
	return &t, nil
}

// draw makes the tensors of the file.
func (f *Files) draw(list []drawn) (stored []gguf.Stored, err error) {
	rounded := map[string][]string{}
	for _, d := range list {
		t := *d.tensor
		t.Shape, t.Unfolded = d.shape, nil
		for _, to := range []tensorfs.DType{d.to, d.asked} { // the quantiser reads what the converter wrote
			if to == tensorfs.Unknown || t.DType == to && t.Change == nil {
				continue
			}
			made, err := encoded(&t, d.name, to, nil)
			if err != nil {
				return nil, err
			}
			if !holds(to, t.DType) {
				rounded[to.String()] = append(rounded[to.String()], d.name)
			}
			t = tensorfs.Tensor{Source: t.Source, DType: to, Shape: d.shape, Data: made.Data}
		}
		f.count(t.DType)
		stored = append(stored, gguf.Stored{Name: d.name, DType: t.DType, Shape: d.shape, Data: t.Data})
	}
	f.Exact, f.Notes = len(rounded) == 0, append(f.Notes, RoundedNotes(rounded)...)
	return stored, nil
}

// holds reports whether a type has all numbers of another.
func holds(to, from tensorfs.DType) bool {
	switch to {
	case tensorfs.F32:
		return from != tensorfs.F64
	case tensorfs.F16:
		return from == tensorfs.F8_E4M3 || from == tensorfs.F8_E5M2
	}
	return false
}
