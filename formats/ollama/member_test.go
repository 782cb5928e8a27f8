package ollama

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestMembers(t *testing.T) {
	const x = "model.layers.0.mlp"
	tests := []struct {
		name, layer string
		keys        []string // U32 where they start with *
		want        string   // "source", "source<weight's key" for companions; or !problem
	}{
		{"single", "a.weight", []string{"a.weight"}, "a.weight"},
		{"single with companions", "a.weight", []string{"*a.weight", "a.weight.bias", "a.weight.global_scale", "a.weight.scale"},
			"a.weight a.weight.bias<a.weight a.weight.global_scale<a.weight a.weight.scale<a.weight"},
		{"codes without .weight", "a.w", []string{"*a.w", "a.w.scale"}, "a.w a.w.scale<a.w"},
		{"no codes and no .weight", "a.w", []string{"a.w", "a.w.scale"}, "!a.w.scale"},
		{"true bias", "a.bias", []string{"a.bias"}, "a.bias"},
		{"true scale", "a.scale", []string{"a.scale"}, "a.scale"},
		{"bias of a weight without scale", "a.weight", []string{"a.weight", "a.weight.bias"}, "!a.weight.bias"},
		{"global scale without scale", "a.weight", []string{"a.weight", "a.weight.global_scale"}, "!a.weight.global_scale"},
		{"only companions", "a.weight", []string{"a.weight.scale", "a.weight.bias"}, "!no tensor of its name"},
		{"only its scale", "a.weight", []string{"a.weight.scale"}, "!no tensor of its name"},
		{"layer called as a companion", "a.weight.scale", []string{"*a.weight", "a.weight.scale"}, "!a.weight"},
		{"another tensor", "a.weight", []string{"b.weight"}, "!b.weight"},
		{"its tensor and another", "a.weight", []string{"a.weight", "b.weight"}, "!b.weight"},
		{"its tensor and another's companions", "a.weight", []string{"a.weight", "*b.weight", "b.weight.scale"}, "!b.weight"},
		{"no tensor", "a.weight", nil, "!holds no tensor"},

		{"group", x + ".experts", []string{x + ".experts.0.up.weight", x + ".experts.1.up.weight"}, x + ".experts.0.up.weight " + x + ".experts.1.up.weight"},
		{"group with companions", "g", []string{"*g.a.weight", "g.a.weight.scale", "g.b.bias", "g.b.weight"}, "g.a.weight g.a.weight.scale<g.a.weight g.b.bias g.b.weight"},
		{"group with a true scale", "g", []string{"g.a", "g.a.scale"}, "g.a g.a.scale"},
		{"group with a foreign key", "g", []string{"g.a.weight", "h.weight"}, "!h.weight"},
		{"prefix without a dot", "g", []string{"gg.weight"}, "!gg.weight"},
		{"no group ends in .weight", "g.weight", []string{"g.weight.a"}, "!no tensor of its name"},
		{"no group ends in .bias", "g.bias", []string{"g.bias.a"}, "!no tensor of its name"},
		{"no group ends in .scale", "g.scale", []string{"g.scale.a"}, "!no tensor of its name"},
		{"group of a component", "c/g", []string{"c/g.a", "c/g.b"}, "c/g.a c/g.b"},

		{"component", "c/a.weight", []string{"a.weight"}, "c/a.weight"},
		{"component with companions", "c/a.weight", []string{"*a.weight", "a.weight.bias", "a.weight.scale"}, "c/a.weight c/a.weight.bias<a.weight c/a.weight.scale<a.weight"},
		{"component with a foreign key", "c/a.weight", []string{"a.weight", "b.weight"}, "!b.weight"},
		{"component in the key", "c/a.weight", []string{"c/a.weight"}, "c/a.weight"},
		{"component in one key only", "c/a.weight", []string{"a.weight", "c/a.weight"}, `!"a.weight"`},
		{"another component", "c/a.weight", []string{"d/a.weight"}, "!d/a.weight"},
		{"component of two parts", "c/d/a", []string{"a"}, `!"a"`},

		{"data", "a.weight", []string{"data"}, "a.weight"},
		{"data of a scale", "a.weight_scale", []string{"data"}, "a.weight_scale"},
		{"data called data", "data", []string{"data"}, "data"},
		{"data and another", "a.weight", []string{"data", "x"}, "!data"},

		{"key with a bad name", "g", []string{"g./../x"}, "!path element"},
		{"empty key", "g", []string{""}, "!empty"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			codes := make(map[string]bool)
			keys := slices.Clone(tt.keys)
			for i, k := range keys {
				if rest, ok := strings.CutPrefix(k, "*"); ok {
					keys[i], codes[rest] = rest, true
				}
			}
			ms, problem := members(tt.layer, keys, func(k string) bool { return codes[k] })
			var got []string
			for _, m := range ms {
				s := m.source
				if m.weightKey != "" {
					s += "<" + m.weightKey
				}
				got = append(got, s)
			}
			if want, bad := strings.CutPrefix(tt.want, "!"); bad {
				if problem == "" || !strings.Contains(problem, want) || ms != nil {
					t.Errorf("got %q and problem %q, want one about %q", got, problem, want)
				}
			} else if problem != "" || strings.Join(got, " ") != want {
				t.Errorf("got %q, problem %q", got, problem)
			}
		})
	}
}

func FuzzMembers(f *testing.F) {
	f.Add("a.weight", "a.weight\na.weight.scale\na.weight.bias", uint64(1))
	f.Add("c/a.weight", "a.weight", uint64(0))
	f.Add("g", "g.a\ng.a.scale\ng.a.scale.scale", uint64(7))
	f.Add("x", "data", uint64(0))
	f.Fuzz(func(t *testing.T, layer, lines string, codes uint64) {
		keys := strings.Split(lines, "\n")
		slices.Sort(keys)
		keys = slices.Compact(keys)
		ms, problem := members(layer, keys, func(k string) bool { return codes>>(uint(len(k))%64)&1 != 0 })
		if problem != "" {
			if ms != nil || strings.ContainsAny(problem, "\n\x00\x1b") {
				t.Fatalf("%v, %q", ms, problem)
			}
			return
		}
		if len(ms) != len(keys) {
			t.Fatalf("%d members of %d keys", len(ms), len(keys))
		}
		of := make(map[string]string)
		sources := make(map[string]bool)
		weights := 0
		for _, m := range ms {
			of[m.key] = m.weightKey
			if sources[m.source] || nameProblem(layer) == "" && nameProblem(m.source) != "" {
				t.Fatalf("source %q", m.source)
			}
			sources[m.source] = true
			if m.weightKey == "" {
				weights++
			}
		}
		for _, m := range ms {
			if m.weightKey == "" {
				continue
			}
			if base, ok := of[m.weightKey]; !ok || base != "" {
				t.Fatalf("%q is a companion of %q, which is none of a weight: %q, %v", m.key, m.weightKey, base, ok)
			}
			if _, ok := of[m.weightKey+suffixScale]; !ok {
				t.Fatalf("%q has no scale", m.weightKey)
			}
		}
		if weights == 0 {
			t.Fatal("companions only")
		}
		if !sources[layer] && slices.ContainsFunc(ms, func(m member) bool { return !strings.HasPrefix(m.source, layer+".") }) {
			t.Fatalf("layer %q became %v", layer, fmt.Sprint(ms))
		}
	})
}
