package settings

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
	"github.com/tensorfs/tensorfs/internal/source"
)

// MaxText bounds the small JSON files of a model.
const MaxText = 16 << 20

// ReadText returns the content of one of the model's files, nil if the model has no file of
// that name.
func ReadText(m *tensorfs.Model, name string, limit int64) ([]byte, error) {
	d, err := m.File(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return source.ReadAll(d, name, limit)
}

// Fields are the fields of a config.json, those about the language model in front
// of those outside of that object. A field that is null counts as absent.
//
// The methods that want a type return the first field that is present, as
// Fields.Value does. A field of another type is a problem and no value: it is
// kept for Fields.Err, so that a table of fields need not check each.
type Fields struct {
	text, top jsonobj.Object
	problem   *error          // the first; may be nil
	file      string          // that the fields are in
	asked     map[string]bool // fields that were asked for, with their paths; nil if that is not needed
	askedRope map[string]bool // the same of what is said about rotary embeddings

	elements map[string][]jsonobj.Object // of lists of objects, by their paths; nil if that is not needed

	usual func(name string) any // what the model's class takes for a field that is missing; nil if that is not known
}

// Read reads a JSON file of the model. One that is missing has no fields.
func Read(m *tensorfs.Model, name string) (Fields, error) {
	text, err := ReadText(m, name, MaxText)
	if err != nil || text == nil {
		return Fields{problem: new(error), file: name}, err
	}
	return ParseFields(name, text)
}

// ParseFields reads the text of a JSON file.
func ParseFields(name string, text []byte) (Fields, error) {
	s := Fields{problem: new(error), file: name}
	var err error
	if s.top, err = jsonobj.ParseFile(name, text); err != nil {
		return s, err
	}
	_, s.text = s.top.Inner(architectures.TextConfigs)
	return s, nil
}

// Top are the fields outside of the object about the language model too.
func (s Fields) Top() jsonobj.Object { return s.top }

// Value returns the first field that is present: a json.Number, string, bool,
// tensorfs.Array or, for objects, tensorfs.JSON. Names may be paths with dots. It is nil if
// all are missing.
func (s Fields) Value(names ...string) any {
	v, _ := s.find(names)
	return v
}

// find returns the first field that is present, and its name. Without one it is what the
// model's class takes for the first that has such a default, and "".
func (s Fields) find(names []string) (any, string) {
	var value any
	asked := names // until one is found
	for path, i := range architectures.FieldPaths(names, s.ropePathsFor(names), textScope, "") {
		if v, ok := s.lookup(path); ok {
			value, asked = v, names[:i+1]
			break
		}
	}
	name := ""
	for _, name = range asked {
		s.ask(name)
		if inner, ok := architectures.RopeMember(name); ok {
			s.Rope().ask(inner)
			name = inner
		}
	}
	if value != nil {
		return value, name
	}
	for _, name := range names {
		if v := s.missing(name); v != nil {
			return v, ""
		}
	}
	return nil, ""
}

// ropePathsFor returns ropePaths if a field is about rotary embeddings.
func (s Fields) ropePathsFor(names []string) []string {
	for _, name := range names {
		if _, ok := architectures.RopeMember(name); ok {
			return s.ropePaths()
		}
	}
	return nil
}

// lookup returns the value of a path, which may begin with textScope.
func (s Fields) lookup(path string) (any, bool) {
	if inside, ok := strings.CutPrefix(path, textScope); ok {
		return s.text.Lookup(inside)
	}
	return s.top.Lookup(path)
}

// missing returns the default of the model's class for a field that config.json lacks in
// every spelling, nil if that is not known.
func (s Fields) missing(name string) any {
	if s.usual == nil || s.null(name) {
		return nil
	}
	if f := architectures.FactOfField(name); f != nil {
		for _, other := range f.Fields {
			inner, _ := strings.CutPrefix(other, "rope.")
			if s.null(other) || s.text.Has(other) || s.top.Has(other) || inner != other && s.Rope().Value(inner) != nil {
				return nil
			}
		}
	}
	return s.usual(strings.TrimPrefix(name, "rope."))
}

func (s Fields) ask(name string) {
	if s.asked != nil {
		s.asked[name] = true
	}
}

// askedInside reports whether a member of an object was asked for.
func (s Fields) askedInside(name string) bool {
	for asked := range s.asked {
		if strings.HasPrefix(asked, name+".") {
			return true
		}
	}
	return false
}

// plain returns a field as expressions have values, nil without it. One that keys.txt
// has is of its kind.
func (s Fields) plain(name string) any {
	if isOfEach(name) {
		return s.each(name)
	}
	if f := architectures.FactOfField(name); f != nil && !f.List {
		if _, list := s.Value(name).(tensorfs.Array); !list {
			v, _ := s.fact(f, name)
			return v
		}
	}
	return plainValue(s.Value(name))
}

func plainValue(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := strconv.ParseInt(string(v), 10, 64); err == nil {
			return n
		}
		if x, ok := finite(v); ok {
			return x
		}
		return nil
	case string, bool:
		return v
	case tensorfs.Array:
		if v.Len() > maxList {
			return nil
		}
		list := []any{}
		for e := range v.Values() {
			list = append(list, plainValue(e))
		}
		return list
	}
	return nil
}

