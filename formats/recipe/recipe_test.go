package recipe

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
)

// TestSettings compares values with mergekit's evaluate_setting.
func TestSettings(t *testing.T) {
	text, err := os.ReadFile("testdata/settings.json")
	if err != nil {
		t.Fatal(err)
	}
	var rows []struct {
		Setting       json.RawMessage
		Name          string
		Layers, Layer int
		Value         any
	}
	if err := json.Unmarshal(text, &rows); err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		recipe := fmt.Sprintf("merge_method: slerp\nbase_model: a\nmodels: [{model: a}, {model: b}]\nparameters: {t: %s}\n", r.Setting)
		p, err := Parse([]byte(recipe))
		if err != nil {
			t.Fatalf("%s: %v", r.Setting, err)
		}
		at := 1.0
		if r.Layers > 1 {
			at = float64(r.Layer) / float64(r.Layers-1)
		}
		if got, _ := p.settings["t"].At(r.Name, at); got != r.Value {
			t.Errorf("%s for %s at layer %d of %d: got %v, want %v", r.Setting, r.Name, r.Layer, r.Layers, got, r.Value)
		}
	}
	if len(rows) < 500 {
		t.Errorf("%d rows", len(rows))
	}
}

// TestKinds are settings that the rows above lack.
func TestKinds(t *testing.T) {
	for _, c := range []struct {
		setting string
		at      float64
		want    any
	}{
		{`"0.25"`, 0, 0.25}, {"1e-05", 0, 1e-05}, {`"1e-05"`, 0, 1e-05},
		{"[true, false]", 0, true}, {"[true, false]", 0.99, true}, {"[true, false]", 1, false},
		{"[]", 0, nil}, {"null", 0, nil}, {"{filter: mlp, value: 1}", 0, nil}, {"{filter: norm, value: 2}", 0, 2.0},
		{"[{filter: norm, value: []}, {value: 3}]", 0, nil},
		{"[{filter: '*', value: [0, 4]}, {value: 3}]", 0.5, 2.0},
	} {
		p, err := Parse([]byte("merge_method: slerp\nbase_model: a\nmodels: [{model: a}, {model: b}]\nparameters:\n  t: " + c.setting))
		if err != nil {
			t.Errorf("%s: %v", c.setting, err)
			continue
		}
		if got, _ := p.settings["t"].At("model.norm.weight", c.at); got != c.want {
			t.Errorf("%s: got %v, want %v", c.setting, got, c.want)
		}
	}
}

// llama are the shapes of n models of so many layers.
func llama(n, layers int) (list []Shape) {
	names := []string{"lm_head.weight", "model.embed_tokens.weight", "model.norm.weight"}
	for i := range layers {
		names = append(names, fmt.Sprintf("model.layers.%d.mlp.up_proj.weight", i), fmt.Sprintf("model.layers.%d.self_attn.q_proj.weight", i))
	}
	slices.Sort(names)
	for range n {
		list = append(list, Shape{Names: names, Layers: layers, Embedding: "model.embed_tokens.weight", Head: "lm_head.weight"})
	}
	return list
}

