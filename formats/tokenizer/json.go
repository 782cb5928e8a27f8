package tokenizer

import (
	"fmt"
	"strconv"
)

// errLarge is the reason for a file that [ReadFiles] would not take either.
var errLarge = fmt.Errorf("tokenizer.json would have more than %d bytes", maxFile)

// appendList appends what item appends for each of a list, with commas between.
func appendList[T any](b []byte, list []T, item func(b []byte, i int, value T) []byte) ([]byte, error) {
	for i, value := range list {
		if i > 0 {
			b = append(b, ',')
		}
		if b = item(b, i, value); len(b) > maxFile {
			return nil, errLarge
		}
	}
	return b, nil
}

// quoted returns a text, which must be UTF-8, as JSON.
func quoted(text string) string { return string(appendQuoted(nil, text)) }

// appendQuoted appends a text, which must be UTF-8, as JSON.
func appendQuoted(b []byte, text string) []byte {
	return append(appendEscaped(append(b, '"'), text), '"')
}

// appendEscaped appends what is between the quotation marks.
func appendEscaped(b []byte, text string) []byte {
	const hex = "0123456789abcdef"
	start := 0
	for i := range len(text) {
		c := text[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		b = append(b, text[start:i]...)
		start = i + 1
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, `\n`...)
		case '\r':
			b = append(b, `\r`...)
		case '\t':
			b = append(b, `\t`...)
		default:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	return append(b, text[start:]...)
}

func appendInt(b []byte, n int) []byte { return strconv.AppendInt(b, int64(n), 10) }
