package tokenizer

import (
	"fmt"
	"regexp/syntax"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxExpression bounds the expressions that are normalised, in bytes. Models use up to 300.
const maxExpression = 2048

// normalForm returns the same text for regular expressions that are spelled differently and
// match the same, as far as it can tell. It unifies groups that only hold together,
// escapes, the order and the repetition of a class's members, prefixes that alternatives
// share, and cases that are spelled out or asked for. Expressions that it does not
// understand keep their spelling, in quotation marks, so each equals only itself.
//
// That is safe because nothing is guessed. Each part of an expression is translated to Go's
// syntax. Go's parser then simplifies it by rules that hold for alternatives in order,
// independent of what their parts match. Go must not interpret the parts differently from
// Oniguruma, which sources are written for: so a part that looks ahead becomes a group with
// a name, and a property of characters becomes a character that no expression may contain.
// A class with such a property, or a negated class, is followed by another such character,
// so that two classes never become one. A class minus another ([a&&[^b]]) becomes both
// classes with such a character between. Unknown syntax is not
// translated at all: looking back, possessive matches (a++), named groups, changes of
// flags, and letters with a backslash that are not listed below. The only possible error is
// that two expressions that match the same are told apart.
//
// Where cases are equal, only the letters of English contractions are translated,
// which have no more than two cases each. One difference is passed over, as in
// llama.cpp's own spelling: (?i:'s) is '[sS], although a long s, U+017F, is a third.
func normalForm(expression string) string {
	if t := (translation{rest: expression, folds: []bool{false}}); len(expression) <= maxExpression && t.all() {
		if re, err := syntax.Parse(t.out.String(), syntax.PerlX|syntax.UnicodeGroups|syntax.ClassNL); err == nil {
			return dump(re)
		}
	}
	return strconv.Quote(expression)
}

// dump returns everything that determines what an expression matches. Its String costs a
// thousand times as much.
func dump(re *syntax.Regexp) string {
	text := fmt.Sprintf("%v%x%q%x,%d,%d(", re.Op, uint16(re.Flags&(syntax.FoldCase|syntax.NonGreedy)), re.Name, re.Rune, re.Min, re.Max)
	for _, sub := range re.Sub {
		text += dump(sub)
	}
	return text + ")"
}

// spaces are the characters of \s in Oniguruma, as part of a class.
const spaces = `\t-\r \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}`

// properties are the properties of characters that expressions name. Each becomes a
// character from firstProperty on, by its position here.
const properties = "L Lu Ll Lt Lm Lo M Mn Mc Me N Nd Nl No P Pc Pd Ps Pe Pi Pf Po S Sm Sc Sk So Z C Han "

const (
	firstProperty = 0xf0000
	apart         = `\x{f1000}` // after classes that must not be merged
	but           = `\x{f1001}` // between a class and one of what is taken from it
)

// translation makes an expression of Go's.
type translation struct {
	rest  string
	out   strings.Builder
	folds []bool // whether cases are equal, by the groups that are open
	looks int    // groups that look ahead so far
}

// take replaces what the rest begins with.
func (t *translation) take(from, to string) bool {
	after, ok := strings.CutPrefix(t.rest, from)
	if ok {
		t.rest = after
		t.out.WriteString(to)
	}
	return ok
}

// group is take for the beginning of a group.
func (t *translation) group(from, to string, fold bool) bool {
	ok := t.take(from, to)
	if ok {
		t.folds = append(t.folds, fold)
	}
	return ok
}

// all translates the whole expression, if it can.
func (t *translation) all() bool {
	for t.rest != "" {
		fold := t.folds[len(t.folds)-1]
		switch c := t.rest[0]; {
		case fold && c|0x20 == 's' && len(t.rest) > 1 && strings.IndexByte("sStT", t.rest[1]) >= 0: // one character may be both
			return false
		case t.take(`\b`, `\b`), t.take(`\A`, `\A`), t.take(`\z`, `\z`):
		case t.take(`\S`, `(?:[^`+spaces+`]`+apart+`)`):
		case t.group("(?i:", "(?:", true), t.group("(?:", "(?:", fold):
		case t.group("(?=", fmt.Sprintf("(?P<ahead%d>", t.looks), fold), t.group("(?!", fmt.Sprintf("(?P<not%d>", t.looks), fold):
			t.looks++
		case strings.HasPrefix(t.rest, "(?"), strings.HasPrefix(t.rest, "{,"):
			return false
		case t.group("(", "(?:", fold):
		case c == ')':
			if t.folds = t.folds[:len(t.folds)-1]; len(t.folds) == 0 {
				return false
			}
			t.take(")", ")")
		case strings.HasPrefix(t.rest, "{1}") && (len(t.rest) == 3 || strings.IndexByte("?*+{", t.rest[3]) < 0):
			t.rest = t.rest[3:]
		default:
			set, alone, ok := t.set(fold)
			if !ok {
				return false
			}
			if c == '[' || c == '\\' || fold && isLetter(c) {
				set = "[" + set + "]"
			}
			if alone {
				set = "(?:" + set + apart + ")"
			}
			t.out.WriteString(set)
		}
	}
	return len(t.folds) == 1
}

// set reads a class or a character. It returns the content of the brackets of Go's class,
// and whether the class must not be merged. Classes inside are parts of it.
func (t *translation) set(fold bool) (set string, alone, ok bool) {
	if t.rest[0] != '[' {
		return t.character(fold)
	}
	if t.rest = t.rest[1:]; strings.HasPrefix(t.rest, "^") {
		t.rest, set, alone = t.rest[1:], "^", true
	}
	for depth, begin := 1, len(t.rest); t.rest != ""; {
		switch c := t.rest[0]; {
		case c == ']' && len(t.rest) < begin:
			t.rest = t.rest[1:]
			if depth--; depth == 0 {
				return set, alone, true
			}
			if strings.HasPrefix(t.rest, "-") || strings.Contains(set, but) && !strings.HasPrefix(t.rest, "]") {
				return "", false, false
			}
		case depth == 1 && !strings.Contains(set, but) && strings.Trim(set, "^") != "" && strings.HasPrefix(t.rest, "&&[^"):
			t.rest, set, alone = t.rest[4:], set+"]"+but+"[^", true
			depth++
		case c == '[' && len(t.rest) > 1 && strings.IndexByte("^:]", t.rest[1]) < 0 && !strings.HasSuffix(set, "-"):
			t.rest = t.rest[1:]
			depth++
		case c == '[', c == ']', c == '-' && fold, strings.HasPrefix(t.rest, "&&"):
			return "", false, false
		default:
			text, property, ok := t.character(fold)
			if !ok {
				return "", false, false
			}
			set, alone = set+text, alone || property
		}
	}
	return "", false, false
}

// character reads a character, or an escape for several, and returns it as part of a Go
// class, and whether it is a property.
func (t *translation) character(fold bool) (text string, property, ok bool) {
	c, size := utf8.DecodeRuneInString(t.rest)
	switch {
	case fold && (c == '\\' || c >= utf8.RuneSelf || isLetter(byte(c)) && !strings.ContainsRune("dlmrstve", c|0x20)), c >= firstProperty, c == utf8.RuneError:
		return "", false, false
	case fold && isLetter(byte(c)):
		t.rest = t.rest[1:]
		return string([]rune{c | 0x20, c &^ 0x20}), false, true
	case c != '\\':
		t.rest = t.rest[size:]
		return string(c), false, true
	case len(t.rest) < 2:
		return "", false, false
	}
	c = rune(t.rest[1])
	name := ""
	switch {
	case c == 'p':
		name, t.rest, ok = strings.Cut(t.rest[2:], "}")
		if !ok || !strings.HasPrefix(name, "{") {
			return "", false, false
		}
		name = name[1:]
	case c == 'd':
		name, t.rest = "Nd", t.rest[2:]
	case c == 's':
		t.rest = t.rest[2:]
		return spaces, false, true
	case strings.ContainsRune("rnt", c) || c < utf8.RuneSelf && !isLetter(byte(c)) && (c < '0' || c > '9'):
		t.rest = t.rest[2:]
		return `\` + string(c), false, true
	}
	at := strings.Index(" "+properties, " "+name+" ")
	return string(rune(firstProperty + at)), true, name != "" && at >= 0
}

// isLetter reports whether a byte is a letter of ASCII.
func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
