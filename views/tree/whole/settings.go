package whole

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
)

// maxText bounds the small JSON files of a model.
const maxText = 16 << 20

// settings are the fields of a config.json, those about the language model in front
// of those outside of that object. A field that is null counts as absent.
//
// The methods that want a type return the first field that is present, as
// settings.value does. A field of another type is a problem and no value: it is
// kept for settings.err, so that a table of fields need not check each.
type settings struct {
	text, top jsonobj.Object
	problem   *error // the first; nil where nobody asks for it
	file      string // that the fields are in
}

// readSettings reads a JSON file of the model. One that is missing has no fields.
func readSettings(m *tensorfs.Model, name string) (settings, error) {
	s := settings{problem: new(error), file: name}
	text, err := ReadText(m, name, maxText)
	if err != nil || text == nil {
		return s, err
	}
	if s.top, err = jsonobj.Parse(text); err != nil {
		return s, &tensorfs.FormatError{File: name, Offset: -1, Problem: err.Error()}
	}
	_, s.text = s.top.Inner(architectures.TextConfigs)
	return s, nil
}

// value returns the first field that is present: a json.Number, string, bool,
// tensorfs.Array or, for objects, tensorfs.JSON. Names may be paths with dots. It
// is nil where none is.
func (s settings) value(names ...string) any {
	v, _ := s.find(names)
	return v
}

// find returns the first field that is present, and its name.
func (s settings) find(names []string) (any, string) {
	for _, name := range names {
		if v, ok := s.text.Lookup(name); ok {
			return v, name
		}
		if v, ok := s.top.Lookup(name); ok {
			return v, name
		}
	}
	return nil, ""
}

// null reports whether a field is there and null, which is not the same as a field
// left to its default.
func (s settings) null(name string) bool {
	o := s.top
	if s.text.Raw(name).Kind() != 0 {
		o = s.text
	}
	return o.Raw(name).Kind() == 'n'
}

// err returns the first problem with a field that was asked for.
func (s settings) err() error {
	if s.problem == nil {
		return nil
	}
	return *s.problem
}

// refuse notes a problem with a field, of which the first counts.
func (s settings) refuse(name, format string, args ...any) {
	if s.problem != nil && *s.problem == nil {
		*s.problem = &tensorfs.FormatError{File: s.file, Offset: -1,
			Problem: tensorfs.Quote(name) + " " + fmt.Sprintf(format, args...)}
	}
}

// typed returns the first field that is present as what convert makes of it; what says
// what it has to be.
func typed[T any](s settings, names []string, what string, convert func(v any) (T, bool)) (T, bool) {
	v, name := s.find(names)
	x, ok := convert(v)
	if v != nil && !ok {
		s.refuse(name, "is %s, %s", Shown(v), what)
	}
	return x, ok
}

func as[T any](v any) (T, bool) { x, ok := v.(T); return x, ok }

// integer returns a whole number, also one that is written as a float.
func (s settings) integer(names ...string) (int64, bool) {
	return typed(s, names, "not a whole number", whole)
}

// number returns a finite number.
func (s settings) number(names ...string) (float64, bool) {
	return typed(s, names, "not a number", finite)
}

// flag returns a bool.
func (s settings) flag(names ...string) (bool, bool) {
	return typed(s, names, "neither true nor false", as[bool])
}

// word returns a string, "" without one.
func (s settings) word(names ...string) string {
	w, _ := typed(s, names, "not a text", as[string])
	return w
}

// numbers returns a list of finite numbers, nil without one.
func (s settings) numbers(names ...string) []float64 { return listOf(s, names, "number", finite) }

// words returns a list of strings, nil without one.
func (s settings) words(names ...string) []string { return listOf(s, names, "text", as[string]) }

// maxList bounds the lists in settings.
const maxList = 1 << 16

func listOf[T any](s settings, names []string, what string, convert func(v any) (T, bool)) []T {
	v, name := s.find(names)
	if v == nil {
		return nil
	}
	a, ok := v.(tensorfs.Array)
	if !ok || a.Len() > maxList {
		s.refuse(name, "is %s, not a list of at most %d %ss", Shown(v), maxList, what)
		return nil
	}
	list := make([]T, 0, a.Len())
	for e := range a.Values() {
		x, ok := convert(e)
		if !ok {
			s.refuse(name, "has the element %s, which is not a %s", Shown(e), what)
			return nil
		}
		list = append(list, x)
	}
	return list
}

// object returns the fields of an object in the settings, none without it.
// Problems with them are problems of the settings.
func (s settings) object(names ...string) settings {
	sub := settings{problem: s.problem, file: s.file}
	for _, name := range names {
		for _, o := range []jsonobj.Object{s.text, s.top} {
			switch v := o.Raw(name); {
			case !o.Has(name):
				continue
			case v.Kind() != '{':
				s.refuse(name, "is %s, not an object", Shown(o.Value(name)))
			default:
				sub.top = o.Object(name)
			}
			return sub
		}
	}
	return sub
}

// maxExact is the first whole number next to one that a float cannot hold.
const maxExact = 1 << 53

// whole returns a number of a JSON text that has no fraction.
func whole(v any) (int64, bool) {
	text, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	if n, err := strconv.ParseInt(string(text), 10, 64); err == nil {
		return n, true
	}
	x, ok := finite(v)
	if !ok || x != math.Trunc(x) || math.Abs(x) >= maxExact {
		return 0, false
	}
	return int64(x), true
}

// finite returns a number of a JSON text.
func finite(v any) (float64, bool) {
	text, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	x, err := strconv.ParseFloat(string(text), 64)
	return x, err == nil
}

// Shown is a value of a config.json, or of a GGUF file, in a message: short, and on
// one line.
func Shown(v any) string {
	const most = 40
	text := ""
	switch v := v.(type) {
	case string:
		text = strconv.Quote(v[:min(len(v), most)])
	case tensorfs.Array:
		return fmt.Sprintf("a list of %d", v.Len())
	case tensorfs.JSON:
		return "an object"
	case float32:
		return strconv.FormatFloat(float64(v), 'g', -1, 32)
	default:
		text = tensorfs.Printable(fmt.Sprint(v))
	}
	if len(text) > most {
		text = text[:most] + "..."
	}
	return text
}
