package tensorfs

import (
	"strconv"
	"strings"
	"testing"
	"unicode"
)

func TestPrintable(t *testing.T) {
	for s, want := range map[string]string{
		"":                               "",
		"/models/llama 3.gguf":           "/models/llama 3.gguf",
		`say "x\y"`:                      `say "x\y"`,
		"Größe/模型/é/🙂":                   "Größe/模型/é/🙂",
		`"quoted"`:                       `"\"quoted\""`,
		"a\x1b[31m":                      `"a\x1b[31m"`,
		"a\u009b31m":                     `"a\u009b31m"`,
		"a\x9b31m":                       `"a\x9b31m"`,
		"del\x7f":                        `"del\x7f"`,
		"two\nlines":                     `"two\nlines"`,
		"no\u00a0break":                  `"no\u00a0break"`,
		"\ufffd is a rune of its own":    "\ufffd is a rune of its own",
		"private \ue000, tag \U000e0041": `"private \ue000, tag \U000e0041"`,
	} {
		if got := Printable(s); got != want {
			t.Errorf("Printable(%q) = %s, want %s", s, got, want)
		}
	}
	// Each character that changes the direction of text or ends a line.
	for _, r := range "\u061c\u200b\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029\u0080\u0085\u009f\ufeff" {
		s := "a" + string(r) + "b"
		if got := Printable(s); got != strconv.Quote(s) || strings.ContainsRune(got, r) {
			t.Errorf("%U is shown as it is: %q", r, got)
		}
		if got := OneLine(s); strings.ContainsRune(got, r) || len(got) < 5 {
			t.Errorf("%U reaches the terminal: %q", r, got)
		}
		if got := Quote(s); strings.ContainsRune(got, r) {
			t.Errorf("%U is quoted as it is: %q", r, got)
		}
	}
}

func TestOneLine(t *testing.T) {
	for s, want := range map[string]string{
		"":                           "",
		"plain":                      "plain",
		"one\ntwo\n":                 "one; two",
		"a\ttab, \"q\\\u009b\" \x9b": `a\ttab, "q\\u009b" \x9b`,
		"\r\x00\x7f\u202e":           `\r\x00\x7f\u202e`,
	} {
		if got := OneLine(s); got != want || OneLine(got) != got {
			t.Errorf("OneLine(%q) = %q, want %q", s, got, want)
		}
	}
}

// FuzzPrintable: nothing that acts on a terminal gets through, and what was
// quoted can be read back.
func FuzzPrintable(f *testing.F) {
	for _, s := range []string{"a", `"`, "\u202e", "\x9b", "a\nb", "\xed\xa0\x80"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		shown := Printable(s)
		for _, text := range []string{shown, OneLine(s), Quote(s)} {
			for _, r := range text {
				if !unicode.IsPrint(r) {
					t.Errorf("%q gives %q with %U", s, text, r)
				}
			}
		}
		back := shown
		if strings.HasPrefix(shown, `"`) {
			var err error
			if back, err = strconv.Unquote(shown); err != nil {
				t.Fatal(err)
			}
		}
		if back != s {
			t.Errorf("%q is shown as %s and read as %q", s, shown, back)
		}
	})
}
