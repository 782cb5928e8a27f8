package jsonobj

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tensorfs/tensorfs"
)

// Object is a JSON object, for one goroutine. The zero value has no keys.
type Object struct {
	keys   []string // unique, in the order of the text
	values map[string]jsontext.Value
	parsed map[string]Object // objects under keys that somebody asked for
}

// Parse parses a text that is one object. The object refers to the text.
func Parse(text []byte) (Object, error) { return parse(plain(text)) }

func parse(text []byte) (Object, error) {
	o := Object{values: make(map[string]jsontext.Value), parsed: make(map[string]Object)}
	d := jsontext.NewDecoder(bytes.NewBuffer(text), jsontext.AllowDuplicateNames(true))
	t, err := d.ReadToken()
	if err != nil {
		return o, reword(err)
	}
	if t.Kind() != '{' {
		return o, errors.New("it is no JSON object")
	}
	for d.PeekKind() != '}' {
		k, err := d.ReadValue()
		if err != nil {
			return o, reword(err)
		}
		key := unquote(k)
		v, err := d.ReadValue()
		if err != nil {
			return o, reword(err)
		}
		if _, ok := o.values[key]; !ok {
			o.keys = append(o.keys, key)
		}
		end := d.InputOffset() // the decoder's own slice is not ours to keep
		o.values[key] = text[end-int64(len(v)) : end]
	}
	if _, err := d.ReadToken(); err != nil {
		return o, reword(err)
	}
	if _, err := d.ReadToken(); err != io.EOF {
		return o, errors.New("something follows its JSON object")
	}
	return o, nil
}

// reword makes one line of an error of the decoder.
func reword(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("its JSON text is cut off")
	}
	var s *jsontext.SyntacticError
	if errors.As(err, &s) {
		return errors.New("it is no JSON: " + strings.TrimPrefix(s.Err.Error(), "jsontext: "))
	}
	return err
}

// specials are numbers that Python writes into JSON although JSON has none.
var specials = []string{"NaN", "-Infinity", "Infinity"}

// plain puts quotes around the specials that stand outside strings.
func plain(b []byte) []byte {
	if !bytes.Contains(b, []byte("NaN")) && !bytes.Contains(b, []byte("Infinity")) {
		return b
	}
	out := make([]byte, 0, len(b)+64)
	quoted := false
next:
	for i := 0; i < len(b); i++ {
		if !quoted {
			for _, s := range specials {
				if bytes.HasPrefix(b[i:], []byte(s)) {
					out = append(append(append(out, '"'), s...), '"')
					i += len(s) - 1
					continue next
				}
			}
		}
		out = append(out, b[i])
		switch {
		case b[i] == '"':
			quoted = !quoted
		case b[i] == '\\' && quoted && i+1 < len(b):
			i++
			out = append(out, b[i])
		}
	}
	return out
}

// unquote returns the string that a valid JSON string stands for.
func unquote(v jsontext.Value) string {
	b, _ := jsontext.AppendUnquote(nil, v)
	return string(b)
}

// Keys returns the keys in the order of the text.
func (o Object) Keys() []string { return o.keys }

// Value returns the value under a key, decoded as [Object.Lookup] does; nil
// without one and for null.
func (o Object) Value(key string) any {
	v, ok := o.values[key]
	if !ok || v.Kind() == 'n' {
		return nil
	}
	if v.Kind() != '[' {
		return decoded(v)
	}
	values := []any{}
	for e := range list(v) {
		values = append(values, decoded(e))
	}
	return values
}

// Object returns the object under a key; it has no keys where there is none.
func (o Object) Object(key string) Object {
	v, ok := o.values[key]
	if !ok || v.Kind() != '{' {
		return Object{}
	}
	sub, ok := o.parsed[key]
	if !ok {
		sub, _ = parse(v) // a part of valid text
		o.parsed[key] = sub
	}
	return sub
}

// Lookup returns a value by its path with dots. Numbers are json.Number, arrays
// []any, and objects and arrays inside of arrays their compact text; null is as
// if absent.
func (o Object) Lookup(path string) (any, bool) {
	key, rest, nested := strings.Cut(path, ".")
	if nested {
		return o.Object(key).Lookup(rest)
	}
	v := o.Value(key)
	return v, v != nil
}

// Meta appends the object's entries as metadata, their keys behind prefix:
// scalars as what they are, arrays as [tensorfs.Array], objects as text.
func (o Object) Meta(dst []tensorfs.Meta, prefix string) []tensorfs.Meta {
	for _, k := range o.keys {
		v := o.values[k]
		var value any
		if v.Kind() == '[' {
			a := array{text: v}
			for range list(v) {
				a.n++
			}
			value = a
		} else {
			value = scalar(v)
		}
		dst = append(dst, tensorfs.Meta{Key: prefix + k, Value: value})
	}
	return dst
}

// decoded is scalar with numbers as they are written.
func decoded(v jsontext.Value) any {
	if v.Kind() == '0' {
		return json.Number(v)
	}
	return scalar(v)
}

// scalar returns strings, booleans and numbers natively and all else as compact
// text. So are numbers that no native type holds.
func scalar(v jsontext.Value) any {
	switch v.Kind() {
	case '"':
		return unquote(v)
	case 't', 'f':
		return v.Kind() == 't'
	case '0':
		s := string(v)
		if n, err := strconv.ParseInt(s, 10, 64); err == nil && s != "-0" {
			return n
		}
		if n, err := strconv.ParseUint(s, 10, 64); err == nil {
			return n
		}
		if f, err := strconv.ParseFloat(s, 64); err == nil && strings.ContainsAny(s, ".eE") {
			return f
		}
	}
	c := v.Clone()
	if err := c.Compact(); err != nil {
		return tensorfs.JSON("null") // cannot be: a part of valid text
	}
	return tensorfs.JSON(c)
}

// list returns the elements of a valid JSON array.
func list(v jsontext.Value) iter.Seq[jsontext.Value] {
	return func(yield func(jsontext.Value) bool) {
		d := jsontext.NewDecoder(bytes.NewBuffer(v), jsontext.AllowDuplicateNames(true))
		if _, err := d.ReadToken(); err != nil {
			return
		}
		for d.PeekKind() != ']' {
			e, err := d.ReadValue()
			if err != nil || !yield(e) {
				return
			}
		}
	}
}

// array is a JSON array as metadata; nested arrays and objects are text.
type array struct {
	text jsontext.Value
	n    int
}

// Len returns the number of elements.
func (a array) Len() int { return a.n }

// Values returns the elements.
func (a array) Values() iter.Seq[any] {
	return func(yield func(any) bool) {
		for v := range list(a.text) {
			if !yield(scalar(v)) {
				return
			}
		}
	}
}

var _ tensorfs.Array = array{}
