package hf

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/formats/safetensors"
	"github.com/tensorfs/tensorfs/formats/tokenizer"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/convert/internal/settings"
	"github.com/tensorfs/tensorfs/internal/convert/layout"
)

// tower is the vision tower of a GGUF model, from a file beside it.
type tower struct {
	about *settings.Projector
	model *tensorfs.Model // its tensors by their modules
	note  string          // which it is
	made  result
}

// tower makes the tensors of the vision tower that belongs to a model, nil without one.
// whyNot explains why an existing tower is left out.
func (k *kind) tower(m *tensorfs.Model, opts convert.Options) (t *tower, whyNot string) {
	if k != hf || m.Layout != "gguf" {
		return nil, ""
	}
	file, _ := convert.ProjectorLayer(m)
	note, err := "its projector layer", error(nil)
	if opts.Projector != nil {
		var found *tensorfs.Model
		var of string
		if found, of, err = opts.Projector(m); found != nil {
			file, note = found, of
		}
	}
	if file == nil && (err == nil || errors.Is(err, convert.ErrNoTower)) {
		return nil, ""
	}
	if err == nil {
		t, err = makeTower(m, file)
	}
	if err != nil {
		return nil, tensorfs.OneLine(err.Error())
	}
	t.note = "the vision tower comes from " + note
	return t, ""
}

// withOllamaTower finds the tower in a file of Ollama's converter if no other is named.
// theirs is the model as it is stored.
func withOllamaTower(opts convert.Options, theirs, usual *tensorfs.Model) convert.Options {
	named := opts.Projector
	opts.Projector = func(m *tensorfs.Model) (*tensorfs.Model, string, error) {
		if named != nil {
			if t, note, err := named(m); t != nil || errors.Is(err, convert.ErrNoTower) {
				return t, note, err
			}
		}
		t, err := convert.TowerFromOllama(theirs, usual)
		return t, "the file itself", err
	}
	return opts
}

// makeTower converts the tensors of a tower's file to a directory's.
func makeTower(m, file *tensorfs.Model) (*tower, error) {
	about, err := settings.FromProjector(architectures.Vision, m, file)
	if err != nil {
		return nil, err
	}
	of, err := layout.TowerOf(about.Projector, about.Fact)
	if err != nil {
		return nil, err
	}
	t := &tower{about: about}
	if t.model, err = of.Model(file.Tensors, layout.GGUF); err != nil {
		return nil, err
	}
	x := &tensorMaker{m: t.model, left: convert.Towers{}}
	w := of.Walk(t.model, layout.HF, about.Fact)
	w.Sink = x
	if err := w.Run(); err != nil {
		return nil, err
	}
	t.made = x.finish()
	return t, nil
}

// join puts the tower into a directory of the language model.
func (t *tower) join(r *result) error {
	r.Types = maps.Clone(r.Types)
	if t.about.Joins() {
		if err := joinExperts(r); err != nil {
			return err
		}
	}
	for i := range r.List {
		r.List[i].Name = t.about.TextName(r.List[i].Name)
	}
	r.List = append(r.List, t.made.List...)
	slices.SortStableFunc(r.List, func(a, b safetensors.Stored) int { return cmp.Compare(b.DType.Bits(), a.DType.Bits()) })
	for name, n := range t.made.Types {
		r.Types[name] += n
	}
	r.Exact = r.Exact && t.made.Exact
	r.Notes = slices.Concat(r.Notes, []string{t.note}, t.made.Notes)
	r.Left = convert.Towers{convert.Audio: r.Left[convert.Audio]}
	return nil
}

// joinExperts makes one tensor of the experts of each layer that are apart: their gates and ups, and their downs.
func joinExperts(r *result) error {
	const middle = ".experts."
	parts := map[string][]safetensors.Stored{} // by the name of the tensor, each expert's gate before its up
	var list []safetensors.Stored
	for _, x := range r.List {
		layer, rest, found := strings.Cut(x.Name, middle)
		number, module, _ := strings.Cut(rest, ".")
		expert, err := strconv.Atoi(number)
		at, ok := map[string]int{"gate_proj.weight": 2 * expert, "up_proj.weight": 2*expert + 1, "down_proj.weight": expert}[module]
		if !found || err != nil || !ok {
			list = append(list, x)
			continue
		}
		name := layer + middle + "down_proj"
		if module != "down_proj.weight" {
			name = layer + middle + "gate_up_proj"
		}
		for len(parts[name]) <= at {
			parts[name] = append(parts[name], safetensors.Stored{})
		}
		parts[name][at] = x
	}
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		all := parts[name]
		first, experts := all[0], int64(len(all))
		rows := int64(1)
		if strings.HasSuffix(name, "gate_up_proj") {
			rows, experts = 2, experts/2
		}
		var data []tensorfs.Data
		for _, x := range all {
			if x.Data == nil || x.DType != first.DType || !slices.Equal(x.Shape, first.Shape) || len(x.Shape) != 2 {
				return fmt.Errorf("%s would join tensors of different types or shapes", tensorfs.Quote(name))
			}
			data = append(data, x.Data)
		}
		list = append(list, safetensors.Stored{Name: name, DType: first.DType, Shape: []int64{experts, rows * first.Shape[0], first.Shape[1]}, Data: tensorfs.Concat(data...)})
		r.Types[first.DType.String()] -= len(all) - 1
	}
	r.List = list
	return nil
}

// config extends the language model's config.json to the directory's.
func (t *tower) config(m *tensorfs.Model, text []byte, f *convert.Files) ([]byte, error) {
	var tokens []string
	keys := settings.ByKey(m.Metadata)
	if v, err := tokenizer.ReadKeys(func(key string) any { return keys[key] }, m.Architecture); err == nil {
		tokens = v.Tokens
	}
	text, notes, err := t.about.Config(text, layout.TensorsOf(t.model).Find, tokens)
	if err != nil {
		return nil, fmt.Errorf("the vision tower: %w", err)
	}
	f.Notes = append(f.Notes, notes...)
	f.Leave("preprocessor_config.json", "a GGUF file has only a part of it: take the file from the model's page")
	return text, nil
}
