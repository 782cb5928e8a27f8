package settings

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
)

// Object is a JSON object whose members keep their order. A value is a bool,
// int64, float32, float64, string, list of these, Object, architectures.Null, or a jsonobj.Raw that is written as it is.
type Object []Member

// Member is a member of an object.
type Member struct {
	Name  string
	Value any
}

// Members returns an object that was read, to be changed.
func Members(o jsonobj.Object) Object {
	list := make(Object, 0, o.Len()+1)
	for name, raw := range o.All() {
		list = append(list, Member{name, raw})
	}
	return list
}

// With returns the object with a member more, unless its value is nil.
func (o Object) With(name string, value any) Object {
	if value == nil {
		return o
	}
	return append(o, Member{name, value})
}

// at returns the object with a member in nested objects, which are made if they are
// missing. In the objects of a list, a list of values becomes a member of each.
func (o Object) at(path []string, value any) Object {
	if len(path) == 1 || value == nil {
		return o.With(path[0], value)
	}
	i := o.Index(path[0])
	if i < 0 {
		o, i = append(o, Member{path[0], Object(nil)}), len(o)
	}
	if values, ok := value.([]any); ok && len(path) > 2 && path[1] == strings.Trim(architectures.EachElement, ".") {
		objects, _ := o[i].Value.([]Object)
		for len(objects) < len(values) {
			objects = append(objects, nil)
		}
		for n, v := range values {
			objects[n] = objects[n].at(path[2:], v)
		}
		o[i].Value = objects
		return o
	}
	inner, _ := o[i].Value.(Object)
	o[i].Value = inner.at(path[1:], value)
	return o
}

// Index returns where a member is, -1 without it.
func (o Object) Index(name string) int {
	return slices.IndexFunc(o, func(m Member) bool { return m.Name == name })
}

// Raw returns the value of a member that was read; its kind is 0 for any other.
func (o Object) Raw(name string) jsonobj.Raw {
	if i := o.Index(name); i >= 0 {
		r, _ := o[i].Value.(jsonobj.Raw)
		return r
	}
	return jsonobj.Raw{}
}

// Set writes a member, replacing one of the same name.
func (o *Object) Set(name string, value any) {
	if i := o.Index(name); i >= 0 {
		(*o)[i].Value = value
		return
	}
	*o = append(*o, Member{name, value})
}

// Text returns the object indented, with a line break at the end.
func (o Object) Text() []byte { return indented(o) }

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
	case architectures.Null:
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
	case []Object:
		return appendList(dst, v)
	case []any:
		return appendList(dst, v)
	case []float32:
		return appendList(dst, v)
	case jsonobj.Raw:
		return append(dst, v.String()...)
	case Object:
		dst = append(dst, '{')
		for i, m := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(tensorfs.AppendJSONString(dst, m.Name), ':')
			dst = appendJSON(dst, m.Value)
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

// Lines returns the object with a member on each line, which is how a config.json keeps its
// look. special reports that it has numbers which JSON does not have.
func (o Object) Lines(special bool) []byte {
	var b bytes.Buffer
	b.WriteString("{")
	for i, m := range o {
		if i > 0 {
			b.WriteString(",")
		}
		b.WriteString("\n    ")
		b.Write(tensorfs.AppendJSONString(nil, m.Name))
		b.WriteString(": ")
		value := string(appendJSON(nil, m.Value))
		if special {
			value = unquoted(value)
		}
		b.WriteString(value)
	}
	b.WriteString("\n}\n")
	return b.Bytes()
}

// unquoted writes numbers as Python does which JSON does not have: jsonobj reads
// them as strings, and the programs that read a config.json want numbers.
func unquoted(value string) string {
	for _, n := range []string{"NaN", "Infinity", "-Infinity"} {
		quoted := strconv.Quote(n)
		parts := strings.Split(value, quoted)
		var b strings.Builder
		for i, part := range parts {
			if i > 0 {
				rest := strings.TrimLeft(part, " \t\r\n")
				if strings.HasSuffix(parts[i-1], `\`) || strings.HasPrefix(rest, ":") { // in a string, or a key
					b.WriteString(quoted)
				} else {
					b.WriteString(n)
				}
			}
			b.WriteString(part)
		}
		value = b.String()
	}
	return value
}
