package tensorfs

import (
	"encoding/base64"
	"fmt"
	"iter"
	"math"
	"strconv"
	"unicode/utf8"
)

// Meta is one entry of a model's metadata. Value is a bool, an integer or a
// float of any width, a string of any bytes, an [Array] or a [JSON] text.
type Meta struct {
	Key   string
	Value any
}

// Array is a metadata array that is decoded when it is read, so that opening a
// model does not pay for a vocabulary.
type Array interface {
	Len() int
	Values() iter.Seq[any]
}

// JSON is a value that is already valid, compact JSON text in the source.
type JSON string

// AppendJSON appends the value as JSON text. Strings that are not UTF-8 become
// {"base64":"..."}; NaN and infinities become the strings "NaN", "Infinity" and
// "-Infinity".
func (m Meta) AppendJSON(dst []byte) []byte { return appendJSON(dst, m.Value) }

// AppendText appends the value as the text of metadata/KEY: scalars on one line,
// arrays one element per line. Inside strings, backslash, newline and control
// characters are escaped as in JSON; each nested array is one line of JSON text.
func (m Meta) AppendText(dst []byte) []byte {
	a, ok := m.Value.(Array)
	if !ok {
		return append(appendTextLine(dst, m.Value), '\n')
	}
	for v := range a.Values() {
		dst = append(appendTextLine(dst, v), '\n')
	}
	return dst
}

func appendTextLine(dst []byte, v any) []byte {
	switch v := v.(type) {
	case string:
		return appendEscaped(dst, v)
	case float32, float64:
		return appendFloat(dst, v, false)
	}
	return appendJSON(dst, v)
}

func appendJSON(dst []byte, v any) []byte {
	switch v := v.(type) {
	case string:
		return AppendJSONString(dst, v)
	case bool:
		return strconv.AppendBool(dst, v)
	case float32, float64:
		return appendFloat(dst, v, true)
	case uint64:
		return strconv.AppendUint(dst, v, 10)
	case uint8, uint16, uint32, int8, int16, int32, int64, int:
		return fmt.Append(dst, v)
	case JSON:
		return append(dst, v...)
	case Array:
		dst = append(dst, '[')
		first := true
		for e := range v.Values() {
			if !first {
				dst = append(dst, ',')
			}
			first = false
			dst = appendJSON(dst, e)
		}
		return append(dst, ']')
	}
	panic(fmt.Sprintf("metadata value of type %T", v)) // a parser's bug
}

// appendFloat appends the shortest decimal that reads back to the same value.
func appendFloat(dst []byte, v any, quoteSpecial bool) []byte {
	f, bits := 0.0, 64
	switch v := v.(type) {
	case float32:
		f, bits = float64(v), 32
	case float64:
		f = v
	}
	if math.IsNaN(f) || math.IsInf(f, 0) {
		s := map[bool]string{true: "Infinity", false: "-Infinity"}[f > 0]
		if math.IsNaN(f) {
			s = "NaN"
		}
		if quoteSpecial {
			return strconv.AppendQuote(dst, s)
		}
		return append(dst, s...)
	}
	format := byte('f')
	if a := math.Abs(f); a != 0 && (a < 1e-6 || a >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(dst, f, format, -1, bits)
}

// AppendJSONString appends s as JSON text, or as {"base64":"..."} if s is not UTF-8.
func AppendJSONString(dst []byte, s string) []byte {
	if !utf8.ValidString(s) {
		dst = append(dst, `{"base64":"`...)
		dst = base64.StdEncoding.AppendEncode(dst, []byte(s))
		return append(dst, `"}`...)
	}
	dst = append(dst, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"':
			dst = append(dst, '\\', c)
		default:
			dst = appendEscapedByte(dst, c)
		}
	}
	return append(dst, '"')
}

func appendEscaped(dst []byte, s string) []byte {
	for i := range len(s) {
		dst = appendEscapedByte(dst, s[i])
	}
	return dst
}

// appendEscapedByte escapes backslash and control bytes as JSON does.
func appendEscapedByte(dst []byte, c byte) []byte {
	const short = "btn?fr" // \b is 8, \r is 13; 11 has no short form
	const hex = "0123456789abcdef"
	switch {
	case c == '\\':
		return append(dst, '\\', '\\')
	case c >= 8 && c <= 13 && c != 11:
		return append(dst, '\\', short[c-8])
	case c < ' ' || c == 0x7f:
		return append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
	}
	return append(dst, c)
}
