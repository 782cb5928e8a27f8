package tensorfs

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Text from a file, or an untrusted path, may contain characters that control a terminal or
// change the order of the text shown: control characters (including C1), direction marks,
// line separators, bytes that are not UTF-8. Quote, Printable and OneLine show such text as
// Go writes it ("\u202e"). All such text passes through one of them on its way to a
// terminal.

// Quote quotes text from a file for a message and shortens long text.
func Quote(s string) string {
	const limit = 100
	if len(s) > limit {
		return fmt.Sprintf("%q... (%d bytes)", s[:limit], len(s))
	}
	return strconv.Quote(s)
}

// Printable returns s unchanged if all of it is printable, and quoted otherwise.
// Text that begins with a quotation mark is quoted too, so that a leading
// quotation mark always means that strconv.Unquote applies.
func Printable(s string) string {
	if strings.HasPrefix(s, `"`) || strings.ContainsFunc(s, unprintable) || !utf8.ValidString(s) {
		return strconv.Quote(s)
	}
	return s
}

// OneLine makes a message composed of other texts fit on one line of a terminal:
// line breaks become semicolons, and unprintable characters are escaped as in
// Quote, without quotation marks.
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
