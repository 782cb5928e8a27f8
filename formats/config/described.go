package config

import (
	"slices"

	"github.com/tensorfs/tensorfs/formats/architectures"
)

// What an architecture does not call as the others do stands in its description, which says
// what a GGUF file of it has: a config.json is to give the same.

// block returns the description of what a config.json says that it is, nil without one.
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
