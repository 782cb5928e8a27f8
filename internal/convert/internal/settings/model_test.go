package settings

import (
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/formats/architectures"
)

// TestMeanings holds that every function that the descriptions of architectures name exists in the
// direction of its call, and that every function is named.
func TestMeanings(t *testing.T) {
	own := strings.Fields("layer_types layer kind head_size head_rows kv_rows rope tokenizer templates experts never qk_nope_head_dim") // of Model.fact
	fields := strings.Fields("sum gating zero_every layers_are is words_are all_are there_up_to processor")                             // take names of fields, or words
	called := map[string]bool{}
	uses := func(arch string, e *architectures.Expr, to architectures.Direction) {
		facts, functions := e.Uses()
		for _, name := range slices.Concat(facts, functions) {
			m, ok := meanings[name]
			if architectures.HasFunction(name) && !ok {
				continue
			}
			if f := m.toGGUF; to == architectures.FromGGUF && m.fromGGUF != nil || to == architectures.ToGGUF && f != nil {
				called[name] = true
				continue
			}
			isField := slices.ContainsFunc(functions, func(f string) bool { return slices.Contains(fields, f) && f != name })
			isFact := architectures.FactOf(name) != nil // which names it in the direction without the meaning
			known := isFact || slices.Contains(own, name) || strings.Contains(name, ".") || isField
			if ok && !isField && !isFact || !known {
				t.Errorf("%s calls %s, which nothing is called in that direction", arch, name)
			}
		}
	}
	all := slices.Clone(architectures.AllSettings())
	for _, p := range architectures.Projectors() {
		all = append(all, p.Settings)
	}
	for _, a := range all {
		for _, items := range [][]architectures.Setting{a.Keys, a.Config} {
			to := architectures.ToGGUF
			if len(items) > 0 && len(a.Config) > 0 && &items[0] == &a.Config[0] {
				to = architectures.FromGGUF
			}
			for _, item := range items {
				if item.Value != nil {
					uses(a.Name, item.Value, to)
				}
				if item.When != nil {
					uses(a.Name, item.When, to)
				}
			}
		}
		for _, word := range []string{"check", "refuse", "agree", "hf_agree", "mlx_agree"} {
			for _, e := range a.Calls(word) {
				uses(a.Name, e, map[bool]architectures.Direction{true: architectures.FromGGUF, false: architectures.ToGGUF}[strings.HasSuffix(word, "agree")])
			}
		}
		if a.Where != nil {
			uses(a.Name, a.Where, architectures.ToGGUF)
		}
		if a.When != nil {
			uses(a.Name, a.When, architectures.FromGGUF)
		}
	}
	for _, name := range []string{"each", "max"} { // of all descriptions to come
		called[name] = true
	}
	for name := range meanings {
		if !called[name] {
			t.Errorf("nothing calls %s", name)
		}
	}
}
