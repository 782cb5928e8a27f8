package hfdir

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
)

// jsonObject is a JSON object whose members keep their order. A value is a bool,
// int64, float32, float64, string, list of strings, int64 or float32, jsonObject,
// list of jsonObject, jsonNull, or a jsonobj.Raw that is written as it is.
type jsonObject []jsonMember

type jsonMember struct {
	name  string
	value any
}

// with returns the object with a member more, unless its value is nil.
func (o jsonObject) with(name string, value any) jsonObject {
	if value == nil {
		return o
	}
	return append(o, jsonMember{name, value})
}

// jsonNull is a null that is written.
type jsonNull struct{}

// text returns the object indented, with a line break at the end.
func (o jsonObject) text() []byte { return indented(o) }

// indented returns a value as the text of a file.
func indented(v any) []byte {
	var b bytes.Buffer
	if err := json.Indent(&b, appendJSON(nil, v), "", "  "); err != nil {
		panic(err) // all of it was made here, or was parsed before
	}
	b.WriteByte('\n')
	return b.Bytes()
}

func appendJSON(dst []byte, v any) []byte {
	switch v := v.(type) {
	case jsonNull:
		return append(dst, "null"...)
	case bool:
		return strconv.AppendBool(dst, v)
	case int64:
		return strconv.AppendInt(dst, v, 10)
	case float32:
		return append(dst, decimal(float64(v), 32)...)
	case float64:
		return append(dst, decimal(v, 64)...)
	case string:
		return tensorfs.AppendJSONString(dst, v)
	case []string:
		return appendList(dst, v)
	case []int64:
		return appendList(dst, v)
	case []jsonObject:
		return appendList(dst, v)
	case []float32:
		return appendList(dst, v)
	case jsonobj.Raw:
		return append(dst, v.String()...)
	case jsonObject:
		dst = append(dst, '{')
		for i, m := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(tensorfs.AppendJSONString(dst, m.name), ':')
			dst = appendJSON(dst, m.value)
		}
		return append(dst, '}')
	}
	panic(fmt.Sprintf("a value of type %T in config.json", v))
}

func appendList[T any](dst []byte, list []T) []byte {
	dst = append(dst, '[')
	for i, v := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendJSON(dst, v)
	}
	return append(dst, ']')
}

// decimal returns the shortest decimal that reads back as the same number of so
// many bits, written as Python does, so that a config.json has the digits that its
// original had: 1e-05, 500000.0.
func decimal(x float64, bits int) string {
	e := strconv.FormatFloat(x, 'e', -1, bits)
	_, exponent, _ := strings.Cut(e, "e")
	if n, err := strconv.Atoi(exponent); err != nil || n < -4 || n >= 16 {
		return e
	}
	s := strconv.FormatFloat(x, 'f', -1, bits)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}
