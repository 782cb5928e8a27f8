package recipe

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
)

// Recipe says how a model is made of others.
type Recipe struct {
	Method *Method
	Models []string // all that it names, each once, in the order of the text
	Base   int      // index of the base model in Models; -1 without one
	Slices []Slice  // at least one
	// DType is the type in which numbers are computed, Out the one in which they are kept:
	// F32, F16 or BF16, or Unknown, which is that of the models' tensors, and for Out
	// that of the computation.
	DType, Out tensorfs.DType
	// Tokenizer is the index in Models of the one whose tokenizer the merge has; -1 for that
	// of the base, or of the first model. Tokens is whether the recipe says it, by
	// which embeddings are put into its order.
	Tokenizer int
	Tokens    bool

	settings map[string]Setting
}

// Slice is a run of layers of the merge.
type Slice struct {
	Sources  []Source
	settings map[string]Setting
}

// Source is a run of layers of a model.
type Source struct {
	Model    int // index in Recipe.Models
	From, To int // its first layer, and the one after its last
	All      bool
	settings map[string]Setting
}

// Match reports whether a text may be a recipe: a line of it
// begins with its key merge_method.
func Match(text []byte) bool {
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "merge_method:") {
			return true
		}
	}
	return false
}

// refused are keys of mergekit's recipes that are not read, with what to do about each.
var refused = map[string]string{
	"modules":          "parts of a model with slices of their own are not merged; name the models' whole layers below slices",
	"tokenizer":        "vocabularies are not merged; use tokenizer_source with one of the models",
	"chat_template":    "templates are not written into merges; give --set tokenizer.chat_template=@FILE",
	"lora_merge_dtype": "adapters are merged in their model's type",
}

// Parse reads a recipe. An error says which key is wrong, and is one line.
func Parse(text []byte) (*Recipe, error) {
	root, err := document(text)
	if err != nil {
		return nil, err
	}
	r := &Recipe{Base: -1, Tokenizer: -1}
	if err := r.read(root); err != nil {
		return nil, err
	}
	return r, r.check()
}

func (r *Recipe) read(root object) (err error) {
	method, err := root.text("merge_method")
	if err != nil {
		return err
	}
	if r.Method = methods[method]; r.Method == nil {
		if why := others[method]; why != "" {
			return fmt.Errorf("merge_method %s is not read: %s; there are %s", method, why, strings.Join(names(), ", "))
		}
		return fmt.Errorf("merge_method %s is not one of mergekit's that are read: %s", tensorfs.Quote(method), strings.Join(names(), ", "))
	}
	for key, why := range refused {
		if root.has(key) {
			return fmt.Errorf("%s: %s", key, why)
		}
	}
	known := []string{"merge_method", "models", "slices", "base_model", "dtype", "out_dtype", "parameters", "tokenizer_source"}
	if err := root.only(known); err != nil {
		return err
	}
	base, err := root.optionalText("base_model")
	if err != nil {
		return err
	}
	if r.settings, err = r.Method.settingsOf(root); err != nil {
		return err
	}
	switch models, slices := root.has("models"), root.has("slices"); {
	case models && slices:
		return fmt.Errorf("models and slices are both there; want one of them")
	case models:
		err = r.readModels(root, base)
	case slices:
		err = r.readSlices(root)
	default:
		err = fmt.Errorf("neither models nor slices are there; name the models below models")
	}
	if err != nil {
		return err
	}
	if base != "" {
		r.Base = r.model(base)
	}
	return r.readRest(root)
}

// readModels reads a list of whole models. A base that is not among them comes last.
func (r *Recipe) readModels(root object, base string) error {
	list, err := root.objects("models")
	if err != nil {
		return err
	}
	s := Slice{}
	for _, x := range list {
		if err := x.only([]string{"model", "parameters"}); err != nil {
			return err
		}
		name, err := x.text("model")
		if err != nil {
			return err
		}
		settings, err := r.Method.settingsOf(x)
		if err != nil {
			return err
		}
		s.Sources = append(s.Sources, Source{Model: r.model(name), All: true, settings: settings})
	}
	if base != "" {
		if at := r.model(base); !slices.ContainsFunc(s.Sources, func(x Source) bool { return x.Model == at }) {
			if !r.Method.base {
				return fmt.Errorf("base_model: %s has no base; leave it out, or list the model below models", r.Method.Name)
			}
			s.Sources = append(s.Sources, Source{Model: at, All: true})
		}
	}
	r.Slices = []Slice{s}
	return nil
}

