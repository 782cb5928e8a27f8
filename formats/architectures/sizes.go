package architectures

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
)

// Sizes are the lengths of a model's dimensions, by the names that shapes have. They come
// from the model's facts, and the rest from the first tensor that has the dimension.
type Sizes struct {
	arch       *Architecture
	direction  Direction
	facts      Facts
	known      map[string]length
	evaluating map[string]bool // those whose expressions are being evaluated
	layer      int64           // the layer that the sizes belong to, -1 if none
	varied     bool            // a fact of the layer was asked for
}

// length is the length of a dimension, with its source.
type length struct {
	n      int64
	from   string
	varies bool // between layers
}

// Sizes returns the sizes of a model of the architecture. Facts have the names of
// keys.txt for what the model's files say, and after "assumed." for what they leave to
// defaults; NAME_per_layer is a list of what each layer has, []int64.
func (a *Architecture) Sizes(to Direction, facts Facts) *Sizes {
	return &Sizes{a, to, facts, map[string]length{}, map[string]bool{}, -1, false}
}

// Layer starts a layer: sizes that vary between layers are forgotten.
func (s *Sizes) Layer(n int64) {
	s.layer = n
	maps.DeleteFunc(s.known, func(name string, l length) bool { return l.varies || s.arch.Varies(name) })
}

// fact returns a fact of the model, or of the layer.
func (s *Sizes) fact(name string) any {
	if s.layer >= 0 && s.arch.Varies(name) {
		if list, ok := s.facts(name + "_per_layer").([]int64); ok && s.layer < int64(len(list)) {
			s.varied = true
			return list[s.layer]
		}
	}
	return s.facts(name)
}

// origin is who gives facts.
func (s *Sizes) origin() string {
	if s.direction == ToGGUF {
		return "config.json"
	}
	return "the metadata"
}

// expr is the expression of a size, nil without one.
func (s *Sizes) expr(name string) *Expr {
	if e := s.arch.sizes[name]; e != nil {
		return e
	}
	return s.arch.table.sizes[name]
}

// Fact returns a size, or else a fact, for conditions and expressions. It is nil if neither
// is known.
func (s *Sizes) Fact(name string) any {
	if l, ok := s.known[name]; ok {
		s.varied = s.varied || l.varies
		return l.n
	}
	e := s.expr(name)
	if e == nil {
		return s.fact(name)
	}
	if s.evaluating[name] { // each of two sizes follows from the other
		return nil
	}
	s.evaluating[name] = true
	defer delete(s.evaluating, name)
	return e.Eval(s.Fact)
}

// Len returns the length of a dimension, 0 if it is unknown.
func (s *Sizes) Len(name string) int64 {
	n, _ := s.Fact(name).(int64)
	return n
}

// Need returns an error unless all of these dimensions are known and longer than 0.
func (s *Sizes) Need(names ...string) error {
	for _, name := range names {
		if s.Len(name) < 1 {
			return fmt.Errorf("%s does not give %s, or not as a number of at least one", s.origin(), s.source(name))
		}
	}
	return nil
}

// source describes where a size comes from, in the words of the model's files if they have
// it.
func (s *Sizes) source(name string) string {
	e := s.expr(name)
	if e == nil {
		return name
	}
	text := strings.ReplaceAll(e.String(), "assumed.", "")
	for _, n := range e.names {
		f := FactOf(n)
		switch {
		case f == nil:
		case s.direction == ToGGUF && len(f.Fields) > 0:
			text = strings.ReplaceAll(text, n, f.Fields[0])
		case s.direction == FromGGUF && len(f.Keys) > 0:
			text = strings.ReplaceAll(text, n, f.Keys[0])
		}
	}
	return name + ": " + text
}

// maxLength bounds a dimension, so that products of two fit.
const maxLength = 1 << 30

// Hold compares the shape of a tensor with dimensions, outermost first, as names of sizes
// or numbers. A size that is still unknown is taken from the tensor.
func (s *Sizes) Hold(tensor string, shape []int64, names []string) error {
	if len(shape) != len(names) {
		return fmt.Errorf("%s has the shape %v, and %d dimensions in %s", tensor, shape, len(names), s.arch.Name)
	}
	for i, name := range names {
		if shape[i] < 1 {
			return fmt.Errorf("%s has the shape %v, and holds no numbers", tensor, shape)
		}
		if err := s.hold(tensor, shape[i], name); err != nil {
			return fmt.Errorf("%s of shape %v does not fit: %w", tensor, shape, err)
		}
	}
	return nil
}

func (s *Sizes) hold(tensor string, n int64, name string) error {
	if number, err := strconv.ParseInt(name, 10, 64); err == nil {
		if number != n {
			return fmt.Errorf("a dimension of %d is %d", number, n)
		}
		return nil
	}
	l, ok := s.known[name]
	if !ok {
		l, s.varied = length{n, tensor, false}, false
		if v, given := s.Fact(name).(int64); given {
			l = length{v, s.origin(), s.varied}
		}
		if l.n < 1 || l.n > maxLength {
			return fmt.Errorf("%s has %d for %s", l.from, l.n, s.source(name))
		}
		s.known[name] = l
	}
	if l.n != n {
		return fmt.Errorf("%s has %d for %s, and %s has %d", tensor, n, s.source(name), l.from, l.n)
	}
	if heads := s.Len("heads"); name == "q" && heads > 0 && n%heads != 0 {
		return fmt.Errorf("q has %d rows, which do not divide into %d heads", n, heads)
	}
	return nil
}

// Implied returns an error where a size is not what the class of Hugging Face takes it
// for without a word: its config.json cannot say so.
func (s *Sizes) Implied(facts Facts) error {
	for _, x := range s.arch.words["implied"] {
		name, text, _ := strings.Cut(x.Text, "=")
		e, err := ParseExpr(text)
		if err != nil || !x.When.Holds(facts) { // it was read before
			continue
		}
		if got, want := s.Len(name), e.Eval(s.Fact); want != got && got != 0 {
			return fmt.Errorf("%s (%s) is %d and not %v, which is %s, and a Hugging Face model of architecture %s cannot say so",
				name, s.source(name), got, want, text, s.arch.Name)
		}
	}
	return nil
}
