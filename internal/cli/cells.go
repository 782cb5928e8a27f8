package cli

import (
	"unicode"

	"golang.org/x/text/width"
)

// Cells returns how many columns of a terminal a text takes: two for the characters of Chinese, Japanese and Korean and
// for pictures, none for what is drawn over the character before it, and none for the colours of a [Painter].
func Cells(s string) (n int) {
	for _, r := range colours.Replace(s) {
		n += runeCells(r)
	}
	return n
}

func runeCells(r rune) int {
	if r < 0x300 {
		return 1
	}
	if unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf) {
		return 0
	}
	if kind := width.LookupRune(r).Kind(); kind == width.EastAsianWide || kind == width.EastAsianFullwidth {
		return 2
	}
	return 1
}
