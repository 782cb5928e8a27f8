package whole

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/internal/jsonobj"
)

// parsed returns settings of a JSON text.
func parsed(t testing.TB, text string) settings {
	t.Helper()
	top, err := jsonobj.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return settings{top.Object("text_config"), top, new(error), "config.json"}
}

func TestSettings(t *testing.T) {
	s := parsed(t, `{"a": 5, "b": null, "f": 1.5e1, "x": 0.1, "y": true, "w": "word", "l": [1, 2.5], "lw": ["a", "b"],
		"o": {"x": 3}, "text_config": {"a": 6, "o": null}}`)
	check := func(got, want any) {
		t.Helper()
		if !reflect.DeepEqual(got, want) || s.err() != nil {
			t.Errorf("%v, want %v; %v", got, want, s.err())
		}
	}
	pair := func(v any, ok bool) []any { return []any{v, ok} }
	integer := func(names ...string) []any { n, ok := s.integer(names...); return pair(n, ok) }
	number := func(names ...string) []any { x, ok := s.number(names...); return pair(x, ok) }
	flag := func(names ...string) []any { b, ok := s.flag(names...); return pair(b, ok) }
	check(integer("a"), pair(int64(6), true)) // of text_config
	check(integer("b", "f"), pair(int64(15), true))
	check(integer("b", "none"), pair(int64(0), false))
	check(integer("o.x"), pair(int64(3), true))
	check(number("x"), pair(0.1, true))
	check(number("none", "a"), pair(6.0, true))
	check(flag("y"), pair(true, true))
	check(flag("b"), pair(false, false))
	check(s.word("b", "w"), "word")
	check(s.word("b"), "")
	check(s.numbers("l"), []float64{1, 2.5})
	check(s.numbers("b"), []float64(nil))
	check(s.words("lw"), []string{"a", "b"})
	if n, ok := s.object("b", "o").integer("x"); n != 3 || !ok {
		t.Errorf("object: %d, %v", n, ok)
	}
	check(s.object("none").word("x"), "")
	check(settings{}.word("x"), "")
}

func TestSettingsRefuse(t *testing.T) {
	long := strings.Repeat("x", 1<<10)
	for i, c := range []struct {
		value, want string
		ask         func(s settings)
	}{
		{`"5"`, `"k" is "5", not a whole number`, func(s settings) { s.integer("k", "other") }},
		{"1.5", `is 1.5, not a whole number`, func(s settings) { s.integer("k") }},
		{"1e300", `is 1e300, not a whole number`, func(s settings) { s.integer("k") }},
		{"123456789012345678901234567890", `not a whole number`, func(s settings) { s.integer("k") }},
		{"1e999", `is 1e999, not a number`, func(s settings) { s.number("k") }},
		{"NaN", `is "NaN", not a number`, func(s settings) { s.number("k") }},
		{"true", `is true, not a number`, func(s settings) { s.number("k") }},
		{"1", `is 1, neither true nor false`, func(s settings) { s.flag("k") }},
		{"[1]", `is a list of 1, not a text`, func(s settings) { s.word("k") }},
		{`{"a": "\n"}`, `is an object, not a text`, func(s settings) { s.word("k") }},
		{"2", `is 2, not a list`, func(s settings) { s.numbers("k") }},
		{`[1, "a\nb"]`, `has the element "a\nb", which is not a number`, func(s settings) { s.numbers("k") }},
		{"[" + strings.Repeat("1,", maxList) + "1]", fmt.Sprint("is a list of ", maxList+1), func(s settings) { s.numbers("k") }},
		{"[1]", `has the element 1, which is not a text`, func(s settings) { s.words("k") }},
		{"2", `is 2, not an object`, func(s settings) { s.object("k") }},
		{`{"x": 2}`, `"x" is 2, not a text`, func(s settings) { s.object("k").word("x") }},
		{`"` + long + `"`, `xxx...`, func(s settings) { s.integer("k") }},
	} {
		s := parsed(t, `{"k": `+c.value+`, "other": 1}`)
		c.ask(s)
		first := s.err()
		if first == nil || !strings.Contains(first.Error(), c.want) || !strings.HasPrefix(first.Error(), "config.json") ||
			strings.ContainsAny(first.Error(), "\n") || len(first.Error()) > 200 {
			t.Errorf("%d: %v, want %s", i, first, c.want)
		}
		s.flag("other")
		if s.err() != first {
			t.Errorf("%d: a later problem replaces the first", i)
		}
	}
}
