package tokenizer

import (
	"strings"
	"testing"
)

// TestNormalForm holds which expressions count as the same.
func TestNormalForm(t *testing.T) {
	for _, row := range preRows() {
		for _, expression := range row.Split {
			if form := normalForm(expression); form[0] == '"' {
				t.Errorf("%v: %s is not understood", row.Pre, expression)
			}
		}
	}
	for _, c := range []struct{ a, b string }{
		{`(?i:'s|'t)`, `'[sS]|'[Tt]`}, {`'(?i:[sdmt]|ll|ve|re)`, `'(?:[SDMTsdmt]|[lL][lL]|[vV][eE]|[rR][eE])`}, {`'s|'t`, `'[st]`}, {`(a|b)c`, `[ab]c`}, {`((a))(?:b)`, `ab`},
		{`a{1}b`, `ab`}, {`[a[b.]]`, `[ab.]`}, {`[\p{N}]`, `\p{N}`}, {`\d`, `\p{Nd}`}, {`[\s]`, `\s`}, {`[\p{M}\p{L}]`, `[\p{L}\p{M}]`}, {"[^\r\n]", `[^\n\r]`}, {`[\-\/]`, `[/\-]`},
		{`\p{L}+(?!\S)|\s+`, `(?:\p{L}+)(?![^\s])|\s+`}, {`[b-da]`, `[a-d]`}, {`\.`, `[.]`}, {`[ab&&[^b]]`, `[ba&&[^b]]`},
	} {
		if x, y := normalForm(c.a), normalForm(c.b); x != y || x[0] == '"' {
			t.Errorf("%s and %s match the same, and are\n%s\n%s", c.a, c.b, x, y)
		}
	}
	for _, c := range []struct{ a, b string }{
		{`\d`, `[0-9]`}, {`\s`, `[ \t\r\n]`}, {`[^a]|\p{L}`, `[^a]`}, {`\p{L}|\p{N}`, `\p{L}`}, {`\p{L}`, `\p{Lu}`}, {`a{1}?`, `a`}, {`a{1}?b`, `a?b`}, {`a{1}`, `a{2}`}, {`\p{N}{1,3}`, `\p{N}{1,4}`},
		{`^a`, `\Aa`}, {`a$`, `a\z`}, {`a(?!b)`, `a(?=b)`}, {`a(?=b)`, `ab`}, {`(?!a|b)`, `(?!a)|b`}, {`\s+(?!\S)|\s+`, `\s+|\s+(?!\S)`}, {`a+?`, `a+`}, {`a++b`, `a+b`}, {`a?+a`, `a?a`},
		{`ab|a`, `a|ab`}, {`[a-[b]]`, `[a-b]`}, {`[[a]-c]`, `[a-c]`}, {`[a&&b]`, `[ab&]`}, {`(?i:é)`, `é`}, {`(?i:[a-c])`, `[a-cA-C]`}, {`(?<=a)b`, `ab`}, {`(?>a)b`, `ab`}, {`(?i)a`, `[aA]`},
		{`\w`, `[0-9A-Za-z_]`}, {`\Qa\E`, `a`}, {`a{,2}`, `a{0,2}`}, {`(?i:k)`, `[kK]`}, {`(?i:ss)`, `[sS][sS]`}, {`.`, `[^\n]`}, {`(?i:s)`, `s`}, {`a\x00b`, `a`}, {"a\U000f0000", `a\p{L}`}, {"[\U000f0000]", `[\p{L}]`}, {`\p{Unheard}`, `\p{L}`},
		{`[ab&&[^b]]`, `[ab]`}, {`[ab&&[^b]]`, `[ab][^b]`}, {`[ab&&[^c]]`, `[a&&[^bc]]`}, {`[a&&[^b]c]`, `[a&&[^bc]]`}, {`[a&&[^b]]`, `[^a&&[^b]]`}, {`[a[b&&[^c]]]`, `[ab&&[^c]]`}, {`[&&[^b]]`, `[^b]`}, {`[a&&[^b]&&[^c]]`, `[a&&[^bc]]`},
	} {
		if x, y := normalForm(c.a), normalForm(c.b); x == y {
			t.Errorf("%s and %s match otherwise, and are both\n%s", c.a, c.b, x)
		}
	}
	for _, odd := range []string{"(", ")", "[", "]", "[^", "[]", "\\", "(?", "(?i:", "a)", "(?:a", `\p`, `\p{`, `\p{}`, `\p{L`, "[a", "a**", "{", "\xff", strings.Repeat("(", 3000), strings.Repeat("(?:", 600) + strings.Repeat(")", 600)} {
		normalForm(odd)
	}
}

// FuzzNormalForm holds that a normal form costs little and is the same each time, and that a group
// does not change the form of its expression.
func FuzzNormalForm(f *testing.F) {
	for _, row := range preRows() {
		for _, expression := range row.Split {
			f.Add(expression)
		}
	}
	f.Add(`(?i:'s|[x])(?=a)[^\s[b]]{1}\S\d`)
	f.Fuzz(func(t *testing.T, expression string) {
		form := normalForm(expression)
		if form != normalForm(expression) || len(form) > 1<<20 || strings.ContainsRune(form, 0) {
			t.Fatalf("%q is %.1000q", expression, form)
		}
		if form[0] != '"' && len(expression) < 1000 && normalForm("("+expression+")") != form {
			t.Fatalf("%q is another one in a group: %q and %q", expression, form, normalForm("("+expression+")"))
		}
	})
}
