package config

import (
	"slices"

	"github.com/tensorfs/tensorfs"
)

// JSON returns the text of config.json.
func JSON(m *tensorfs.Model) []byte {
	return AppendJSON(nil, m.Config, tensorfs.Field{Name: "layout", Value: m.Layout})
}

// AppendJSON appends the fields as a JSON object, one per line, extra ones last.
func AppendJSON(dst []byte, fields []tensorfs.Field, extra ...tensorfs.Field) []byte {
	dst = append(dst, '{')
	for i, f := range slices.Concat(fields, extra) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, "\n  "...)
		dst = tensorfs.AppendJSONString(dst, f.Name)
		dst = append(dst, ": "...)
		dst = appendValue(dst, f.Value)
	}
	return append(dst, "\n}\n"...)
}

func appendValue(dst []byte, v any) []byte {
	_, isArray := v.(tensorfs.Array)
	_, seq, isList := elements(v)
	if isArray || !isList {
		return tensorfs.Meta{Value: v}.AppendJSON(dst)
	}
	dst = append(dst, '[')
	first := true
	for e := range seq {
		if !first {
			dst = append(dst, ", "...)
		}
		first = false
		dst = appendValue(dst, e)
	}
	return append(dst, ']')
}
