package adapter

import (
	"math"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
)

// ofGGUF reads an adapter of llama.cpp's converter.
func ofGGUF(m *tensorfs.Model) (*Adapter, error) {
	if kind := m.Meta(GGUFType); kind != "lora" {
		return nil, tensorfs.Unsupported(m.Path, GGUFType+" is not lora", "name another adapter")
	}
	a := &Adapter{Path: m.Path, Layout: "gguf", Architecture: m.Architecture}
	a.Kind = "lora"
	alpha := 0.0
	switch v := m.Meta(GGUFAlpha).(type) {
	case nil:
	case float32:
		alpha = float64(v)
	case float64:
		alpha = v
	default:
		return nil, tensorfs.Unsupported(m.Path, GGUFAlpha+" is no number", "convert the adapter again")
	}
	if math.IsNaN(alpha) || math.IsInf(alpha, 0) {
		return nil, tensorfs.Unsupported(m.Path, GGUFAlpha+" is not finite", "convert the adapter again")
	}
	a.Alpha = alpha
	if s, ok := m.Meta("general.base_model.0.name").(string); ok {
		a.Base = s
	}
	at := map[string]int{}
	module := func(name string) *Module {
		i, ok := at[name]
		if !ok {
			i = len(a.Modules)
			at[name] = i
			a.Modules = append(a.Modules, Module{Name: name})
		}
		return &a.Modules[i]
	}
	for i := range m.Tensors {
		t := &m.Tensors[i]
		switch name, end := cutSuffixes(t.Source, GGUFPartA, GGUFPartB); {
		case end == GGUFPartA:
			module(name).A = t
		case end == GGUFPartB:
			module(name).B = t
		case strings.HasSuffix(name, "_norm.weight"):
			module(name).Weight = t
		default:
			return nil, wrong(m, t.Source, "it is not a known part of a LoRA adapter")
		}
	}
	slices.SortFunc(a.Modules, func(x, y Module) int { return strings.Compare(x.Name, y.Name) })
	for i := range a.Modules {
		x := &a.Modules[i]
		if err := completeGGUF(m, x, alpha); err != nil {
			return nil, err
		}
		if x.A != nil {
			a.Rank = max(a.Rank, int(x.Rank))
			a.Targets = append(a.Targets, x.Name)
		}
	}
	if len(a.Modules) == 0 {
		return nil, wrong(m, "", "it has no tensors")
	}
	return a, nil
}

func completeGGUF(m *tensorfs.Model, x *Module, alpha float64) error {
	if err := x.checkPair(m); err != nil || x.A == nil {
		return err
	}
	dims := len(x.B.Shape)
	if dims != 2 && dims != 3 {
		return wrong(m, x.B.Source, "shape %v, where it should have 2 or 3 dimensions", x.B.Shape)
	}
	for _, t := range []*tensorfs.Tensor{x.A, x.B} {
		if err := matrix(m, t, dims); err != nil {
			return err
		}
	}
	x.Embedding = strings.HasPrefix(x.Name, "token_embd.")
	x.Rank = x.B.Shape[dims-1]
	rank := x.A.Shape[dims-2]
	if x.Embedding {
		rank = x.A.Shape[dims-1]
	}
	switch {
	case rank != x.Rank || dims == 3 && (x.A.Shape[0] != x.B.Shape[0] || x.Embedding):
		return wrong(m, x.A.Source, "shape %v and shape %v of B have no common rank", x.A.Shape, x.B.Shape)
	case x.Rank > maxRank:
		return wrong(m, x.A.Source, "a rank of %d is more than any adapter has", x.Rank)
	}
	if x.Scale = 1; alpha != 0 {
		x.Scale = alpha / float64(x.Rank)
	}
	return nil
}
