package config

import (
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs/formats/architectures"
)

// The description of an architecture lists what its GGUF files store differently from other
// architectures: a config.json has to lead to the same values.

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

// described returns a count that the architecture's description derives from others, or
// reads from a field of its own. It overrides config.json.
func (m *model) described(f *field) (any, bool) {
	if m.block == nil || f.kind != count && f.kind != counts {
		return nil, false
	}
	i := slices.IndexFunc(m.block.Keys, func(s architectures.Setting) bool { return s.Name == f.name && s.When == nil })
	if i < 0 {
		return nil, false
	}
	s := &m.block.Keys[i]
	if s.Field != "" && !s.Always {
		if v, ok := m.find(nil, []string{s.Field}); ok {
			n, ok := toCount(v)
			return n, ok
		}
	}
	if s.Always && s.Value != nil {
		n, ok := s.Value.Eval(m.facts).(int64)
		return inRange(n, ok)
	}
	return nil, false
}

// facts gives what expressions of a description name: fields of config.json, after
// "config.", and facts that are fields of this schema.
func (m *model) facts(name string) any {
	field, ok := strings.CutPrefix(name, "config.")
	if !ok {
		v, _ := m.value(name)
		return v
	}
	v, _ := m.find(nil, []string{field})
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