// readSlices reads runs of layers.
func (r *Recipe) readSlices(root object) error {
	list, err := root.objects("slices")
	if err != nil {
		return err
	}
	for _, x := range list {
		if err := x.only([]string{"sources", "parameters"}); err != nil {
			return err
		}
		s := Slice{}
		if s.settings, err = r.Method.settingsOf(x); err != nil {
			return err
		}
		sources, err := x.objects("sources")
		if err != nil {
			return err
		}
		for _, y := range sources {
			source, err := r.source(y)
			if err != nil {
				return err
			}
			s.Sources = append(s.Sources, source)
			if a, b := source, s.Sources[0]; a.To-a.From != b.To-b.From {
				return fmt.Errorf("%s: the sources of a slice have %d and %d layers; want as many of each", y.at, b.To-b.From, a.To-a.From)
			}
		}
		r.Slices = append(r.Slices, s)
	}
	return nil
}

// source reads a run of layers of a model.
func (r *Recipe) source(x object) (s Source, err error) {
	if err := x.only([]string{"model", "layer_range", "parameters"}); err != nil {
		return s, err
	}
	name, err := x.text("model")
	if err != nil {
		return s, err
	}
	s.Model = r.model(name)
	if s.From, s.To, err = x.span("layer_range"); err != nil {
		return s, err
	}
	s.settings, err = r.Method.settingsOf(x)
	return s, err
}

// model returns the index of the model that the recipe calls so.
func (r *Recipe) model(name string) int {
	if i := slices.Index(r.Models, name); i >= 0 {
		return i
	}
	r.Models = append(r.Models, name)
	return len(r.Models) - 1
}

// types are the names that dtype and out_dtype take.
var types = map[string]tensorfs.DType{"float32": tensorfs.F32, "float16": tensorfs.F16, "bfloat16": tensorfs.BF16}

// readRest reads what stands beside the models.
func (r *Recipe) readRest(root object) error {
	for _, x := range []struct {
		key string
		to  *tensorfs.DType
	}{{"dtype", &r.DType}, {"out_dtype", &r.Out}} {
		name, err := root.optionalText(x.key)
		if err != nil {
			return err
		}
		t, ok := types[name]
		if name != "" && !ok {
			return fmt.Errorf("%s: %s; want float32, float16 or bfloat16", x.key, tensorfs.Quote(name))
		}
		*x.to = t
	}
	name, err := root.optionalText("tokenizer_source")
	switch {
	case err != nil:
		return err
	case name == "union":
		return fmt.Errorf("tokenizer_source: vocabularies are not joined; want base, or one of the models")
	case name == "":
		return nil
	}
	r.Tokens = true
	if name == "base" {
		return nil
	}
	if r.Tokenizer = slices.Index(r.Models, name); r.Tokenizer < 0 {
		return fmt.Errorf("tokenizer_source: %s is none of the models%s", tensorfs.Quote(name), instead(name, r.Models))
	}
	return nil
}

// check holds the recipe to the contract of its method.
func (r *Recipe) check() error {
	m := r.Method
	if m.base && r.Base < 0 {
		return fmt.Errorf("base_model is not there; %s wants one", m.Name)
	}
	for i, s := range r.Slices {
		at := "models"
		if !s.Sources[0].All {
			at = fmt.Sprintf("slices[%d]", i)
		}
		seen := map[int]bool{}
		for _, x := range s.Sources {
			if seen[x.Model] {
				return fmt.Errorf("%s: %s is there twice", at, tensorfs.Quote(r.Models[x.Model]))
			}
			seen[x.Model] = true
		}
		if m.base && !seen[r.Base] {
			return fmt.Errorf("%s: base_model %s is not among the sources", at, tensorfs.Quote(r.Models[r.Base]))
		}
		n := len(s.Sources)
		if m.base {
			n--
		}
		switch {
		case n < m.least || m.most > 0 && n > m.most:
			want := fmt.Sprint(m.least)
			if m.most == 0 {
				want += " or more"
			}
			if m.base {
				want += " besides base_model"
			}
			return fmt.Errorf("%s: there are %d models, and %s wants %s", at, len(s.Sources), m.Name, want)
		}
	}
	return nil
}