// TestPrecedence: a source's parameters count before a slice's, and a slice's before the recipe's.
// A level without a value for a tensor is passed over.
func TestPrecedence(t *testing.T) {
	r, err := Parse([]byte(`
merge_method: task_arithmetic
base_model: base
slices:
  - sources:
      - {model: base, layer_range: [0, 2]}
      - model: a
        layer_range: [0, 2]
        parameters: {weight: [{filter: mlp, value: 0.1}]}
      - {model: b, layer_range: [0, 2]}
    parameters: {weight: [{filter: q_proj, value: [0.2, 0.4]}], lambda: 2}
  - sources:
      - {model: base, layer_range: [2, 3]}
      - {model: a, layer_range: [2, 3]}
      - {model: b, layer_range: [2, 3]}
parameters: {weight: [0.5, 0.6], lambda: 3, normalize: 1}
dtype: bfloat16
`))
	if err != nil {
		t.Fatal(err)
	}
	list, err := r.Plan(llama(3, 4))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range list {
		line := fmt.Sprint(m.Name, " ", m.Numbers["lambda"], m.Numbers["normalize"])
		for _, p := range m.Parts {
			line += fmt.Sprint(" ", r.Models[p.Model], " ", p.Numbers["weight"])
		}
		got = append(got, line)
	}
	want := []string{
		"model.embed_tokens.weight 2 true base 0.5 a 0.5 b 0.5",
		"model.layers.0.mlp.up_proj.weight 2 true base 0.5 a 0.1 b 0.5",
		"model.layers.0.self_attn.q_proj.weight 2 true base 0.2 a 0.2 b 0.2",
		"model.layers.1.mlp.up_proj.weight 2 true base 0.6 a 0.1 b 0.6",
		"model.layers.1.self_attn.q_proj.weight 2 true base 0.4 a 0.4 b 0.4",
		"model.layers.2.mlp.up_proj.weight 3 true base 0.6 a 0.6 b 0.6",
		"model.layers.2.self_attn.q_proj.weight 3 true base 0.6 a 0.6 b 0.6",
		"lm_head.weight 3 true base 0.5 a 0.5 b 0.5",
		"model.norm.weight 3 true base 0.5 a 0.5 b 0.5",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestFrankenmerge: layers of one model, some twice.
func TestFrankenmerge(t *testing.T) {
	r, err := Parse([]byte(`
merge_method: passthrough
slices:
  - sources: [{model: a, layer_range: [0, 3]}]
  - sources: [{model: b, layer_range: [1, 4], parameters: {scale: [{filter: o_proj, value: 0}, {filter: up_proj, value: 0.5}]}}]
`))
	if err != nil {
		t.Fatal(err)
	}
	shapes := llama(2, 4)
	if list := r.Layers(4); !slices.Equal(list, []Layer{{0, 0}, {0, 1}, {0, 2}, {1, 1}, {1, 2}, {1, 3}}) {
		t.Errorf("layers %v", list)
	}
	list, err := r.Plan(shapes)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range list {
		if m.Name == "model.layers.3.mlp.up_proj.weight" {
			if p := m.Parts[0]; p.Tensor != "model.layers.1.mlp.up_proj.weight" || r.Models[p.Model] != "b" || p.Numbers["scale"] != 0.5 {
				t.Errorf("%+v", p)
			}
		}
		if m.Name == "lm_head.weight" && r.Models[m.Parts[0].Model] != "b" {
			t.Error("the head is not the last slice's")
		}
	}
	if len(list) != 15 {
		t.Errorf("%d tensors", len(list))
	}
}

// TestBaseLast: a base that is not among the models comes last.
func TestBaseLast(t *testing.T) {
	r, err := Parse([]byte("merge_method: ties\nbase_model: base\nmodels: [{model: a, parameters: {weight: 1}}, {model: b, parameters: {weight: 1, density: 0.5}}]"))
	if err != nil {
		t.Fatal(err)
	}
	if s := r.Slices[0].Sources; len(s) != 3 || r.Models[s[2].Model] != "base" || r.Base != s[2].Model {
		t.Errorf("%+v", r)
	}
}

// TestRefused: what is outside of the subset is refused by its key, in one line.
func TestRefused(t *testing.T) {
	const models = "models: [{model: a, parameters: {weight: 1}}, {model: b, parameters: {weight: 1}}]\n"
	deep := strings.Repeat("[", 5000)
	for _, c := range []struct{ text, want string }{
		{"", "empty"},
		{"a", "mapping"},
		{"merge_method: [a]", "merge_method: want a word"},
		{"models: []", "merge_method is not there; want one of linear,"},
		{"experts: [{source_model: a}]", "mergekit-moe"},
		{"merge_method: dare_ties\n" + models, "random"},
		{"merge_method: model_stock\n" + models, "statistics"},
		{"merge_method: linea\n" + models, "linear"},
		{"merge_method: linear", "models"},
		{"merge_method: linear\nmodels: []", "models: want a list"},
		{"merge_method: linear\nmodels: {}", "models: want a list"},
		{"merge_method: linear\nmodels: [a]", "models[0]: want a mapping"},
		{"merge_method: linear\nmodels: [{model: a}]\nslices: []", "one of them"},
		{"merge_method: linear\n" + models + "dtype: int8", `dtype: "int8"`},
		{"merge_method: linear\n" + models + "out_dtype: 3", "out_dtype"},
		{"merge_method: linear\n" + models + "modules: {}", "modules:"},
		{"merge_method: linear\n" + models + "tokenizer: {}", "tokenizer.source: vocabularies are not joined"},
		{"merge_method: linear\n" + models + "chat_template: auto", "--set tokenizer.chat_template"},
		{"merge_method: linear\n" + models + "tokenizer_source: union", "tokenizer_source"},
		{"merge_method: linear\n" + models + "tokenizer_source: c", "not one of the recipe's models"},
		{"merge_method: linear\n" + models + "lora_merge_dtype: a", "lora_merge_dtype"},
		{"merge_method: linear\n" + models + "base_modl: a", "did you mean base_model"},
		{"merge_method: linear\n" + models + "parameters: {wieght: 1}", "did you mean weight"},
		{"merge_method: linear\n" + models + "parameters: {weight: .nan}", "not a number"},
		{"merge_method: linear\n" + models + "parameters: {weight: 1e400}", "not a number"},
		{"merge_method: linear\n" + models + "parameters: {weight: [1, .inf]}", "not a number"},
		{"merge_method: linear\n" + models + "parameters: {weight: [1, {value: 2}]}", "either values or filters"},
		{"merge_method: linear\n" + models + "parameters: {weight: {filter: a, vaule: 1}}", "did you mean value"},
		{"merge_method: linear\n" + models + "merge_method: linear", "is there twice"},
		{"merge_method: linear\n" + models + "tokenizer: {source: a, pad_to_multiple_of: 8}", "tokenizer.pad_to_multiple_of: rows"},
		{"merge_method: linear\n" + models + "tokenizer: {source: c}", "tokenizer.source: \"c\" is not one of the recipe's models"},
		{"merge_method: linear\n" + models + "tokenizer: {source: a}\ntokenizer_source: a", "one of them"},
		{"merge_method: linear\nmodels: [{model: {path: a}}]", "models[0].model.model is not there; want a word, or {model: {path: NAME}}"},
		{"merge_method: linear\nmodels: [{model: {model: {revision: a}}}]", "models[0].model.model.path is not there"},
		{"merge_method: linear\nmodels: [{model: {model: a, override_architecture: B}}]", "override_architecture"},
		{"merge_method: linear\nmodels: [{model: [a]}]", "models[0].model: want a word"},
		{"merge_method: linear\nslices: [{base_model: a, sources: [{model: a, layer_range: [0, 2]}]}]", "slices[0].base_model"},
		{"merge_method: linear\nmodels: [{model: a}, {model: a}]", "twice"},
		{"merge_method: slerp\nmodels: [{model: a}, {model: b}]", "base_model is not there"},
		{"merge_method: slerp\nbase_model: a\nmodels: [{model: a}, {model: b}, {model: c}]", "slerp wants 1 besides"},
		{"merge_method: passthrough\nmodels: [{model: a}, {model: b}]", "passthrough wants 1"},
		{"merge_method: linear\nx: &a [*a]", "nested more than 16 deep"},
		{"merge_method: linear\na: &a [" + strings.Repeat("1,", 200) + "]\nb: &b [" + strings.Repeat("*a,", 200) + "]\nc: [" + strings.Repeat("*b,", 20) + "]", "aliases expand to more than"},
		{"merge_method: linear\n<<: 1", "want a mapping"},
		{"merge_method: linear\nx: " + deep, ""},
		{"merge_method: linear\nx: [[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]", "nested"},
		{"merge_method: linear\nx: [" + strings.Repeat("1,", 2000) + "1]", "2001 items"},
		{"merge_method: linear\n" + strings.Repeat("#", 1<<20), "bytes"},
		{"merge_method: linear\n---\na: b", "several documents"},
		{"merge_method: linear\nslices: [{sources: [{model: a}]}]", "layer_range"},
		{"merge_method: linear\nslices: [{sources: [{model: a, layer_range: [1, 1]}]}]", "has no layers"},
		{"merge_method: linear\nslices: [{sources: [{model: a, layer_range: [-1, 1]}]}]", "not the number of a layer"},
		{"merge_method: linear\nslices: [{sources: [{model: a, layer_range: [0, 9999999999]}]}]", "not the number of a layer"},
		{"merge_method: linear\nslices: [{sources: [{model: a, layer_range: [0, 2]}, {model: b, layer_range: [0, 3]}]}]", "as many of each"},
		{"merge_method: ties\nbase_model: c\nslices: [{sources: [{model: a, layer_range: [0, 2]}]}]", "not among the sources"},
	} {
		_, err := Parse([]byte(c.text))
		if err == nil {
			t.Errorf("%.80q is read", c.text)
			continue
		}
		if msg := err.Error(); !strings.Contains(msg, c.want) || strings.Contains(msg, "\n") || len(msg) > 500 {
			t.Errorf("%.80q: %q, want %q", c.text, msg, c.want)
		}
	}
	for _, c := range []struct{ text, want string }{
		{"merge_method: linear\nmodels: [{model: a}]", "weight has no value"},
		{"merge_method: linear\nbase_model: b\nmodels: [{model: a, parameters: {weight: 1}}]", "b: the parameter weight has no value"},
		{"merge_method: linear\nmodels: [{model: a, parameters: {weight: 1}}]\nparameters: {normalize: 2}", ""},
		{"merge_method: linear\nparameters: {weight: 1}\nslices: [{sources: [{model: a, layer_range: [0, 5]}]}]", "has 4 layers"},
		{"merge_method: linear\nparameters: {weight: 1}\nmodels: [{model: a}, {model: b}]", "b has 5 layers"},
	} {
		r, err := Parse([]byte(c.text))
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		shapes := append(llama(1, 4), llama(1, 5)...)[:len(r.Models)]
		if r.Base >= 0 {
			shapes = llama(2, 4)
		}
		_, err = r.Plan(shapes)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%q: %v, want %q", c.text, err, c.want)
		}
	}
}

// TestIgnored: what mergekit does not read is ignored with one note that names it.
func TestIgnored(t *testing.T) {
	const models = "models: [{model: a, parameters: {weight: 1, density: 0.5}}, {model: b, parameters: {weight: 1}, note: x}]\n"
	r, err := Parse([]byte("merge_method: linear\nname: mine\nbase: z\n" + models + "parameters: {int8_mask: true, rescale: [1, x], normalize: true, any: {a: [b]}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	const want = "a merge by linear does not use these keys of the recipe: name, base, parameters.int8_mask, parameters.rescale, parameters.any, models[0].parameters.density, models[1].note"
	if notes := r.Notes(); len(notes) != 1 || notes[0] != want {
		t.Errorf("%q, want %q", notes, want)
	}
	long := ""
	for i := range 40 {
		long += fmt.Sprintf("q%02d: 1\n", i)
	}
	if r, err = Parse([]byte("merge_method: linear\n" + models + long)); err != nil || !strings.HasSuffix(r.Notes()[0], " and 34 more") {
		t.Errorf("%v %q", err, r.Notes())
	}
	if r, err = Parse([]byte("merge_method: linear\nmodels: [{model: a, parameters: {weight: 1}}]")); err != nil || r.Notes() != nil {
		t.Errorf("%v %q", err, r.Notes())
	}
}

// TestSpellings: the ways in which recipes write the same.
func TestSpellings(t *testing.T) {
	const plain = "merge_method: task_arithmetic\nbase_model: o/a@r\nmodels: [{model: b c+l@s, parameters: {weight: 0.5}}]\ndtype: bfloat16\ntokenizer_source: b c+l@s\n"
	want, err := Parse([]byte(plain))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		`{"merge_method": "task_arithmetic", "base_model": {"model": {"path": "o/a", "revision": "r"}},
	"models": [{"model": {"model": {"path": "b c"}, "lora": {"path": "l", "revision": "s"}}, "parameters": {"weight": 0.5}}],
	"dtype": "bfloat16", "tokenizer": {"source": "b c+l@s"}}`,
		"{merge_method: task_arithmetic, base_model: {model: o/a@r}, models: [{model: {model: b c, lora: l@s}, parameters: {weight: 0.5}}], dtype: torch.bfloat16, tokenizer_source: {model: b c, lora: l@s}}",
		"---\n# a card's\n'merge_method' : task_arithmetic\nbase_model:\n  model:\n    path: o/a\n    revision: r\nmodels:\n- model:\n    model:\n      path: b c\n    lora:\n      path: l\n      revision: s\n  parameters:\n    weight: '0.5'\ndtype: bfloat16\ntokenizer:\n  source: b c+l@s\n",
		"\ufeff" + strings.ReplaceAll(plain, "\n", "\r\n"),
	} {
		if !Match([]byte(text)) {
			t.Errorf("%.40q is no recipe", text)
		}
		got, err := Parse([]byte(text))
		if err != nil {
			t.Errorf("%.40q: %v", text, err)
			continue
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%.40q: %+v, want %+v", text, got, want)
		}
	}
}

// TestMatch: recipes, however wrong their content is, and files that are not recipes.
func TestMatch(t *testing.T) {
	for text, want := range map[string]bool{
		"": false, "a: b": false, "{}": false, "[]": false, "merge_method": false,
		"merge_method: x": true, "a: 1\nmerge_method: [": true, `{"merge_method": "x"`: true, "{a: 1, merge_method: x}": true,
		"models: [{model: a}]": true, "slices: [{sources: []}]": true, `{"models": [{"model": "a"}]}`: true, "experts: [{source_model: a}]": true,
		"models: [a]": false, "models: {model: a}": false, "slices: 1": false, "experts: [{a: b}]": false, "models:": false,
		"genome: {merge_method: x}": false, `{"a": {"merge_method": "x"}}`: false, "# merge_method: x\na: b": false,
		`{"model_type": "llama", "experts": 8}`: false, "a merge_method: b: c": false,
	} {
		if Match([]byte(text)) != want {
			t.Errorf("%q: want %v", text, want)
		}
	}
}

// TestHeads: a model without a head takes part with its embedding if another one of the slice
// has a head.
func TestHeads(t *testing.T) {
	tied := llama(1, 2)[0]
	tied.Head, tied.Names = "", slices.DeleteFunc(slices.Clone(tied.Names), func(n string) bool { return n == "lm_head.weight" })
	full := llama(1, 2)[0]
	two := "models: [{model: a, parameters: {weight: 1}}, {model: b, parameters: {weight: [{filter: lm_head, value: 3}, {value: 1}]}}]\n"
	slices2 := "merge_method: passthrough\nslices: [{sources: [{model: a, layer_range: [0, 1]}]}, {sources: [{model: b, layer_range: [1, 2]}]}]"
	for _, c := range []struct {
		text   string
		models []Shape
		want   string // the parts of the head
	}{
		{"merge_method: linear\n" + two, []Shape{tied, full}, "a model.embed_tokens.weight 1, b lm_head.weight 3"},
		{"merge_method: linear\n" + two, []Shape{full, tied}, "a lm_head.weight 1, b model.embed_tokens.weight 3"},
		{"merge_method: linear\n" + two, []Shape{tied, tied}, ""},
		{"merge_method: task_arithmetic\nbase_model: b\n" + two, []Shape{full, tied}, "a lm_head.weight 1, b model.embed_tokens.weight 3"},
		{slices2, []Shape{tied, full}, "b lm_head.weight <nil>"},
		{slices2, []Shape{full, tied}, ""},
	} {
		r, err := Parse([]byte(c.text))
		if err != nil {
			t.Fatal(err)
		}
		list, err := r.Plan(c.models)
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		var parts []string
		for _, m := range list {
			if m.Name != "lm_head.weight" {
				continue
			}
			for _, p := range m.Parts {
				parts = append(parts, fmt.Sprint(r.Models[p.Model], " ", p.Tensor, " ", p.Numbers["weight"]))
			}
		}
		if got := strings.Join(parts, ", "); got != c.want {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
	}
}

// FuzzParse holds that any text is a recipe or one line of error, and that it costs no more than its
// size and the models allow.
func FuzzParse(f *testing.F) {
	f.Add([]byte("merge_method: slerp\nbase_model: a\nmodels: [{model: a}, {model: b}]\nparameters: {t: [0, {filter: a, value: 1}]}"))
	f.Add([]byte("merge_method: passthrough\nslices:\n - sources:\n   - {model: a, layer_range: [0, 3]}\n"))
	f.Add([]byte("merge_method: ties\nbase_model: a\nmodels: [{model: b, parameters: {weight: {filter: x, value: [1, 2]}}}]\ndtype: float16"))
	for _, x := range shapes {
		f.Add([]byte(x.text))
	}
	for _, x := range []string{
		passthrough + "slices:\n" + strings.Repeat("- {sources: [{model: a, layer_range: [0, 4]}]}\n", 40), linear + modelsOf("a", "./a", "b/./c", "b//c", "/b"), linear + "parameters: {weight: " + filters(30, filters(30, "[1, 2]")) + "}\n" + modelsOf("a"),
		linear + "models: &a [1, *a]", linear + "a: {" + strings.Repeat("k: {", 15) + strings.Repeat("}", 16),
	} {
		f.Add([]byte(x))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var r *Recipe
		var list []Made
		var err error
		var allocated uint64
		testlimit.Work(t, 200, func() {
			allocated = testlimit.Allocated(func() {
				if r, err = Parse(text); err == nil {
					list, err = r.Plan(llama(len(r.Models), 4))
				}
			})
		})
		if allocated > 32<<20+1000*uint64(len(text)) {
			t.Errorf("%d bytes were allocated for %d", allocated, len(text))
		}
		switch {
		case err != nil && strings.Contains(err.Error(), "\n"):
			t.Errorf("%q", err)
		case err == nil && len(list) == 0:
			t.Error("a merge of nothing")
		}
	})
}
