package cli

import (
	"encoding/json"
	"io"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// PrintJSON writes v as indented JSON.
func PrintJSON(w io.Writer, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(EscapeJSON(b), '\n'))
	return err
}

// EscapeJSON escapes characters that are not printable, which only occur in
// strings: the result is the same JSON, safe for a terminal.
func EscapeJSON(b []byte) []byte {
	var out []byte
	begin := 0
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if b[i] < 0x7f || strconv.IsPrint(r) {
			i += n
			continue
		}
		out = append(out, b[begin:i]...)
		for _, u := range utf16.AppendRune(nil, r) {
			const hex = "0123456789abcdef"
			out = append(out, '\\', 'u', hex[u>>12], hex[u>>8&15], hex[u>>4&15], hex[u&15])
		}
		i += n
		begin = i
	}
	return append(out, b[begin:]...)
}
