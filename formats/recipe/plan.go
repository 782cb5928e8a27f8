package recipe

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/tensorfs/tensorfs"
)

// Shape is what a plan has to know of a model.
type Shape struct {
	Names  []string // of its tensors, as Hugging Face calls them, sorted
	Layers int      // num_hidden_layers
	// Embedding and Head are the names of the first and the last matrix; Head is "" in a model
	// that has one tensor for both.
	Embedding, Head string
}

// Made describes the inputs of a merged tensor. Tensors share Numbers, which must not be
// changed.
type Made struct {
	Name    string // as Hugging Face calls it
	Parts   []Part // in the order of the recipe
	Numbers map[string]any
}

// Part is a tensor of one of the models.
type Part struct {
	Model   int    // index in Recipe.Models
	Tensor  string // as the model calls it
	Base    bool   // the model is the base
	Tied    bool   // the tensor is the embedding of a model without a head
	Numbers map[string]any
}

// layer finds the number of a layer in a name.
var layer = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^((?:[^.]+\.)*?(?:layers|layer|blocks|h)\.)(\d{1,6})(\.)`)
})

// first are parts of names of tensors before the layers, last of those behind them.
var (
	first = []string{"embed", "wte", "wpe"}
	last  = []string{"norm", "ln_f", "lm_head", "output", "score"}
)

// tensors are a model's tensors by their place.
type tensors struct {
	before, after []string
	layers        map[int][]string // by the number: what follows it, sorted
	prefix        string
}

// placed sorts the tensors of a model. few is whether it does not matter which stand
// before the layers and which behind them.
func placed(s Shape, few bool) (t tensors, err error) {
	t.layers = map[int][]string{}
	for _, name := range s.Names {
		m := layer().FindStringSubmatchIndex(name)
		if m == nil {
			has := func(s string) bool { return strings.Contains(name, s) }
			switch {
			case few || slices.ContainsFunc(first, has):
				t.before = append(t.before, name)
			case slices.ContainsFunc(last, has):
				t.after = append(t.after, name)
			default:
				return t, fmt.Errorf("%s: it is not known whether it stands before the layers or behind them, so no slices can be put together", tensorfs.Quote(name))
			}
			continue
		}
		prefix := name[:m[3]]
		if t.prefix != "" && prefix != t.prefix {
			return t, fmt.Errorf("there are layers named %s and %s; only models with one sequence of layers can be merged", tensorfs.Printable(t.prefix), tensorfs.Printable(prefix))
		}
		t.prefix = prefix
		n, _ := strconv.Atoi(name[m[4]:m[5]])
		if n >= s.Layers {
			return t, fmt.Errorf("%s: config.json has num_hidden_layers %d", tensorfs.Quote(name), s.Layers)
		}
		t.layers[n] = append(t.layers[n], name[m[6]:])
	}
	return t, nil
}

// Reference is the index of the model whose config.json the merge has: the base, or the first.
func (r *Recipe) Reference() int { return max(r.Base, 0) }

// Layer is a layer of a model.
type Layer struct{ Model, Number int }

// Layers returns for each layer of the merge the layer whose name it takes: of the base, or
// of the first source. layers is the number of layers in a whole model.
func (r *Recipe) Layers(layers int) (list []Layer) {
	for i := range r.Slices {
		s := &r.Slices[i]
		x := s.Sources[r.like(s)]
		if x.All {
			x.To = layers
		}
		for n := x.From; n < x.To; n++ {
			list = append(list, Layer{x.Model, n})
		}
	}
	return list
}

// like is the index in a slice of the source whose model has the same tensor names: the
// base, or the first.
func (r *Recipe) like(s *Slice) int {
	return max(slices.IndexFunc(s.Sources, func(x Source) bool { return x.Model == r.Base }), 0)
}

// Limits of a plan. What a recipe may repeat of the models' tensors and layers follows from how
// many these are, so that a short recipe of a small model makes nothing large.
const (
	maxTensors  = 225_000 // of all models, and of a merge
	maxRepeats  = 4       // of all tensors and layers; small models may repeat theirs more often:
	freeTensors = 1 << 14
	freeLayers  = 1 << 10
	// Filters that are tried on names cost steps: so many for each tensor of the models, and some more.
	stepsOfTensor = 256
	freeSteps     = 1 << 24
)

// CheckModels returns an error if models have more tensors in all than are merged.
func CheckModels(models []Shape) error {
	n := 0
	for _, s := range models {
		n += len(s.Names)
	}
	if n > maxTensors {
		return fmt.Errorf("the models have %d tensors in all, and at most %d are merged", n, maxTensors)
	}
	return nil
}

// Plan lists the inputs of each tensor of the merge, in the order of the layers. models are
// the shapes of r.Models.
func (r *Recipe) Plan(models []Shape) (list []Made, err error) {
	if err := CheckModels(models); err != nil {
		return nil, err
	}
	all := make([]tensors, len(models))
	for i, s := range models {
		if all[i], err = placed(s, len(r.Slices) == 1); err != nil {
			return nil, fmt.Errorf("%s: %w", tensorfs.Printable(r.Models[i]), err)
		}
	}
	p := plan{r: r, models: models, most: freeTensors, layersLeft: freeLayers, steps: freeSteps, shared: map[*Source]map[string]any{}}
	for _, s := range models {
		p.most += maxRepeats * len(s.Names)
		p.layersLeft += maxRepeats * s.Layers
		p.steps += stepsOfTensor * len(s.Names)
	}
	p.most = min(p.most, maxTensors)
	addOutside := func(s *Slice, namesOf func(t *tensors) []string) error {
		for _, name := range namesOf(&all[s.Sources[r.like(s)].Model]) {
			names := make([]string, len(s.Sources))
			for i := range names {
				names[i] = name
			}
			if err := p.add(s, name, names, 0); err != nil {
				return err
			}
		}
		return nil
	}
	if err := addOutside(&r.Slices[0], func(t *tensors) []string { return t.before }); err != nil {
		return nil, err
	}
	at := 0
	for i := range r.Slices {
		if at, err = p.layers(&r.Slices[i], all, at); err != nil {
			return nil, err
		}
	}
	if err := addOutside(&r.Slices[len(r.Slices)-1], func(t *tensors) []string { return t.after }); err != nil {
		return nil, err
	}
	last := &r.Slices[len(r.Slices)-1]
	for _, x := range last.Sources {
		head := models[x.Model].Head
		if head == "" || models[last.Sources[r.like(last)].Model].Head != "" {
			continue
		}
		return p.list, addOutside(last, func(*tensors) []string { return []string{head} })
	}
	return p.list, nil
}

// plan is a plan that is being made.
type plan struct {
	r      *Recipe
	models []Shape
	list   []Made

	parts, most  int // inputs of all tensors in list, and their limit
	layersLeft   int // that may still be added
	taken, steps int // steps of filters, and their limit
	values       []value
	shared       map[*Source]map[string]any // what numbers returned last for each source, and for nil
}

// value is the value of a parameter.
type value struct {
	name string
	of   any
}

// layers adds the layers of a slice. Its first layer becomes layer number at of the merge.
func (p *plan) layers(s *Slice, all []tensors, at int) (int, error) {
	like := s.Sources[p.r.like(s)].Model
	from, to := func(x Source) int { return x.From }, s.Sources[0].To-s.Sources[0].From
	if s.Sources[0].All {
		from, to = func(Source) int { return 0 }, p.models[like].Layers
	}
	for _, x := range s.Sources {
		n := p.models[x.Model].Layers
		if x.All && n != to || x.To > n {
			return 0, fmt.Errorf("%s has %d layers, and %d are asked for", tensorfs.Printable(p.r.Models[x.Model]), n, max(x.To, to))
		}
	}
	if p.layersLeft -= to; p.layersLeft < 0 {
		return 0, fmt.Errorf("the merge would repeat the layers of its models more than %d times", maxRepeats)
	}
	for k := range to {
		t := 1.0
		if to > 1 {
			t = float64(k) / float64(to-1)
		}
		number := 0
		for _, x := range s.Sources {
			if x.Model == like {
				number = from(x) + k
			}
		}
		for _, rest := range all[like].layers[number] {
			names := make([]string, len(s.Sources))
			for i, x := range s.Sources {
				names[i] = all[x.Model].prefix + strconv.Itoa(from(x)+k) + rest
			}
			if err := p.add(s, all[like].prefix+strconv.Itoa(at+k)+rest, names, t); err != nil {
				return 0, err
			}
		}
	}
	return at + to, nil
}

// add adds a tensor of a slice; names are the names of its parts.
func (p *plan) add(s *Slice, name string, names []string, t float64) error {
	if p.parts += len(names); p.parts > p.most {
		return fmt.Errorf("the merge would read more than %d tensors, which is the limit for models of this size", p.most)
	}
	m := Made{Name: name, Parts: make([]Part, len(names))}
	var err error
	if m.Numbers, err = p.numbers(p.r.Method.sharedParams, s, nil, name, t, true); err != nil {
		return err
	}
	for i := range s.Sources {
		x, part := &s.Sources[i], &m.Parts[i]
		have := p.models[x.Model].Names
		at, ok := slices.BinarySearch(have, names[i])
		if of := &p.models[x.Model]; !ok && of.Head == "" && p.isHead(s, names[i]) { // as mergekit reads tied models
			at, ok = slices.BinarySearch(have, of.Embedding)
			part.Tied = true
		}
		if !ok {
			return fmt.Errorf("%s has no %s", tensorfs.Printable(p.r.Models[x.Model]), tensorfs.Quote(names[i]))
		}
		part.Model, part.Tensor, part.Base = x.Model, have[at], x.Model == p.r.Base
		if name == part.Tensor {
			m.Name = part.Tensor
		}
		if part.Numbers, err = p.numbers(p.r.Method.each, s, x, names[i], t, !(part.Base && p.r.Method.base)); err != nil {
			return fmt.Errorf("%s: %w", tensorfs.Printable(p.r.Models[x.Model]), err)
		}
	}
	p.list = append(p.list, m)
	return nil
}

// isHead reports whether a model of a slice calls its head so.
func (p *plan) isHead(s *Slice, name string) bool {
	return slices.ContainsFunc(s.Sources, func(x Source) bool { return p.models[x.Model].Head == name })
}

// numbers are the values of parameters: of a model where x is one. needed is whether those
// without a default have to be there.
func (p *plan) numbers(params []Param, s *Slice, x *Source, name string, t float64, needed bool) (map[string]any, error) {
	var places [3]map[string]*Setting
	if x != nil {
		places[0] = x.settings
	}
	places[1], places[2] = s.settings, p.r.settings
	p.values = p.values[:0]
	for _, param := range params {
		v, ok := param.Default, param.Default != nil
		for _, settings := range places {
			set := settings[param.Name]
			if set == nil {
				continue
			}
			if found, has := set.at(name, t, &p.taken); has {
				v, ok = found, true
				break
			}
		}
		switch {
		case !ok && param.Required && needed:
			return nil, fmt.Errorf("the parameter %s has no value for %s", param.Name, tensorfs.Quote(name))
		case !ok:
			continue
		}
		if _, isBool := param.Default.(bool); isBool {
			v, ok = truth(v)
		} else {
			v, ok = numberOf(v)
		}
		if !ok {
			return nil, fmt.Errorf("the parameter %s has a value of another kind for %s", param.Name, tensorfs.Quote(name))
		}
		p.values = append(p.values, value{param.Name, v})
	}
	if p.taken > p.steps {
		return nil, fmt.Errorf("its filters take too long for the names of so many tensors; write fewer")
	}
	return p.share(x), nil
}

// share returns the values as a map: the last one of a source again if it has the same.
func (p *plan) share(x *Source) map[string]any {
	last := p.shared[x]
	same := last != nil && len(last) == len(p.values)
	for _, v := range p.values {
		same = same && last[v.name] == v.of
	}
	if same {
		return last
	}
	values := make(map[string]any, len(p.values))
	for _, v := range p.values {
		values[v.name] = v.of
	}
	p.shared[x] = values
	return values
}

// truth takes 0 and 1 for false and true, as Python does.
func truth(v any) (any, bool) {
	if x, ok := v.(float64); ok {
		return x != 0, true
	}
	_, ok := v.(bool)
	return v, ok
}

// numberOf takes false and true for 0 and 1.
func numberOf(v any) (any, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case bool:
		if v {
			return 1.0, true
		}
		return 0.0, true
	}
	return nil, false
}
