package adapter

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
)

// usualNames are names of modules, and odd ones.
var usualNames = []string{"model.layers.0.self_attn.q_proj", "model.layers.10.self_attn.q_proj", "q_proj", "model.q_proj", "xq_proj", "q.proj", "a.q\nproj", "a\n.q_proj",
	"", ".", "a.", "a..", "..", "é.q_proj", "model.é", "model.layers.0.mlp.experts.down_proj", "aaa.aaa", "a.b.c", "Q_PROJ", "lm_head", "\n", "a.\n", "x.a\n"}

// TestPatterns holds that keys mean what PEFT's expression of them means: names that are looked
// up, and expressions that are run.
func TestPatterns(t *testing.T) {
	keys := []string{"q_proj", "q.proj", `q\.proj`, "^q_proj", "q_proj$", "^q_proj$", "^model.layers.0.self_attn.q_proj", `model\.layers\.\d+\.self_attn\.q_proj`, "", ".", "..", "^", "$", "a|q_proj", "(?i)q_proj",
		".*q_proj", ".*", "a{3}", "a{2,}", "(a|b)+", "[a-z]+_proj", `\bproj`, `q_proj\b`, "é", ".é", "^.*", "a^", "$a", "(?:)", "(^q|lm)_(proj|head)", "(?m)^q_proj$", "(?s).", `a\n`, "q_proj^", "x?", "(?s).*q_proj",
		"layers.(0|1).self_attn.q_proj", "layers.10.self_attn.(q|k)_proj", "model.*q_proj", `[^.]*`, "(a.)*c", "a.b.c", "b.c", "c", "mlp.experts.down_proj"}
	for _, key := range keys {
		want := regexp.MustCompile(`^(?:.*\.)?(?:` + key + `)$`)
		var p patterns
		if problem := p.add(key, 1); problem != "" {
			t.Errorf("%q: %s", key, problem)
			continue
		}
		for _, name := range usualNames {
			k, _ := p.firstKey(name, 1<<30)
			if got := k == 0; got != want.MatchString(name) {
				t.Errorf("%q matches %q: %v", key, name, got)
			}
		}
	}
	for i := range keys { // the first of several
		var p patterns
		order := slices.Concat(keys[i:], keys[:i])
		for _, key := range order {
			p.add(key, 1)
		}
		for _, name := range usualNames {
			want := slices.IndexFunc(order, func(key string) bool { return regexp.MustCompile(`^(?:.*\.)?(?:` + key + `)$`).MatchString(name) })
			if want < 0 {
				want = len(order)
			}
			if k, _ := p.firstKey(name, 1<<30); k != want {
				t.Errorf("%q has key %d, want %d: %q", name, k, want, order[want])
			}
		}
	}
}

// TestNamesAsPatterns holds that keys which are names cost a look-up, however many they are.
func TestNamesAsPatterns(t *testing.T) {
	for _, before := range []string{"", "^", "^base.", `model\.`} {
		var p patterns
		n := 0
		for layer := range 61 {
			for module := range 33 {
				if problem := p.add(fmt.Sprintf("%slayers.%d.mlp.m%d", before, layer, module), float64(n)); problem != "" {
					t.Fatal(problem)
				}
				n++
			}
		}
		if len(p.expressions) > 0 || len(p.forms) > 8 {
			t.Errorf("%q: %d expressions and %d forms", before, len(p.expressions), len(p.forms))
		}
		name := strings.NewReplacer("^", "", `\`, "").Replace(before) + "layers.60.mlp.m32"
		if k, steps := p.firstKey(name, 1000); k != n-1 || steps > 500 {
			t.Errorf("%s: key %d of %d, %d steps", name, k, n, steps)
		}
	}
}

// TestPatternsThatMultiply holds that keys which become large programs are refused before
// they are compiled.
func TestPatternsThatMultiply(t *testing.T) {
	for _, c := range []struct{ key, want string }{
		{"a{1000}%d", "repeats something more than 100 times"},
		{"a{101}%d", "repeats something more than 100 times"},
		{"(a{0,101})*%d", "repeats something more than 100 times"},
		{"a{100,}%d(b{100}c{100}d{100}e{100})", "too large"},
		{"((abcdefghi{9}){9}){9}%d", "too large"},
		{strings.Repeat(`\pL`, 900) + "%d", "too large"},
		{"(x|" + strings.Repeat("y", 5000) + "%d)", "has more than 4096 bytes"},
		{"(x%d|" + strings.Repeat("y", 3900) + ")", "its expressions have more than 65536 bytes"},
		{"x+%d", "more than 1024 expressions"},
	} {
		var p patterns
		problem := ""
		n := testlimit.Allocated(func() {
			for i := 0; i < 100_000 && problem == ""; i++ {
				problem = p.add(fmt.Sprintf(c.key, i), 1)
			}
		})
		if !strings.Contains(problem, c.want) {
			t.Errorf("%.20s: %.200q, want %q", c.key, problem, c.want)
		}
		if n > 64<<20 {
			t.Errorf("%.20s: %d bytes were allocated", c.key, n)
		}
	}
	var p patterns // names of more lengths than modules have
	problem := ""
	for i := 0; i < 2000 && problem == ""; i++ {
		problem = p.add(strings.Repeat("n", i+1), 1)
	}
	if !strings.Contains(problem, "as many lengths") {
		t.Error(problem)
	}
}

// TestStepsOfPatterns holds that steps are counted where a program goes on with many of
// its instructions at each character.
func TestStepsOfPatterns(t *testing.T) {
	for _, key := range []string{"(a?b?c?d?)*x", "(.*a){20}x", "(a|aa|aaa|a*)*x", "(.?){90}x"} {
		var p patterns
		if problem := p.add(key, 1); problem != "" {
			t.Fatal(problem)
		}
		const most = 10_000
		name := strings.Repeat("a.", 50_000)
		testlimit.Work(t, 4, func() {
			if _, steps := p.firstKey(name, most); steps < most || steps > 2*most {
				t.Errorf("%s: %d steps", key, steps)
			}
		})
	}
}
