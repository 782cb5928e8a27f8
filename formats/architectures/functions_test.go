package architectures

import (
	"reflect"
	"testing"
)

// TestFunctions evaluates the functions that all expressions have.
func TestFunctions(t *testing.T) {
	facts := func(name string) any {
		return map[string]any{"n": int64(3), "list": []any{int64(4), int64(9), int64(2)}, "word": "x",
			"layers": []any{"sliding_attention", "full_attention"}, "kinds": []any{"dense", "sparse", "sparse"}}[name]
	}
	for text, want := range map[string]any{
		"max(n, 5)":              int64(5),
		"max(list)":              int64(9),
		"max(list, 12)":          int64(12),
		"max(none)":              nil,
		"max(word)":              nil,
		"item(list, 1)":          int64(9),
		"item(list, n)":          nil,
		"item(list, -1)":         nil,
		"item(list)":             nil,
		"item(n, 0)":             int64(3),
		"length(list)":           int64(3),
		"length(none)":           int64(0),
		"length(n)":              int64(1),
		"length()":               nil,
		`until(kinds, "sparse")`: int64(1),
		`until(kinds, "dense")`:  nil,
		`until(kinds, "x")`:      nil,
		`until(none, "x")`:       nil,
		`replace(kinds, "dense", false, "sparse", true)`: []any{false, true, true},
		`replace(kinds, "dense", false)`:                 nil,
		`replace(kinds, "dense")`:                        nil,
		`replace(none, "dense", 1)`:                      nil,
		"join(kinds)":                                    "densesparsesparse",
		"join(list)":                                     nil,
		"join(none)":                                     nil,
		`join(list, ",")`:                                "4,9,2",
		`join(kinds, "-")`:                               "dense-sparse-sparse",
		`join(none, ",")`:                                nil,
		"windows(layers)":                                []any{true, false},
		"windows(kinds)":                                 nil,
		"windows(none)":                                  nil,
		"windows_every(2, 3)":                            []any{true, false, true},
		"windows_every(0, 3)":                            nil,
		"windows_every(2, 1000000)":                      nil,
		"window_period(windows(layers))":                 int64(2),
		"window_period(none)":                            nil,
		"floor(2.5)":                                     int64(2),
		"floor(1e300)":                                   nil,
		"floor(word)":                                    nil,
		"root(16)":                                       4.0,
		"root(0)":                                        nil,
		"root(word)":                                     nil,
		"power(2, n)":                                    8.0,
		"power(2)":                                       nil,
		"power(none, 2)":                                 nil,
		"other(n)":                                       nil,
	} {
		e, err := ParseExpr(text)
		if err != nil {
			t.Fatal(text, err)
		}
		if got := e.Eval(facts); !reflect.DeepEqual(got, want) {
			t.Errorf("%s is %v, want %v", text, got, want)
		}
	}
}
