package cli

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestShorten(t *testing.T) {
	for _, test := range []struct {
		text  string
		width int
		want  string
	}{
		{"", 0, ""},
		{"abc", 3, "abc"},
		{"abcd", 3, "..."},
		{"abcd", 1, "."},
		{"abcd", -1, ""},
		{"/models/very/far/away/llama-3.1-8b-instruct.Q4_K_M.gguf", 40, "/models/very/...-8b-instruct.Q4_K_M.gguf"},
		{"öäüöäüöäü", 8, "...äüöäü"},
	} {
		if got := Shorten(test.text, test.width); got != test.want {
			t.Errorf("%q of %d: %q, want %q", test.text, test.width, got, test.want)
		}
	}
}

func TestWrap(t *testing.T) {
	for _, test := range []struct {
		text        string
		width, rows int
		want        []string
	}{
		{"", 10, 2, nil},
		{"  ", 10, 2, nil},
		{"one two", 10, 2, []string{"one two"}},
		{"one two three", 9, 2, []string{"one two", "three"}},
		{"one two", 7, 2, []string{"one two"}},
		{"one two three four five six", 9, 2, []string{"one two", "three ..."}},
		{"one two, three", 10, 1, []string{"one ..."}},
		{"one two, three", 12, 1, []string{"one two ..."}},
		{"a abcdefghijklmnop b", 8, 3, []string{"a", "...lmnop", "b"}},
		{"ääää öööö", 4, 2, []string{"ääää", "öööö"}},
		{"a abcdefghijklmnop b c", 8, 0, []string{"a", "abcdefghijklmnop", "b c"}},
		{"one two three four five six", 9, 0, []string{"one two", "three", "four five", "six"}},
	} {
		if got := Wrap(test.text, test.width, test.rows); !slices.Equal(got, test.want) {
			t.Errorf("%q in %d: %q, want %q", test.text, test.width, got, test.want)
		}
	}
	text := strings.Repeat("a view that has words of several lengths ", 20)
	for width := 12; width < 100; width++ {
		for rows := 1; rows < 5; rows++ {
			lines := Wrap(text, width, rows)
			if len(lines) > rows {
				t.Errorf("%d lines of %d", len(lines), rows)
			}
			for _, l := range lines {
				if utf8.RuneCountInString(l) > width {
					t.Errorf("%q is longer than %d", l, width)
				}
			}
		}
	}
}
