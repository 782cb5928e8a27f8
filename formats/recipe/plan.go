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
}

// Made says what a tensor of the merge is made of.
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

// tensors are those of a model by their place.
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
			return t, fmt.Errorf("there are layers called %s and %s; models with one row of layers alone are merged", tensorfs.Printable(t.prefix), tensorfs.Printable(prefix))
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

// Layers says of each layer of the merge which one it is called after: of the base, or of the
// first source. layers is how many a whole model has.
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

// like is the index in a slice of the source whose model its tensors' names are those of: the
// base, or the first.
func (r *Recipe) like(s *Slice) int {
	return max(slices.IndexFunc(s.Sources, func(x Source) bool { return x.Model == r.Base }), 0)
}

// maxTensors bounds what a recipe may repeat of a model's layers.
const maxTensors = 1 << 20

// Plan says what each tensor of the merge is made of, in the order of the layers. models are
// those of r.Models.
func (r *Recipe) Plan(models []Shape) (list []Made, err error) {
	all := make([]tensors, len(models))
	for i, s := range models {
		if all[i], err = placed(s, len(r.Slices) == 1); err != nil {
			return nil, fmt.Errorf("%s: %w", tensorfs.Printable(r.Models[i]), err)
		}
	}
	p := plan{r: r, models: models}
	ends := func(s *Slice, of func(t *tensors) []string) error {
		for _, name := range of(&all[s.Sources[r.like(s)].Model]) {
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
	if err := ends(&r.Slices[0], func(t *tensors) []string { return t.before }); err != nil {
		return nil, err
	}
	at := 0
	for i := range r.Slices {
		if at, err = p.layers(&r.Slices[i], all, at); err != nil {
			return nil, err
		}
	}
	if err := ends(&r.Slices[len(r.Slices)-1], func(t *tensors) []string { return t.after }); err != nil {
		return nil, err
	}
	return p.list, nil
}

// plan is a plan that is being made.
type plan struct {
	r      *Recipe
	models []Shape
	list   []Made
}

// layers adds those of a slice, whose first is the layer number at of the merge.
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

// add adds a tensor of a slice; names are those of its parts.
func (p *plan) add(s *Slice, name string, names []string, t float64) error {
	if len(p.list) == maxTensors {
		return fmt.Errorf("the merge would have more than %d tensors", maxTensors)
	}
	m := Made{Name: name, Parts: make([]Part, len(names))}
	var err error
	if m.Numbers, err = p.r.numbers(p.r.Method.whole, s, nil, name, t, true); err != nil {
		return err
	}
	for i, x := range s.Sources {
		part := &m.Parts[i]
		part.Model, part.Tensor, part.Base = x.Model, names[i], x.Model == p.r.Base
		if _, ok := slices.BinarySearch(p.models[x.Model].Names, part.Tensor); !ok {
			return fmt.Errorf("%s has no %s", tensorfs.Printable(p.r.Models[x.Model]), tensorfs.Quote(part.Tensor))
		}
		if part.Numbers, err = p.r.numbers(p.r.Method.each, s, &x, part.Tensor, t, !(part.Base && p.r.Method.base)); err != nil {
			return fmt.Errorf("%s: %w", tensorfs.Printable(p.r.Models[x.Model]), err)
		}
	}
	p.list = append(p.list, m)
	return nil
}

// numbers are the values of parameters: of a model where x is one. needed is whether those
// without a default have to be there.
func (r *Recipe) numbers(params []Param, s *Slice, x *Source, name string, t float64, needed bool) (map[string]any, error) {
	var places []map[string]Setting
	if x != nil {
		places = append(places, x.settings)
	}
	values := map[string]any{}
	for _, p := range params {
		value, ok := p.Default, p.Default != nil
		for _, settings := range append(places, s.settings, r.settings) {
			if v, has := settings[p.Name].At(name, t); has {
				value, ok = v, true
				break
			}
		}
		switch {
		case !ok && p.Required && needed:
			return nil, fmt.Errorf("the parameter %s has no value for %s", p.Name, tensorfs.Quote(name))
		case !ok:
			continue
		}
		if _, isBool := p.Default.(bool); isBool {
			value, ok = truth(value)
		} else {
			value, ok = number(value)
		}
		if !ok {
			return nil, fmt.Errorf("the parameter %s has a value of another kind for %s", p.Name, tensorfs.Quote(name))
		}
		values[p.Name] = value
	}
	return values, nil
}

// truth takes 0 and 1 for false and true, as Python does.
func truth(v any) (any, bool) {
	if x, ok := v.(float64); ok {
		return x != 0, true
	}
	_, ok := v.(bool)
	return v, ok
}

// number takes false and true for 0 and 1.
func number(v any) (any, bool) {
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
