package hfdir

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/safetensors"
	"github.com/tensorfs/tensorfs/formats/tokenizer"
	"github.com/tensorfs/tensorfs/views/tree/whole"
	"github.com/tensorfs/tensorfs/views/tree/whole/internal/settings"
	"github.com/tensorfs/tensorfs/views/tree/whole/layout"
)

// tower is the vision tower of a GGUF model, from a file beside it.
type tower struct {
	about *settings.Projector
	model *tensorfs.Model // its tensors by their modules
	note  string          // which it is
	made  result
}

// tower makes the tensors of the vision tower that belongs to a model, nil without one.
// whyNot says why one that is there is left out.
func (k *kind) tower(m *tensorfs.Model, opts whole.Options) (t *tower, whyNot string) {
	if k != hf || m.Layout != "gguf" {
		return nil, ""
	}
	file, _ := whole.ProjectorLayer(m)
	note, err := "its projector layer", error(nil)
	if opts.Projector != nil {
		var found *tensorfs.Model
		var of string
		if found, of, err = opts.Projector(m); found != nil {
			file, note = found, of
		}
	}
	if file == nil && (err == nil || errors.Is(err, whole.ErrNoTower)) {
		return nil, ""
	}
	if err == nil {
		t, err = makeTower(m, file)
	}
	if err != nil {
		return nil, tensorfs.OneLine(err.Error())
	}
	t.note = "the vision tower is that of " + note
	return t, ""
}

// withOllamaTower finds the tower in a file of Ollama's converter where no other is named.
// Theirs is the model as it is stored.
func withOllamaTower(opts whole.Options, theirs, usual *tensorfs.Model) whole.Options {
	named := opts.Projector
	opts.Projector = func(m *tensorfs.Model) (*tensorfs.Model, string, error) {
		if named != nil {
			if t, note, err := named(m); t != nil || errors.Is(err, whole.ErrNoTower) {
				return t, note, err
			}
		}
		t, err := whole.TowerFromOllama(theirs, usual)
		return t, "the file itself", err
	}
	return opts
}

// makeTower makes the tensors of a directory of those of a tower's file.
func makeTower(m, file *tensorfs.Model) (*tower, error) {
	about, err := settings.FromProjector(m, file)
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
	x := &tensorMaker{m: t.model, left: whole.Towers{}}
	w := of.Walk(t.model, layout.HF, about.Fact)
	w.Sink = x
	if err := w.Run(); err != nil {
		return nil, err
	}
	t.made = x.finish()
	return t, nil
}

// join puts the tower into a directory of the language model.
func (t *tower) join(r *result) {
	for i := range r.List {
		r.List[i].Name = t.about.TextName(r.List[i].Name)
	}
	r.List = append(r.List, t.made.List...)
	slices.SortStableFunc(r.List, func(a, b safetensors.Stored) int { return cmp.Compare(b.DType.Bits(), a.DType.Bits()) })
	r.Types = maps.Clone(r.Types)
	for name, n := range t.made.Types {
		r.Types[name] += n
	}
	r.Exact = r.Exact && t.made.Exact
	r.Notes = slices.Concat(r.Notes, []string{t.note}, t.made.Notes)
	r.Left = whole.Towers{whole.Audio: r.Left[whole.Audio]}
}

// config makes config.json of that of the language model.
func (t *tower) config(m *tensorfs.Model, text []byte, f *whole.Files) ([]byte, error) {
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
	f.Leave("preprocessor_config.json", "a GGUF file does not say all of it: take that of the model's page")
	return text, nil
}
