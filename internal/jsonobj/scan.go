package jsonobj

import (
	"iter"
	"strings"
)

// The functions here walk text that [Parse] has found to be valid, so they look
// at brackets and quotes only. Each is one pass over its text without recursion.

// space is what JSON calls whitespace.
const space = " \t\n\r"

// skipSpace returns the place of the first byte from i on that is not whitespace.
func skipSpace(s string, i int) int {
	for i < len(s) && (s[i] == ' ' || s[i] == '\n' || s[i] == '\t' || s[i] == '\r') {
		i++
	}
	return i
}

// skipString returns the place after the string that starts at i.
func skipString(s string, i int) int {
	for i++; i < len(s) && s[i] != '"'; i++ {
		if s[i] == '\\' {
			i++
		}
	}
	return min(i+1, len(s))
}

// skipValue returns the place after the value that starts at i.
func skipValue(s string, i int) int {
	switch s[i] {
	case '"':
		return skipString(s, i)
	case '{', '[':
		for depth := 0; i < len(s); {
			switch s[i] {
			case '"':
				i = skipString(s, i)
				continue
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
			i++
		}
		return i
	}
	for i < len(s) && strings.IndexByte(",]}"+space, s[i]) < 0 {
		i++
	}
	return i
}

// member is a member of an object, as its place in the text.
type member struct {
	key, keyEnd, value, valueEnd int32
}

// members returns the members of an object in the order of its text.
func members(s string) iter.Seq[member] {
	return func(yield func(member) bool) {
		for i := skipSpace(s, 1); i < len(s) && s[i] != '}'; {
			if s[i] == ',' {
				i = skipSpace(s, i+1)
			}
			keyEnd := skipString(s, i)
			value := skipSpace(s, skipSpace(s, keyEnd)+1)
			end := skipValue(s, value)
			if !yield(member{int32(i), int32(keyEnd), int32(value), int32(end)}) {
				return
			}
			i = skipSpace(s, end)
		}
	}
}

// elements returns the elements of an array.
func elements(s string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := skipSpace(s, 1); i < len(s) && s[i] != ']'; {
			if s[i] == ',' {
				i = skipSpace(s, i+1)
			}
			end := skipValue(s, i)
			if !yield(s[i:end]) {
				return
			}
			i = skipSpace(s, end)
		}
	}
}

// compact returns a value without the whitespace outside its strings.
func compact(s string) string {
	var b strings.Builder
	from := 0 // what is before it has been written
	for i := 0; i < len(s); {
		switch s[i] {
		case '"':
			i = skipString(s, i)
		case ' ', '\n', '\t', '\r':
			if from == 0 {
				b.Grow(len(s))
			}
			b.WriteString(s[from:i])
			i = skipSpace(s, i)
			from = i
		default:
			i++
		}
	}
	if from == 0 {
		return s
	}
	b.WriteString(s[from:])
	return b.String()
}
