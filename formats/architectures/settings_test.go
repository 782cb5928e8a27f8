package architectures

import (
	"strings"
	"testing"
)

// TestSettings holds what the texts say of all architectures.
func TestSettings(t *testing.T) {
	seen := map[string]string{}
	for _, s := range AllSettings() {
		for _, c := range s.Classes {
			for _, name := range []string{c.Name, c.ModelType} {
				if other, ok := seen[name]; ok && name != "" && s.Where == nil {
					t.Errorf("%s and %s have the class %s", other, s.Name, name)
				}
				seen[name] = s.Name
			}
		}
		if s.Config != nil && s.When.String() != "never" && (s.Written.Name == "" || s.Written.ModelType == "") {
			t.Errorf("%s has no class to be written", s.Name)
		}
	}
	if len(seen) < 40 {
		t.Errorf("only %d classes", len(seen))
	}
}

// TestReasons holds that each mistake in a text is found, with its place.
func TestReasons(t *testing.T) {
	for text, want := range map[string]string{
		"arch a\n  keys zzz":                      "x:2: zzz: there is no such fact",
		"arch a\n  config zzz":                    "x:2: zzz: there is no such fact",
		"arch a\n  needs zzz":                     "x:2: zzz: there is no such fact",
		"arch a\n  only zzz":                      "x:2: zzz: it is not FIELD=VALUES",
		"arch a\n  keys like(b)":                  "x:2: like(b): there is no such block before",
		"arch a\n  keys dim:=f(a]b)":              "a list has no end",
		"arch a\n  keys dim:=-":                   "a value is missing",
		"arch a\n  config a:=1\n\n  keys dim n=!": "x:4:",
		"arch a\n  tokenizer zzz":                 "x:2: zzz: it is not NAME=VALUE",
		"arch a\n  tokenizer pre":                 "x:2: pre: it is not NAME=VALUE",
		"arch a\n  tokenizer cut=1":               "x:2: cut=1: there is no such item",
		"arch a\n  tokenizer boss=<s>":            "x:2: boss=<s>: there is no such item",
		"arch a\n  tokenizer space=often":         "x:2: space=often: there is no rule often",
		"arch a\n  tokenizer segments=0":          "x:2: segments=0: there is no such item",
		"arch a\n  tokenizer template=(a)":        "x:2: template=(a): invalid character",
		"arch a\n  traits zzz":                    "x:2: zzz: there is no such trait",
		"arch a\n  traits [mlx] pools":            "x:2: pools: there is no such trait",
	} {
		if _, err := readSettings("x", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	for text, want := range map[string]string{
		"a  size  b":                     "x:1: 3 columns",
		"a  sizes  b  c":                 `x:1: there is no kind "sizes"`,
		"a  size:x  b  c":                `"x" is no bound`,
		"a  real  b  c\na  real  b  c":   "x:2: a is there twice",
		"#\n\na  real  b  c\nb  real  b": "x:4:",
	} {
		if _, err := readMLX("x", text, text); err != nil && strings.ContainsAny(err.Error(), "\n\r") {
			t.Errorf("%q", err)
		}
		if _, err := readFacts("x", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// TestMLX holds what the files about mlx-lm say, and that mistakes are found.
func TestMLX(t *testing.T) {
	all := MLXClasses()
	if len(all) < 140 || !all["phi3"].Lists("rope", "su") || all["llama"].Has("rope") {
		t.Errorf("%d classes", len(all))
	}
	if all["mistral"] != all["llama"] || all["minimax_m2"] == all["minimax"] || all["qwen3_5_text"].Needs == nil {
		t.Error("other names of types")
	}
	if v3 := MLXClassOf("bailing_hybrid", "BailingMoeV3ForCausalLM"); v3 != all["bailing_moe_v3"] || v3 == MLXClassOf("bailing_hybrid", "BailingHybridForCausalLM") {
		t.Error("classes of transformers")
	}
	for _, name := range []string{"llama4/TextArgs", "bailing_hybrid:BailingMoeV3ForCausalLM", "", "=", "new"} {
		if MLXClassOf(name) != nil {
			t.Errorf("there is a model type %q", name)
		}
	}
	for _, c := range []struct{ needs, facts, want string }{
		{"a\na", "", "x_needs.txt:2: a is there twice"}, {"a = b", "", "a is another name of b, which is not a type"},
		{"a", "a\na", "x.txt:2: a is there twice"}, {"a", "a b", "x.txt:1: b: it is not FIELD:=VALUE"},
		{"a", "a b=1", "x.txt:1: b=1: it is not"}, {"a", "a b:=(", "x.txt:1: parentheses do not match"}, {"a", "a b:=1+", `x.txt:1: b:=1+: the expression "1+"`},
		{"a", "b", "x.txt:1: b is no type"}, {"a", "b as:c", "x.txt:1: b is no type"},
	} {
		if _, err := readMLX("x", c.needs, c.facts); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q, %q: %v, want %s", c.needs, c.facts, err, c.want)
		}
	}
}

// FuzzSettings holds that no text does harm.
func FuzzSettings(f *testing.F) {
	f.Add(architecturesText)
	f.Add(keysText)
	f.Add("arch a\n  keys dim:=f(1,2)! head_dim@x=\"a\"\n  only a=1,b!\n  class A:b :c\narch b like a\n  keys like(a) +dim")
	f.Fuzz(func(t *testing.T, text string) {
		list, err := readSettings("x", text)
		if err != nil && strings.ContainsAny(err.Error(), "\n\r") {
			t.Errorf("%q", err)
		}
		for _, s := range list {
			s.Calls("check")
		}
		if _, err := readFacts("x", text); err != nil && strings.ContainsAny(err.Error(), "\n\r") {
			t.Errorf("%q", err)
		}
	})
}
