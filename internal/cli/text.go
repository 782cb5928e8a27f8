package cli

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// cut marks where text was left out.
const cut = "..."

// Shorten returns text of at most width columns. It cuts the middle out of longer text,
// because the beginning of a path tells its place and the end tells paths apart.
func Shorten(s string, width int) string {
	if Cells(s) <= width {
		return s
	}
	if width <= len(cut) {
		return cut[:max(width, 0)]
	}
	keep := width - len(cut)
	tail := min(keep, max(keep/2, 24))
	return first(s, keep-tail) + cut + last(s, tail)
}

// ShortenEnd returns the beginning of text, of at most width columns.
func ShortenEnd(s string, width int) string {
	if Cells(s) <= width {
		return s
	}
	return first(s, max(width-len(cut), 0)) + cut
}

// first returns the beginning of a text that fits into some columns.
func first(s string, width int) string {
	n := 0
	for i, r := range s {
		if n += runeCells(r); n > width {
			return s[:i]
		}
	}
	return s
}

// last returns the end of a text that fits into some columns.
func last(s string, width int) string {
	for n, at := 0, len(s); at > 0; {
		r, size := utf8.DecodeLastRuneInString(s[:at])
		if n += runeCells(r); n > width {
			return s[at:]
		}
		at -= size
	}
	return s
}

// Fold breaks text at spaces into lines of at most width columns, and begins every line but the first with indent.
// All other characters stay as they are, so that names and commands in it can be copied: a word that is longer than a
// line is not broken. A width that leaves less than 20 columns beside the indent folds nothing.
func Fold(text string, width int, indent string) string {
	if width-Cells(indent) < 20 || Cells(text) <= width {
		return text
	}
	var b strings.Builder
	used := 0
	for i, word := range strings.Split(text, " ") {
		switch n := Cells(word); {
		case i == 0:
			used = n
		case used+1+n <= width:
			b.WriteByte(' ')
			used += 1 + n
		default:
			b.WriteString("\n" + indent)
			used = Cells(indent) + n
		}
		b.WriteString(word)
	}
	return b.String()
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
		n := Cells(word)
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
		for room := width - len(cut) - 1; Cells(line) > room; {
			if at := strings.LastIndexByte(line, ' '); at > 0 {
				line = line[:at]
			} else {
				line = first(line, room)
			}
		}
		return append(lines, strings.TrimRight(line, " ,;:")+" "+cut)
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}

// Paragraph is a text in lines of width columns, at least 40 and at most 80. The first begins with "first", and
// all following lines are indented by as much.
func Paragraph(width int, first, text string) string {
	indent := strings.Repeat(" ", Cells(first))
	return first + strings.Join(Wrap(text, min(max(width, 40), Columns)-len(indent), 0), "\n"+indent)
}

// Plural puts a number before a word.
func Plural[T int | int64](n T, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

// Number formats a number with three digits, in at most 8 columns plus a sign.
func Number(v float64) string { return fmt.Sprintf("%.3g", v) }

// Count prints a number in digits, and many digits with a unit of powers of 1000 before
// them: "8.03 B (8,030,261,248)".
func Count(n int64) string {
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	if n < 1e6 {
		return digits
	}
	return About(n) + " (" + digits + ")"
}

// About prints a number, and many digits only in a unit of powers of 1000: "8.03 B".
func About(n int64) string {
	if n < 1e6 {
		return fmt.Sprint(n)
	}
	f, unit := float64(n)/1e6, 0
	for f >= 999.995 && unit < 2 {
		f, unit = f/1000, unit+1
	}
	return fmt.Sprintf("%.2f %c", f, "MBT"[unit])
}
