package recipe

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/tensorfs/tensorfs"
)

// Recipe describes how a model is merged from others.
type Recipe struct {
	Method *Method
	Models []string // all that it names, each once, in the order of the text
	Base   int      // index of the base model in Models; -1 without one
	Slices []Slice  // at least one
	// DType is the type in which numbers are computed, Out the type in which they are
	// stored: F32, F16 or BF16. If DType is Unknown, the type of the models' tensors is
	// used; if Out is Unknown, the type of the computation.
	DType, Out tensorfs.DType
	// Tokenizer is the index in Models of the model whose tokenizer the merge takes; -1
	// means the base, or else the first model. Tokens reports that the recipe names it, so
	// that embeddings are put into its order.
	Tokenizer int
	Tokens    bool

	settings map[string]*Setting
	paths    []string // keys that mergekit ignores too, the first ones
	ignored  int
	spelled  map[string]int // indexes in Models, by their names without what changes no path
}

// Slice is a run of layers of the merge.
type Slice struct {
	Sources  []Source
	settings map[string]*Setting
}

// Source is a run of layers of a model.
type Source struct {
	Model    int // index in Recipe.Models
	From, To int // its first layer, and the one after its last
	All      bool
	settings map[string]*Setting
}

// Match reports whether a text may be a recipe: it has mergekit's keys at its top level,
// whether merge_method is one of them or was left out. A text with the key merge_method that
// cannot be parsed is one, too.
func Match(text []byte) bool {
	hasMethod := methodKey().Match(text)
	if !hasMethod && !listKey().Match(text) {
		return false
	}
	root, err := document(text)
	switch {
	case err != nil:
		return hasMethod && (text[0] == '{' || methodLine().Match(text))
	case root.has("merge_method"):
		return true
	}
	for key, of := range lists {
		list, err := root.objects(key)
		if err == nil && list[0].has(of) {
			return true
		}
	}
	return false
}

