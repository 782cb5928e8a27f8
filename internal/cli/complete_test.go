package cli

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// What a shell could take for more than a name is not offered.
func TestCompletionsAreHarmless(t *testing.T) {
	hostile := []string{"$(touch x)", "`x`", "a;b", "a|b", "a&b", "a>b", "a\nb", "a\tb", "*", "a?b", "~", "!x", "-rf", "a'b", `a"b`, `a\b`, "{a,b}", "=ls", "#x", "\x1b[31m", "a\u202eb", ""}
	if got := Offer(append(hostile, "f16/layers.0.weight", "Größe 模型"), ""); !slices.Equal(got, []string{"f16/layers.0.weight", "Größe 模型"}) {
		t.Errorf("offered: %q", got)
	}
}

func TestNamesCompleteInSteps(t *testing.T) {
	var names []string
	for layer := range 60 {
		for _, what := range []string{"k", "q"} {
			names = append(names, fmt.Sprintf("f16/layers.%02d.%s.weight", layer, what))
		}
	}
	names = append(names, "f16/output.weight")
	if got, directive := OfferSteps(names); !slices.Equal(got, []string{"f16/layers.", "f16/output.weight"}) || directive != 6 {
		t.Errorf("%q %d", got, directive)
	}
	if got, _ := OfferSteps(names[:120]); len(got) != 60 || got[0] != "f16/layers.00." {
		t.Errorf("%q", got)
	}
	if got, directive := OfferSteps(names[:6]); len(got) != 6 || directive != 4 {
		t.Errorf("%q %d", got, directive)
	}
	if got, _ := OfferSteps(nil); got != nil {
		t.Errorf("%q", got)
	}
	var many []string
	for i := range manyNames + 1 {
		many = append(many, fmt.Sprintf("%06d", i))
	}
	if got, _ := OfferSteps(many); got != nil {
		t.Errorf("%d names are offered", len(got))
	}
	for _, word := range []string{"", "f16/layers.3", "f16/z", "g"} {
		want := slices.DeleteFunc(slices.Clone(names), func(s string) bool { return !strings.HasPrefix(s, word) })
		if got := StartingWith(len(names), func(i int) string { return names[i] }, word); !slices.Equal(got, want) {
			t.Errorf("%s: %q", word, got)
		}
	}
}
