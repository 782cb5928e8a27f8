package jsonobj

import (
	"encoding/json"
	"iter"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tensorfs/tensorfs"
)

// Raw is a JSON value as written in a parsed text, without surrounding
// whitespace. The zero Raw represents no value.
type Raw struct{ text string }

// Kind returns what a value is: '{', '[', '"', '0' for numbers, 't', 'f' or 'n';
// 0 for no value.
func (r Raw) Kind() byte {
	switch {
	case r.text == "":
		return 0
	case r.text[0] == '-' || r.text[0] >= '0' && r.text[0] <= '9':
		return '0'
	}
	return r.text[0]
}

// String returns the text of the value.
func (r Raw) String() string { return r.text }

// Text returns the value if it is a string, otherwise "".
func (r Raw) Text() string {
	if r.Kind() != '"' {
		return ""
	}
	return unquote(r.text)
}

// Int returns the value if it is a number that is a 32-bit integer, even one written as a float.
func (r Raw) Int() (int, bool) {
	if r.Kind() != '0' || len(r.text) > maxNumber {
		return 0, false
	}
	f, err := strconv.ParseFloat(r.text, 64)
	if err != nil || f != float64(int32(f)) {
		return 0, false
	}
	return int(f), true
}

// Elements returns the elements of an array, and none for any other value.
func (r Raw) Elements() iter.Seq[Raw] {
	return func(yield func(Raw) bool) {
		if r.Kind() != '[' {
			return
		}
		for e := range elements(r.text) {
			if !yield(Raw{e}) {
				return
			}
		}
	}
}

// Members returns the keys and values of an object in the order of the text, each
// one of a repeated key too; none for any other value.
func (r Raw) Members() iter.Seq2[string, Raw] {
	return func(yield func(string, Raw) bool) {
		if r.Kind() != '{' {
			return
		}
		for e := range members(r.text) {
			if !yield(e.keyOf(r.text), Raw{r.text[e.value:e.valueEnd]}) {
				return
			}
		}
	}
}

// Member returns a member of an object without making an [Object], for objects with few
// members of interest.
func (r Raw) Member(key string) Raw {
	found := Raw{}
	if r.Kind() != '{' {
		return found
	}
	for e := range members(r.text) {
		if e.hasKey(r.text, key) {
			found = Raw{r.text[e.value:e.valueEnd]}
		}
	}
	return found
}

// Object returns the value as an object, without keys if it is not one.
func (r Raw) Object() Object {
	if r.Kind() != '{' {
		return Object{}
	}
	return newObject(r.text)
}

// unquote returns the string that a JSON string encodes: a part of its text, if nothing is escaped.
func unquote(s string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s[1 : len(s)-1]
	}
	b, _ := jsontext.AppendUnquote(nil, s)
	return string(b)
}

// maxNumber is more than the length of any number that a program writes.
const maxNumber = 1 << 10

// scalar returns strings, booleans and numbers natively and all else as compact
// text, including numbers that no native type holds.
func scalar(r Raw) any {
	switch s := r.text; r.Kind() {
	case '"':
		return unquote(s)
	case 't', 'f':
		return r.Kind() == 't'
	case '0':
		if len(s) > maxNumber {
			break
		}
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
	return tensorfs.JSON(compact(r.text))
}

// decoded is scalar with numbers as they are written.
func decoded(r Raw) any {
	if r.Kind() == '0' {
		return json.Number(r.text)
	}
	return scalar(r)
}

// array is a JSON array whose elements are decoded when they are read.
type array struct {
	text   string
	n      int
	decode func(Raw) any
}

func newArray(text string, decode func(Raw) any) array {
	a := array{text, 0, decode}
	for range elements(text) {
		a.n++
	}
	return a
}

// Len returns the number of elements.
func (a array) Len() int { return a.n }

// Values returns the elements; nested arrays and objects are text.
func (a array) Values() iter.Seq[any] {
	return func(yield func(any) bool) {
		for e := range elements(a.text) {
			if !yield(a.decode(Raw{e})) {
				return
			}
		}
	}
}

var _ tensorfs.Array = array{}