// methodKey and listKey find keys in YAML of either style and in JSON, methodLine only at the
// beginning of a line.
var (
	listKey = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?m)(^|[{,\s])["']?(models|slices|experts)["']?\s*:`)
	})
	methodKey  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)(^|[{,\s])["']?merge_method["']?\s*:`) })
	methodLine = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^["']?merge_method["']?\s*:`) })
)

// lists are keys at the top level of recipes, with one that their first item has.
var lists = map[string]string{"models": "model", "slices": "sources", expertsKey: "source_model"}

// expertsKey lists the models of a recipe for mergekit-moe.
const expertsKey = "experts"

// refused are keys of mergekit's recipes that are not read, with what to do about each.
var refused = map[string]string{
	"modules":          "parts of a model with slices of their own are not merged; name the models' whole layers below slices",
	expertsKey:         "it is a recipe of mergekit-moe, which makes experts of whole models; want a merge_method",
	"chat_template":    "templates are not written into merges; give --set tokenizer.chat_template=@FILE",
	"lora_merge_dtype": "adapters are merged in their model's type",
}

// Parse reads a recipe. An error is one line and names the wrong key.
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
	if root.has(expertsKey) && !root.has("merge_method") {
		return fmt.Errorf("%s: %s", expertsKey, refused[expertsKey])
	}
	method, err := root.optionalText("merge_method")
	switch {
	case err != nil:
		return err
	case method == "":
		return fmt.Errorf("merge_method is not there; want one of %s", strings.Join(names(), ", "))
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
	known := []string{"merge_method", "models", "slices", "base_model", "dtype", "out_dtype", "parameters", "tokenizer_source", "tokenizer"}
	if err := r.only(root, known); err != nil {
		return err
	}
	base, err := r.reference(root, "base_model")
	if err != nil {
		return err
	}
	if r.settings, err = r.settingsOf(root); err != nil {
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
		if r.Base, err = r.model(base); err != nil {
			return err
		}
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
		if err := r.only(x, []string{"model", "parameters"}); err != nil {
			return err
		}
		name, err := r.requiredReference(x, "model")
		if err != nil {
			return err
		}
		settings, err := r.settingsOf(x)
		if err != nil {
			return err
		}
		at, err := r.model(name)
		if err != nil {
			return err
		}
		s.Sources = append(s.Sources, Source{Model: at, All: true, settings: settings})
	}
	if base != "" {
		at, err := r.model(base)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(s.Sources, func(x Source) bool { return x.Model == at }) {
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
		if x.get("base_model") != nil {
			return fmt.Errorf("%s: a base of one slice is not read; want one at the top level", x.path("base_model"))
		}
		if err := r.only(x, []string{"sources", "parameters", "base_model"}); err != nil {
			return err
		}
		s := Slice{}
		if s.settings, err = r.settingsOf(x); err != nil {
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
	if err := r.only(x, []string{"model", "layer_range", "parameters"}); err != nil {
		return s, err
	}
	name, err := r.requiredReference(x, "model")
	if err != nil {
		return s, err
	}
	if s.Model, err = r.model(name); err != nil {
		return s, err
	}
	if s.From, s.To, err = x.span("layer_range"); err != nil {
		return s, err
	}
	s.settings, err = r.settingsOf(x)
	return s, err
}

// maxModels bounds what a recipe opens.
const maxModels = 64

// model returns the index of the model of that name, which is another model's name until here.
func (r *Recipe) model(name string) (int, error) {
	if i, ok := r.spelled[spelling(name)]; ok {
		return i, nil
	}
	if len(r.Models) == maxModels {
		return 0, fmt.Errorf("it names more than %d models", maxModels)
	}
	if r.spelled == nil {
		r.spelled = map[string]int{}
	}
	r.spelled[spelling(name)] = len(r.Models)
	r.Models = append(r.Models, name)
	return len(r.Models) - 1, nil
}

// spelling returns a name without parts of a path that change nothing: ./a//b/ is a/b. What
// two dots mean depends on links, so that they stay, and so does a name such as hf:ORG/NAME.
func spelling(name string) string {
	if before, _, ok := strings.Cut(name, ":"); ok && !strings.Contains(before, "/") {
		return name
	}
	parts := slices.DeleteFunc(strings.Split(name, "/"), func(part string) bool { return part == "" || part == "." })
	if strings.HasPrefix(name, "/") {
		return "/" + strings.Join(parts, "/")
	}
	return strings.Join(parts, "/")
}

// types are the names that dtype and out_dtype take.
var types = map[string]tensorfs.DType{"float32": tensorfs.F32, "float16": tensorfs.F16, "bfloat16": tensorfs.BF16}

// readRest reads the keys besides the models.
func (r *Recipe) readRest(root object) error {
	for _, x := range []struct {
		key string
		to  *tensorfs.DType
	}{{"dtype", &r.DType}, {"out_dtype", &r.Out}} {
		name, err := root.optionalText(x.key)
		if err != nil {
			return err
		}
		t, ok := types[strings.TrimPrefix(name, "torch.")]
		if name != "" && !ok {
			return fmt.Errorf("%s: %s; want float32, float16 or bfloat16", x.key, tensorfs.Quote(name))
		}
		*x.to = t
	}
	name, key, err := r.tokenizer(root)
	switch {
	case err != nil:
		return err
	case name == "union":
		return fmt.Errorf("%s: vocabularies are not joined; want base, or one of the models", key)
	case name == "":
		return nil
	}
	r.Tokens = true
	if name == "base" {
		return nil
	}
	at, ok := r.spelled[spelling(name)]
	if !ok {
		return fmt.Errorf("%s: %s is not one of the recipe's models%s", key, tensorfs.Quote(name), instead(name, r.Models))
	}
	r.Tokenizer = at
	return nil
}

// tokenizer returns the model whose tokenizer the merge takes, and the key that names it:
// tokenizer_source, or tokenizer with its source, which is union if missing.
func (r *Recipe) tokenizer(root object) (name, key string, err error) {
	const short, long = "tokenizer_source", "tokenizer"
	name, err = r.reference(root, short)
	n := root.get(long)
	switch {
	case err != nil || n == nil:
		return name, short, err
	case name != "":
		return "", "", fmt.Errorf("%s and %s are both there; want one of them", short, long)
	}
	x, err := objectOf(n, long)
	if err != nil {
		return "", "", err
	}
	for _, key := range []string{"tokens", "pad_to_multiple_of"} {
		if x.get(key) != nil {
			return "", "", fmt.Errorf("%s: rows of embeddings are neither made nor added; leave it out", x.path(key))
		}
	}
	if err := r.only(x, []string{"source", "tokens", "pad_to_multiple_of"}); err != nil {
		return "", "", err
	}
	name, err = r.reference(x, "source")
	return cmp.Or(name, "union"), x.path("source"), err
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
