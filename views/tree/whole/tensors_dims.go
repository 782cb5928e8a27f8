package whole

import (
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
)

// FactsOf returns the facts of a model's config: those that its files say by their
// names, and those that have a default after "assumed.".
func FactsOf(m *tensorfs.Model) architectures.Facts {
	all := make(map[string]any, 2*len(m.Config))
	for _, f := range m.Config {
		all["assumed."+f.Name] = f.Value
		if !f.Assumed {
			all[f.Name] = f.Value
		}
	}
	return func(name string) any { return all[name] }
}

// bind finds the sizes that config.json gives.
func (x *maker) bind() error {
	facts := FactsOf(x.m)
	x.sizes = x.described.Sizes(architectures.ToGGUF, func(name string) any {
		field, ok := strings.CutPrefix(name, "config.")
		if !ok {
			return facts(name)
		}
		if n, ok := x.cfg.integer(field); ok {
			return n
		}
		return nil
	})
	return x.sizes.Need("width", "heads")
}

// fact returns a fact of the model, for conditions.
func (x *maker) fact(name string) any {
	stem, isTensor := strings.CutPrefix(name, "has.")
	switch {
	case strings.HasPrefix(stem, "layers."):
		return x.find(stem+".weight") != nil
	case isTensor:
		return x.find(x.inLayer(stem)+".weight") != nil
	case name == "rope":
		return x.ropeType()
	case name == "layer":
		return x.layer
	}
	return x.sizes.Fact(name)
}

// ropeType is the type of scaling, "" for none.
func (x *maker) ropeType() string { return ropeSettings(x.cfg).word("rope_type", "type") }
