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

// tower are the towers of a GGUF model, from a file beside it.
type tower struct {
	about []settings.Found
	note  string // which file it is
	made  result
}

// tower makes the tensors of the towers that belong to a model, nil without any. whyNot
// explains by the parts why existing towers are left out.
func (k *kind) tower(m *tensorfs.Model, opts convert.Options) (t *tower, whyNot map[string]string) {
	if k != hf || m.Layout != "gguf" {
		return nil, nil
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
		return nil, nil
	}
	if err != nil {
		return nil, map[string]string{convert.Vision: tensorfs.OneLine(err.Error())}
	}
	if t, whyNot = makeTower(m, file); t != nil {
		t.note = fmt.Sprintf("the %s %s from %s", t.parts(), map[bool]string{true: "comes", false: "come"}[len(t.about) == 1], note)
	}
	return t, whyNot
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

// makeTower converts the tensors of towers in a file to a directory's, nil if none can be.
// whyNot explains by the parts why.
func makeTower(m, file *tensorfs.Model) (t *tower, whyNot map[string]string) {
	parts := settings.Parts(file)
	t = &tower{made: result{Exact: true, Types: map[string]int{}}}
	whyNot = map[string]string{}
	for _, part := range parts {
		list := slices.DeleteFunc(slices.Clone(file.Tensors), func(x tensorfs.Tensor) bool { return len(parts) > 1 && settings.PartOf(x.Source) != part })
		if err := t.add(m, file, part, list); err != nil {
			whyNot[string(part)] = tensorfs.OneLine(err.Error())
		}
	}
	if len(t.about) == 0 {
		return nil, whyNot
	}
	return t, whyNot
}

// add converts the tensors of one tower.
func (t *tower) add(m, file *tensorfs.Model, part architectures.Part, list []tensorfs.Tensor) error {
	about, err := settings.FromProjector(part, m, file)
	if err != nil {
		return err
	}
	of, err := layout.TowerOf(about.Projector, about.Fact)
	if err != nil {
		return err
	}
	model, err := of.Model(list, layout.GGUF)
	if err != nil {
		return err
	}
	x := &tensorMaker{m: model, left: convert.Towers{}}
	w := of.Walk(model, layout.HF, about.Fact)
	w.Sink = x
	if err := w.Run(); err != nil {
		return err
	}
	made := x.finish()
	t.made.List = append(t.made.List, made.List...)
	t.made.Notes = append(t.made.Notes, made.Notes...)
	t.made.Exact = t.made.Exact && made.Exact
	for name, n := range made.Types {
		t.made.Types[name] += n
	}
	t.about = append(t.about, settings.Found{Projector: about, Tensor: layout.TensorsOf(model).Find})
	return nil
}

// parts names the towers.
func (t *tower) parts() string {
	list := make([]string, len(t.about))
	for i, x := range t.about {
		list[i] = string(x.Part) + " tower"
	}
	return strings.Join(list, " and the ")
}

// join puts the tower into a directory of the language model.
func (t *tower) join(r *result) error {
	r.Types = maps.Clone(r.Types)
	if t.about[0].Joins() {
		if err := joinExperts(r); err != nil {
			return err
		}
	}
	for i := range r.List {
		r.List[i].Name = t.about[0].TextName(r.List[i].Name)
	}
	r.List = append(r.List, t.made.List...)
	slices.SortStableFunc(r.List, func(a, b safetensors.Stored) int { return cmp.Compare(b.DType.Bits(), a.DType.Bits()) })
	for name, n := range t.made.Types {
		r.Types[name] += n
	}
	r.Exact = r.Exact && t.made.Exact
	r.Notes = slices.Concat(r.Notes, []string{t.note}, t.made.Notes)
	left := convert.Towers{}
	for _, part := range []string{convert.Vision, convert.Audio, convert.Speech} {
		if n := r.Left[part]; !slices.ContainsFunc(t.about, func(x settings.Found) bool { return string(x.Part) == part }) {
			left[part] = n
		}
	}
	r.Left = left
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
	text, notes, err := settings.ProjectorConfig(text, tokens, t.about...)
	if err != nil {
		return nil, fmt.Errorf("the %s: %w", t.parts(), err)
	}
	f.Notes = append(f.Notes, notes...)
	f.Leave("preprocessor_config.json", "a GGUF file has only a part of it: take the file from the model's page")
	return text, nil
}
