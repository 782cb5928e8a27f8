package config

import (
	"slices"

	"github.com/tensorfs/tensorfs/formats/architectures"
)

// Architecture returns GGUF's name for the architecture in a config.json. A name
// unknown to the tables of package names is returned as written; the result is
// "unknown" where the file has no name, or one of more than [MaxArchitecture]
// bytes.
func Architecture(get Lookup) string { return identity(get, scopes(get)).architecture() }

// identifiers are the classes and types that a config.json names, for each of its scopes.
type identifiers struct{ classes, types []string }

func identity(get Lookup, scopes []string) (id identifiers) {
	for _, scope := range scopes {
		class := ""
		if v, ok := get(scope + "architectures"); ok {
			if _, seq, ok := elements(v); ok {
				for first := range seq {
					class, _ = first.(string)
					break
				}
			}
		}
		if architectures.NameOf(class+architectures.WithExperts, "") != "" && hasExpertLayers(get, scopes) {
			class += architectures.WithExperts
		}
		v, _ := get(scope + "model_type")
		modelType, _ := v.(string)
		id.classes, id.types = append(id.classes, class), append(id.types, modelType)
	}
	return id
}

// hasExpertLayers reports whether some layers of a model have experts.
func hasExpertLayers(get Lookup, scopes []string) bool {
	every, _ := Count(get, "moe_every_n_layers")
	m := &model{get: get, scopes: scopes}
	v, _ := m.firstValue(nil, keys("layers_block_type"))
	var words []string
	list, _ := plain(v).([]any)
	for _, word := range list {
		text, _ := word.(string)
		words = append(words, text)
	}
	v, _ = m.firstValue(nil, keys("hybrid_override_pattern"))
	letters, _ := v.(string)
	return every > 0 || architectures.HasExpertLayers(words, letters)
}

// architecture returns GGUF's name of it.
func (id identifiers) architecture() string {
	if whole := id.classes[len(id.classes)-1]; architectures.IsWhole(whole) {
		return architectures.NameOf(whole, "")
	}
	for _, class := range id.classes {
		if a := architectures.NameOf(class, ""); a != "" {
			return a
		}
	}
	for _, modelType := range id.types {
		if a := architectures.NameOf("", modelType); a != "" {
			return a
		}
	}
	top := len(id.types) - 1
	for _, s := range []string{id.types[top], id.classes[top]} {
		if s != "" && len(s) <= MaxArchitecture {
			return s
		}
	}
	return "unknown"
}

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
