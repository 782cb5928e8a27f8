package cli

import "strings"

// eighths are the blocks that fill a column from the left by 1/8 to 7/8.
const eighths = "▏▎▍▌▋▊▉"

// Bar draws a fraction of 0 to 1 as a bar of at most width columns, without
// padding: in eighths of a column where the locale is UTF-8, else as number signs.
// A fraction above 0 gives at least the thinnest bar, one above 1 a full bar; NaN, 0
// and negative numbers give "".
func Bar(fraction float64, width int) string {
	if !(fraction > 0) || width <= 0 {
		return ""
	}
	fraction = min(fraction, 1)
	if !UTF8() {
		return strings.Repeat("#", max(int(fraction*float64(width)+0.5), 1))
	}
	n := max(int(fraction*float64(8*width)+0.5), 1)
	bar := strings.Repeat("█", n/8)
	if n%8 != 0 {
		bar += string([]rune(eighths)[n%8-1])
	}
	return bar
}
