package config

import (
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs/formats/architectures"
)

// Each architecture has a description: how a converter computes the keys of a GGUF file from
// config.json, and the fields of config.json from the keys. Both kinds of files are read by these
// lines, so that a model has the same fields as a directory and as a GGUF file.

// fixed returns the value that the description gives a field regardless of the file, and the
// value of a field of config.json that only this architecture has.
func (m *model) fixed(f *field) any {
	for _, s := range m.items(f) {
		if s.Field != "" && !s.Always {
			if v, ok := m.firstValue(nil, []string{s.Field}); ok {
				return v
			}
		}
		if s.Always && s.Value != nil && s.Value.Name != "head_size" { // a config.json may rotate a part of it
			if v := m.eval(s.Value); v != nil {
				return v
			}
		}
	}
	return nil
}

// usual returns the default that the description gives a field.
func (m *model) usual(f *field) any {
	for _, s := range m.items(f) {
		if !s.Always && s.Value != nil {
			if v := m.eval(s.Value); v != nil {
				return v
			}
		}
	}
	return nil
}

// nothing is the value of a field that the description takes away: regardless of config.json it
// has the schema's default.
type nothing struct{}

// eval returns the value of an expression, nil if it uses a name that is not known here.
func (m *model) eval(e *architectures.Expr) any {
	if e.Name == "nothing" {
		return nothing{}
	}
	m.unknown = false
	if v := e.In(&m.env); !m.unknown {
		return v
	}
	return nil
}

// holds reports whether a condition holds, false if it uses a name that is not known here.
func (m *model) holds(e *architectures.Expr) bool {
	m.unknown = false
	return e.HoldsIn(&m.env) && !m.unknown
}

// items returns the description's lines about a field. For a config.json these are the lines of
// keys. A GGUF file has the keys themselves: if one is missing, the field has the constant of
// config.json, or the class's default if it is a real number, which no tensor shows.
func (m *model) items(f *field) (list []*architectures.Setting) {
	if m.block == nil {
		return nil
	}
	if m.scopes == nil {
		if m.headless() && f.name == "head_dim" {
			return nil // the state space's
		}
		for i := range m.block.Config {
			if s := &m.block.Config[i]; s.Always && slices.Contains(f.hf, s.Name) && m.holds(s.When) {
				list = append(list, &architectures.Setting{Name: s.Name, Value: s.Value})
			}
		}
		if f.kind != real {
			return list
		}
	}
	for _, fact := range f.facts {
		for i := range m.block.Keys {
			s := &m.block.Keys[i]
			if s.Name == fact && m.holds(s.When) && (m.scopes != nil || s.Value.Constant() != nil) {
				list = append(list, s)
			}
		}
	}
	return list
}

// fact returns the value of a fact in the description's expressions.
func (m *model) fact(name string) any {
	switch name {
	case "rope":
		if v, ok := m.firstValue(nil, keys("rope.rope_type rope.type")); ok {
			return v
		}
		return "none"
	case "experts":
		name = "n_experts"
	}
	for i := range schema() {
		if f := &schema()[i]; f.name == name || slices.Contains(f.facts, name) {
			if v, ok := m.ofLayer(f.name); ok {
				return v
			}
		}
	}
	if v := m.described(name); v != nil {
		return v
	}
	f := architectures.FactOf(name)
	if f == nil {
		m.unknown = m.unknown || !fieldKnown(name)
		return nil
	}
	v, _ := m.firstValue(f.Keys, f.Fields)
	return plain(v)
}

// described returns what the description computes a fact from that the schema does not have, nil if
// that is a file's own.
func (m *model) described(name string) any {
	if m.block == nil || m.scopes == nil || fieldKnown(name) || slices.Contains(m.within, name) {
		return nil
	}
	m.within = append(m.within, name)
	defer func() { m.within = m.within[:len(m.within)-1] }()
	for i := range m.block.Keys {
		if s := &m.block.Keys[i]; s.Name == name && m.holds(s.When) {
			if s.Field != "" && !s.Always {
				if v, ok := m.firstValue(nil, []string{s.Field}); ok {
					return plain(v)
				}
			}
			if s.Value != nil {
				return s.Value.In(&m.env)
			}
		}
	}
	return nil
}

// fieldKnown reports whether a field of the schema has a name, or a fact.
func fieldKnown(name string) bool {
	return slices.ContainsFunc(schema(), func(f field) bool { return f.name == name || slices.Contains(f.facts, name) })
}

// ofLayer returns a field, or its value in the layer that the expression is evaluated for.
func (m *model) ofLayer(name string) (any, bool) {
	layer := m.env.Layer()
	if list, ok := m.value(name + perLayer); ok && layer >= 0 {
		switch list := list.(type) {
		case []int64:
			if layer < int64(len(list)) {
				return list[layer], true
			}
		case []bool:
			if layer < int64(len(list)) {
				return list[layer], true
			}
		}
	}
	return m.value(name)
}

// Field returns a field of config.json for expressions.
func (m *model) Field(path string) any {
	if strings.Contains(path, architectures.EachElement) { // objects of lists are not read here
		m.unknown = true
		return nil
	}
	v, _ := m.firstValue(nil, []string{path})
	return plain(v)
}

// Shape returns the shape of a tensor for expressions.
func (m *model) Shape(tensor string) []int64 { return m.shape(tensor) }

// Refuse does nothing: a field whose expression has no value is left out.
func (m *model) Refuse(string, ...any) {}

// call returns the value of a function that only this package has. An unknown function has none,
// and its expression is not used.
func (m *model) call(name string, args []*architectures.Expr) any {
	if name != "window_pattern" && name != "layer_types" {
		m.unknown = true
		return nil
	}
	if m.positive("sliding_window") && len(args) > 0 { // the first argument is the usual period
		return args[0].In(&m.env)
	}
	return int64(0)
}

// onlyValue returns the only value of a list, nil if there are several or none.
func onlyValue(list []any) any {
	if len(list) != 1 {
		return nil
	}
	return list[0]
}

// plain returns a value of a file as expressions have values.
func plain(v any) any {
	if n, seq, ok := elements(v); ok {
		if n > maxLayers {
			return nil
		}
		list := make([]any, 0, n)
		for e := range seq {
			list = append(list, plain(e))
		}
		return list
	}
	switch v := v.(type) {
	case string, bool:
		return v
	}
	if n, ok := toCount(v); ok {
		return n
	}
	if x, ok := toReal(v); ok {
		return x
	}
	return nil
}
