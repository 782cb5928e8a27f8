package config

import (
	"slices"

	"github.com/tensorfs/tensorfs/formats/architectures"
)

// What an architecture does not call as the others do stands in its description, which says
// what a GGUF file of it has: a config.json is to give the same.

// findBlock returns the description of the architecture in a config.json, nil without one.
func (m *model) findBlock() *architectures.Settings {
	var names, types []any
	for _, scope := range m.scopes {
		if v, ok := m.get(scope + "architectures"); ok {
			if _, list, ok := elements(v); ok {
				names = slices.AppendSeq(names, list)
			}
		}
		if v, ok := m.get(scope + "model_type"); ok {
			types = append(types, v)
		}
	}
	all := architectures.OfGGUF(m.arch)
	for _, is := range []func(architectures.Class) bool{
		func(c architectures.Class) bool { return slices.Contains(names, any(c.Name)) },
		func(c architectures.Class) bool { return slices.Contains(types, any(c.ModelType)) },
		func(architectures.Class) bool { return true },
	} {
		if i := slices.IndexFunc(all, func(s *architectures.Settings) bool { return slices.ContainsFunc(s.Classes, is) }); i >= 0 {
			return all[i]
		}
	}
	return nil
}

// described gives a count that the description of the architecture has as a number whatever
// config.json says, or that is in a field of its own.
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
		n, ok := s.Value.Literal.(int64)
		return inRange(n, ok)
	}
	return nil, false
}
