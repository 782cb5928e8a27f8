package settings

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// parsed returns the fields of a config.json.
func parsed(t testing.TB, text string) Fields {
	t.Helper()
	f, err := ParseFields("config.json", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestSettings(t *testing.T) {
	s := parsed(t, `{"a": 5, "b": null, "f": 1.5e1, "x": 0.1, "y": true, "w": "word", "l": [1, 2.5], "lw": ["a", "b"],
		"o": {"x": 3}, "text_config": {"a": 6, "o": null}}`)
	check := func(got, want any) {
		t.Helper()
		if !reflect.DeepEqual(got, want) || s.Err() != nil {
			t.Errorf("%v, want %v; %v", got, want, s.Err())
		}
	}
	pair := func(v any, ok bool) []any { return []any{v, ok} }
	integer := func(names ...string) []any { n, ok := s.Integer(names...); return pair(n, ok) }
	number := func(names ...string) []any { x, ok := s.Number(names...); return pair(x, ok) }
	flag := func(names ...string) []any { b, ok := s.Flag(names...); return pair(b, ok) }
	check(integer("a"), pair(int64(6), true)) // of text_config
	check(integer("b", "f"), pair(int64(15), true))
	check(integer("b", "none"), pair(int64(0), false))
	check(integer("o.x"), pair(int64(3), true))
	check(number("x"), pair(0.1, true))
	check(number("none", "a"), pair(6.0, true))
	check(flag("y"), pair(true, true))
	check(flag("b"), pair(false, false))
	check(s.Word("b", "w"), "word")
	check(s.Word("b"), "")
	check(s.Numbers("l"), []float64{1, 2.5})
	check(s.Numbers("b"), []float64(nil))
	check(s.Words("lw"), []string{"a", "b"})
	if n, ok := s.Object("b", "o").Integer("x"); n != 3 || !ok {
		t.Errorf("object: %d, %v", n, ok)
	}
	check(s.Object("none").Word("x"), "")
	check(Fields{}.Word("x"), "")
}

func TestSettingsRefuse(t *testing.T) {
	long := strings.Repeat("x", 1<<10)
	for i, c := range []struct {
		value, want string
		ask         func(s Fields)
	}{
		{`"5"`, `"k" is "5", not a whole number`, func(s Fields) { s.Integer("k", "other") }},
		{"1.5", `is 1.5, not a whole number`, func(s Fields) { s.Integer("k") }},
		{"1e300", `is 1e300, not a whole number`, func(s Fields) { s.Integer("k") }},
		{"123456789012345678901234567890", `not a whole number`, func(s Fields) { s.Integer("k") }},
		{"1e999", `is 1e999, not a number`, func(s Fields) { s.Number("k") }},
		{"NaN", `is "NaN", not a number`, func(s Fields) { s.Number("k") }},
		{"true", `is true, not a number`, func(s Fields) { s.Number("k") }},
		{"1", `is 1, neither true nor false`, func(s Fields) { s.Flag("k") }},
		{"[1]", `is a list of 1, not a text`, func(s Fields) { s.Word("k") }},
		{`{"a": "\n"}`, `is an object, not a text`, func(s Fields) { s.Word("k") }},
		{"2", `is 2, not a list`, func(s Fields) { s.Numbers("k") }},
		{`[1, "a\nb"]`, `has the element "a\nb", which is not a number`, func(s Fields) { s.Numbers("k") }},
		{"[" + strings.Repeat("1,", maxList) + "1]", fmt.Sprint("is a list of ", maxList+1), func(s Fields) { s.Numbers("k") }},
		{"[1]", `has the element 1, which is not a text`, func(s Fields) { s.Words("k") }},
		{"2", `is 2, not an object`, func(s Fields) { s.Object("k") }},
		{`{"x": 2}`, `"x" is 2, not a text`, func(s Fields) { s.Object("k").Word("x") }},
		{`"` + long + `"`, `xxx...`, func(s Fields) { s.Integer("k") }},
	} {
		s := parsed(t, `{"k": `+c.value+`, "other": 1}`)
		c.ask(s)
		first := s.Err()
		if first == nil || !strings.Contains(first.Error(), c.want) || !strings.HasPrefix(first.Error(), "config.json") ||
			strings.ContainsAny(first.Error(), "\n") || len(first.Error()) > 200 {
			t.Errorf("%d: %v, want %s", i, first, c.want)
		}
		s.Flag("other")
		if s.Err() != first {
			t.Errorf("%d: a later problem replaces the first", i)
		}
	}
}

// TestParseFieldsNamesTheByte: a malformed file is refused in the words of the parser of the model, with the byte.
func TestParseFieldsNamesTheByte(t *testing.T) {
	_, err := ParseFields("config.json", []byte(`{"a":1,}`))
	if err == nil || !strings.Contains(err.Error(), "config.json: it is not JSON: ") || !strings.Contains(err.Error(), "(at byte 7)") {
		t.Error(err)
	}
}
