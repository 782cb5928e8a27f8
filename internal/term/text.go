package term

import (
	"strings"
	"unicode/utf8"
)

// cut marks where text was left out.
const cut = "..."

// Shorten returns text of at most width characters: of longer text the middle is
// left out, because paths differ at the end and say where they are at the beginning.
func Shorten(s string, width int) string {
	n := utf8.RuneCountInString(s)
	if n <= width {
		return s
	}
	if width <= len(cut) {
		return cut[:max(width, 0)]
	}
	keep := width - len(cut)
	tail := min(keep, max(keep/2, 24))
	r := []rune(s)
	return string(r[:keep-tail]) + cut + string(r[n-tail:])
}

// Wrap breaks text at its spaces into at most rows lines of at most width
// characters. A word that is longer than a line is shortened, and if the text needs
// more lines, the last one ends in "...". width is 8 or more. With 0 rows it takes
// as many lines as it needs, and shortens nothing.
func Wrap(s string, width, rows int) (lines []string) {
	line, left := "", 0 // and the characters that fit into it
	for word := range strings.FieldsSeq(s) {
		if rows > 0 {
			word = Shorten(word, width)
		}
		n := utf8.RuneCountInString(word)
		switch {
		case line == "":
			line, left = word, width-n
			continue
		case n < left:
			line, left = line+" "+word, left-n-1
			continue
		case rows == 0 || len(lines)+1 < rows:
			lines = append(lines, line)
			line, left = word, width-n
			continue
		}
		for room := width - len(cut) - 1; utf8.RuneCountInString(line) > room; {
			if at := strings.LastIndexByte(line, ' '); at > 0 {
				line = line[:at]
			} else {
				line = string([]rune(line)[:room])
			}
		}
		return append(lines, strings.TrimRight(line, " ,;:")+" "+cut)
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}