// fact returns the first field of config.json that a fact has, or one that is named,
// and its name. Without one the value is nil, and the name the first.
func (s Fields) fact(f *architectures.Fact, field string) (any, string) {
	fields := f.Fields
	if field != "" {
		fields = []string{field}
	}
	for _, field := range fields {
		v := plainValue(s.Value(field))
		if !f.List {
			v = s.of(f.Kind, field)
		}
		if v != nil {
			return v, strings.TrimPrefix(field, "rope.")
		}
	}
	return nil, strings.TrimPrefix(slices.Concat(fields, f.Keys[:1])[0], "rope.")
}

// of returns a field of a kind, nil without it.
func (s Fields) of(kind architectures.Kind, field string) any {
	var v any
	ok := false
	switch kind {
	case architectures.Real:
		v, ok = either(s.Number(field))
	case architectures.Flag:
		v, ok = either(s.Flag(field))
	case architectures.Text:
		w := s.Word(field)
		v, ok = w, w != ""
	default:
		v, ok = either(s.Integer(field))
	}
	if !ok {
		return nil
	}
	return v
}

// either makes a value of any type of one that has a type.
func either[T any](v T, ok bool) (any, bool) { return v, ok }

// null reports whether a field is there and null, which is not the same as a field
// left to its default.
func (s Fields) null(name string) bool {
	o := s.top
	if s.text.Raw(name).Kind() != 0 {
		o = s.text
	}
	return o.Raw(name).Kind() == 'n'
}

// Err returns the first problem with a field that was asked for.
func (s Fields) Err() error {
	if s.problem == nil {
		return nil
	}
	return *s.problem
}

// refuse notes a problem with a field. The first one counts.
func (s Fields) refuse(name, format string, args ...any) {
	if s.problem != nil && *s.problem == nil {
		*s.problem = &tensorfs.FormatError{File: s.file, Offset: -1,
			Problem: tensorfs.Quote(name) + " " + fmt.Sprintf(format, args...), Advice: "correct the field"}
	}
}

// typed returns the first field that is present, converted by convert; what describes the
// required type.
func typed[T any](s Fields, names []string, what string, convert func(v any) (T, bool)) (T, bool) {
	v, name := s.find(names)
	x, ok := convert(v)
	if v != nil && !ok && name != "" {
		s.refuse(name, "is %s, %s", Shown(v), what)
	}
	return x, ok
}

func as[T any](v any) (T, bool) { x, ok := v.(T); return x, ok }

// Integer returns a whole number, also one that is written as a float.
func (s Fields) Integer(names ...string) (int64, bool) {
	return typed(s, names, "not a whole number", jsonInteger)
}

// Number returns a finite number.
func (s Fields) Number(names ...string) (float64, bool) {
	return typed(s, names, "not a number", finite)
}

// Flag returns a bool.
func (s Fields) Flag(names ...string) (bool, bool) {
	return typed(s, names, "neither true nor false", as[bool])
}

// Word returns a string, "" without one.
func (s Fields) Word(names ...string) string {
	w, _ := typed(s, names, "not a text", as[string])
	return w
}

// Numbers returns a list of finite numbers, nil without one.
func (s Fields) Numbers(names ...string) []float64 { return listOf(s, names, "number", finite) }

// Words returns a list of strings, nil without one.
func (s Fields) Words(names ...string) []string { return listOf(s, names, "text", as[string]) }

// maxList bounds the lists in settings.
const maxList = 1 << 16

func listOf[T any](s Fields, names []string, what string, convert func(v any) (T, bool)) []T {
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

// Object returns the fields of an object in the settings, none without it.
// Problems with them are problems of the settings.
func (s Fields) Object(names ...string) Fields {
	sub := Fields{problem: s.problem, file: s.file}
	for _, name := range names {
		s.ask(name)
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

// jsonInteger returns a number of a JSON text if it has no fraction.
func jsonInteger(v any) (int64, bool) {
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
