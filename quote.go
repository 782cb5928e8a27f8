package tensorfs

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Text from a file, and a path that somebody else chose, may hold what acts on a
// terminal or turns the order of what is shown: control characters (C1 too),
// marks of direction, separators of lines, bytes that are not UTF-8. Quote,
// Printable and OneLine show such text as Go writes it ("\u202e"); one of them
// stands between every such text and a terminal.

// Quote quotes text from a file for a message and shortens what is long.
func Quote(s string) string {
	const limit = 100
	if len(s) > limit {
		return fmt.Sprintf("%q... (%d bytes)", s[:limit], len(s))
	}
	return strconv.Quote(s)
}

// Printable returns s unchanged where all of it is printable, else quoted. What
// begins with a quotation mark is quoted too, so that strconv.Unquote tells which
// of the two it was.
func Printable(s string) string {
	if strings.HasPrefix(s, `"`) || strings.ContainsFunc(s, unprintable) || !utf8.ValidString(s) {
		return strconv.Quote(s)
	}
	return s
}

// OneLine makes a message that was put together from other texts fit for one
// line of a terminal: breaks between lines become semicolons, and what is not
// printable is escaped as in Quote, without quotation marks.
func OneLine(s string) string {
	s = strings.ReplaceAll(strings.Trim(s, "\n"), "\n", "; ")
	if !strings.ContainsFunc(s, unprintable) && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && n == 1 || unprintable(r) {
			q := strconv.Quote(s[:n])
			b.WriteString(q[1 : len(q)-1])
		} else {
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

func unprintable(r rune) bool { return !strconv.IsPrint(r) }
