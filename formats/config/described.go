package config

import (
	"slices"
	"strconv"
	"strings"

	"github.com/tensorfs/tensorfs/formats/architectures"
)

// Each architecture has a description: how a converter computes the keys of a GGUF file from
// config.json, and the fields of config.json from the keys. Both kinds of files are read by these
// lines, so that a model has the same fields as a directory and as a GGUF file.

// block returns the description of the architecture that a config.json names, nil without
// one.
func (id identifiers) block(arch string) *architectures.Settings {
	all := architectures.OfGGUF(arch)
	for _, is := range []func(architectures.Class) bool{
		func(c architectures.Class) bool { return c.Name != "" && slices.Contains(id.classes, c.Name) },
		func(c architectures.Class) bool { return c.ModelType != "" && slices.Contains(id.types, c.ModelType) },
		func(architectures.Class) bool { return true },
	} {
		if i := slices.IndexFunc(all, func(s *architectures.Settings) bool { return slices.ContainsFunc(s.Classes, is) }); i >= 0 {
			return all[i]
		}
	}
	return nil
}

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

// fact returns the value of a name in the description's expressions. Package settings evaluates
// the same expressions.
func (m *model) fact(name string) any {
	if what, of, ok := strings.Cut(name, "."); ok {
		return m.about(what, of)
	}
	switch name {
	case "layer":
		return m.layer
	case "kind":
		return m.kind()
	case "rope":
		if v, ok := m.firstValue(nil, keys("rope.rope_type rope.type")); ok {
			return v
		}
		return "none"
	case "head_size":
		if n, ok := m.count("head_dim"); ok && n > 0 {
			return n
		}
		return nil
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
	f := architectures.FactOf(name)
	if f == nil {
		m.unknown = m.unknown || !fieldKnown(name)
		return nil
	}
	v, _ := m.firstValue(f.Keys, f.Fields)
	return plain(v)
}

// fieldKnown reports whether a field of the schema has a name, or a fact.
func fieldKnown(name string) bool {
	return slices.ContainsFunc(schema(), func(f field) bool { return f.name == name || slices.Contains(f.facts, name) })
}

// ofLayer returns a field, or its value in the layer that the expression is evaluated for.
func (m *model) ofLayer(name string) (any, bool) {
	if list, ok := m.value(name + perLayer); ok && m.layer >= 0 {
		switch list := list.(type) {
		case []int64:
			if m.layer < int64(len(list)) {
				return list[m.layer], true
			}
		case []bool:
			if m.layer < int64(len(list)) {
				return list[m.layer], true
			}
		}
	}
	return m.value(name)
}

// kind returns the word of layer_types for the layer that an expression is evaluated for.
func (m *model) kind() any {
	v, _ := m.firstValue(nil, keys("layer_types"))
	list := asList(plain(v))
	if m.layer < 0 || m.layer >= int64(len(list)) {
		return nil
	}
	return list[m.layer]
}

// about returns a field of config.json, or the presence, the rows or the columns of a module's tensor.
func (m *model) about(what, of string) any {
	if what == "config" {
		v, _ := m.firstValue(nil, []string{of})
		return plain(v)
	}
	if m.shapes == nil {
		m.unknown = true
		return nil
	}
	inLayer := architectures.Canonical(of, strconv.FormatInt(max(m.layer, 0), 10)+".")
	var s []int64
	for _, name := range []string{of + ".weight", inLayer + ".weight", inLayer} {
		if s == nil {
			s = m.shape(name)
		}
	}
	if what == "has" {
		return s != nil
	}
	if len(s) == 0 {
		return nil
	}
	return map[string]any{"rows": s[0], "cols": s[len(s)-1]}[what]
}

// call returns the value of a function. An unknown function has none, and its expression is not
// used.
func (m *model) call(name string, args []*architectures.Expr) any {
	switch name {
	case "each", "first":
		layers, _ := m.count("n_layers")
		if layers > maxLayers || len(args) != 1 || m.layer >= 0 {
			return nil
		}
		defer func() { m.layer = -1 }()
		list := make([]any, 0, layers)
		for m.layer = range layers {
			v := args[0].In(&m.env)
			if name == "first" && v == true {
				return m.layer
			}
			list = append(list, v)
		}
		if name == "first" {
			return int64(0)
		}
		return list
	case "sum":
		total := int64(0)
		for _, arg := range args {
			n, ok := Count(m.get, arg.Name)
			if !ok {
				return nil
			}
			total += n
		}
		return total
	case "window_pattern", "layer_types": // the argument is the usual period
		if m.positive("sliding_window") && len(args) == 1 {
			return args[0].In(&m.env)
		}
		return int64(0)
	case "head_rows", "kv_heads_or":
		parts, of := "n_heads", "rows.layers.0.attention.q"
		if name == "kv_heads_or" {
			parts, of = "head_size", "rows.layers.0.attention.k"
		}
		if rows, n := toInteger(m.fact(of)), toInteger(m.fact(parts)); rows > 0 && n > 0 && rows%n == 0 {
			return rows / n
		}
		fallthrough
	case "fused_kv_heads":
		if len(args) > 0 {
			return args[0].In(&m.env)
		}
	default:
		m.unknown = true
	}
	return nil
}

func asList(v any) []any { list, _ := v.([]any); return list }

// one returns the only value of a list, nil if there are several or none.
func one(list []any) any {
	if len(list) != 1 {
		return nil
	}
	return list[0]
}

func toInteger(v any) int64 { n, _ := v.(int64); return n }

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
