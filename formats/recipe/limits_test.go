package recipe

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
)

// wide are the shapes of n models that have so many tensors in each of their layers.
func wide(n, layers, tensors int) (list []Shape) {
	s := Shape{Layers: layers}
	for i := range layers {
		for k := range tensors {
			s.Names = append(s.Names, fmt.Sprintf("model.layers.%d.x%05d.weight", i, k))
		}
	}
	slices.Sort(s.Names)
	for range n {
		list = append(list, s)
	}
	return list
}

const (
	passthrough = "merge_method: passthrough\n"
	linear      = "merge_method: linear\n"
)

// filters are so many filters around a value.
func filters(n int, value string) string {
	return "[" + strings.Repeat("{filter: zz, value: 1}, ", n) + "{value: " + value + "}]"
}

// modelsOf lists models by their names.
func modelsOf(names ...string) string {
	return "models: [{model: " + strings.Join(names, "}, {model: ") + "}]\n"
}

func numbered(n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprintf("m%d", i))
	}
	return list
}

// TestRecipesThatMultiply holds that a recipe makes no more than its models' own tensors
// allow, and is refused before more work is done than for these.
func TestRecipesThatMultiply(t *testing.T) {
	run := "- {sources: [{model: a, layer_range: [0, %d]}]}\n"
	small, large := wide(1, 3, 300), wide(1, 1, 20_000)
	for _, c := range []struct {
		name, text string
		models     []Shape
		want       string
	}{
		{"slices", passthrough + "slices:\n" + strings.Repeat(fmt.Sprintf(run, 3), 1000), small, "more than 19984 tensors"},
		{"slices with filters", passthrough + "parameters: {scale: " + filters(1000, "1") + "}\nslices:\n" + strings.Repeat(fmt.Sprintf(run, 3), 1000), small, "filters take too long"},
		{"sources", linear + "parameters: {weight: 1}\nslices:\n" + strings.Repeat("- {sources: [{model: m"+strings.Join(numbered(60), ", layer_range: [0, 3]}, {model: m")[1:]+", layer_range: [0, 3]}]}\n", 100), wide(60, 3, 30), "which is the limit for models of this size"},
		{"layers of nothing", passthrough + "slices:\n" + strings.Repeat(fmt.Sprintf(run, 60_000), 1000), wide(1, 60_000, 0), "repeat the layers"},
		{"filters", linear + "models: [{model: a, parameters: {weight: " + filters(1000, filters(1000, filters(1000, "1"))) + "}}]", large, "filters take too long"},
		{"filters of long names", linear + "models: [{model: a, parameters: {weight: " + filters(1000, "1") + "}}]", []Shape{{Names: []string{strings.Repeat("n", 4<<20)}, Layers: 1}}, "filters take too long"},
		{"models", linear + modelsOf(numbered(65)...), nil, "more than 64 models"},
		{"tensors of models", linear + "parameters: {weight: 1}\n" + modelsOf(numbered(12)...), wide(12, 1, 20_000), "240000 tensors in all"},
		{"spellings", linear + modelsOf("a", "./a"), nil, "twice"},
		{"spellings of paths", linear + modelsOf("/a/b", "/a//./b/"), nil, "twice"},
		{"keys", linear + strings.Repeat("k: 1\n", 60_000), nil, "the mapping has 60001 keys"},
		{"keys of parameters", linear + "parameters:\n" + strings.Repeat("  k: 1\n", 65), nil, "the mapping has 65 keys"},
		{"values", linear + "models: [" + strings.Repeat("a,", 500_000) + "]", nil, "more than 65536 of the characters"},
		{"numbers", linear + "models: [" + strings.Repeat("1,", 60_000) + "]", nil, "the list has 60000 items"},
	} {
		var err error
		var allocated uint64
		testlimit.Work(t, 200, func() {
			allocated = testlimit.Allocated(func() {
				var r *Recipe
				if r, err = Parse([]byte(c.text)); err == nil {
					_, err = r.Plan(c.models)
				}
			})
		})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if allocated > 100<<20 {
			t.Errorf("%s: %d bytes were allocated", c.name, allocated)
		}
	}
}

// TestUsualSizes holds that what people merge is planned: many tensors, layers that are
// repeated, filters and gradients.
func TestUsualSizes(t *testing.T) {
	for _, c := range []struct {
		name, text string
		models     []Shape
		want       int
	}{
		{"three models of experts", linear + "parameters: {weight: " + filters(20, "[0.1, 0.5]") + "}\n" + modelsOf("a", "b", "org/c"), wide(3, 70, 1000), 70_000},
		{"a tall stack", passthrough + "slices:\n" + strings.Repeat("- {sources: [{model: a, layer_range: [0, 60]}]}\n", 3), wide(1, 60, 800), 3 * 60 * 800},
		{"layers one by one", passthrough + "slices:\n" + strings.Repeat("- {sources: [{model: a, layer_range: [3, 4]}]}\n", 1000), wide(1, 80, 9), 9000},
		{"a gradient", linear + "parameters: {weight: [" + strings.Repeat("0.5, ", 1000) + "1]}\n" + modelsOf("a"), wide(1, 80, 9), 720},
	} {
		r, err := Parse([]byte(c.text))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if list, err := r.Plan(c.models); err != nil || len(list) != c.want {
			t.Errorf("%s: %d tensors, want %d; %v", c.name, len(list), c.want, err)
		}
	}
}

// TestSharedNumbers holds that tensors whose parameters have the same values share these, and
// that others do not.
func TestSharedNumbers(t *testing.T) {
	r, err := Parse([]byte(linear + "models:\n- {model: a, parameters: {weight: [{filter: x00001, value: 3}, {value: [1, 2]}]}}\n- {model: b, parameters: {weight: 7}}"))
	if err != nil {
		t.Fatal(err)
	}
	list, err := r.Plan(wide(2, 3, 4))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range list {
		want := map[string]float64{"0": 1, "1": 1.5, "2": 2}[m.Name[13:14]]
		if strings.Contains(m.Name, "x00001") {
			want = 3
		}
		if got := m.Parts[0].Numbers["weight"]; got != want || m.Parts[1].Numbers["weight"] != 7.0 || m.Numbers["normalize"] != true {
			t.Errorf("%s: %v, want %v; %v, %v", m.Name, got, want, m.Parts[1].Numbers, m.Numbers)
		}
	}
}

// TestSpelling holds which names are one model, and that the first spelling is kept.
func TestSpelling(t *testing.T) {
	for name, want := range map[string]string{"a": "a", "./a": "a", "a/": "a", "a//b/./c/": "a/b/c", "/a/./b": "/a/b", "../a": "../a", "a/../b": "a/../b", "hf:a//b": "hf:a//b", "https://h//a/./b": "https://h//a/./b", "./a:b/./c": "a:b/c", "org/name@rev": "org/name@rev", ".": "", "/": "/"} {
		if got := spelling(name); got != want {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
	}
	r, err := Parse([]byte("merge_method: slerp\nbase_model: ./a/\nmodels: [{model: a}, {model: ./b}]\ntokenizer_source: b\nparameters: {t: 0.5}"))
	if err != nil || strings.Join(r.Models, " ") != "a ./b" || r.Base != 0 || r.Tokenizer != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}
