package hf

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tensorfs/tensorfs"
	"golang.org/x/sys/unix"
)

// maxJSON bounds the JSON files of a model. The index of 90,000 tensors has 10 MB.
const maxJSON = 100 << 20

// object is a JSON object whose values are decoded when somebody asks. The
// zero value is an object without keys.
type object struct {
	keys   []string // unique, in the order of the text
	values map[string]jsontext.Value
}

// readObject reads a JSON file whose top is an object.
func readObject(path string) (object, error) {
	b, err := readSmall(path)
	if err != nil {
		return object{}, err
	}
	plain := plainJSON(b)
	o, err := parseObject(plain)
	if err != nil {
		fe := &tensorfs.FormatError{File: path, Offset: -1, Problem: "it is no JSON: " + err.Error()}
		if s, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
			fe.Problem = "it is no JSON: " + strings.TrimPrefix(s.Err.Error(), "jsontext: ")
			if len(plain) == len(b) {
				fe.Offset = s.ByteOffset
			}
		}
		return object{}, fe
	}
	return o, nil
}

// readSmall reads a regular file of at most maxJSON bytes. It never blocks on a
// FIFO.
func readSmall(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", tensorfs.Printable(path), reason(err))
	}
	defer f.Close()
	st, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !st.Mode().IsRegular():
		return nil, &tensorfs.FormatError{File: path, Offset: -1, Problem: "it is no regular file", Advice: "put the file itself there"}
	case st.Size() > maxJSON:
		return nil, &tensorfs.FormatError{File: path, Offset: -1, Problem: fmt.Sprintf("its %d bytes exceed the limit of %d for JSON files", st.Size(), maxJSON)}
	}
	b, err := io.ReadAll(io.LimitReader(f, maxJSON))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", tensorfs.Printable(path), err)
	}
	return b, nil
}

// specials are numbers that Python writes into JSON although JSON has none.
var specials = []string{"NaN", "-Infinity", "Infinity"}

// plainJSON puts quotes around the specials that stand outside strings.
func plainJSON(b []byte) []byte {
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

// parseObject parses the text of one object. Of a key that occurs twice the last
// value counts, as in Python.
func parseObject(b []byte) (object, error) {
	o := object{values: make(map[string]jsontext.Value)}
	d := jsontext.NewDecoder(bytes.NewBuffer(b), jsontext.AllowDuplicateNames(true))
	t, err := d.ReadToken()
	if err != nil {
		return o, eof(err)
	}
	if t.Kind() != '{' {
		return o, errors.New("its top value is not an object")
	}
	for d.PeekKind() != '}' {
		k, err := d.ReadValue()
		if err != nil {
			return o, eof(err)
		}
		key := unquote(k)
		v, err := d.ReadValue()
		if err != nil {
			return o, eof(err)
		}
		if _, ok := o.values[key]; !ok {
			o.keys = append(o.keys, key)
		}
		end := d.InputOffset() // the decoder's own slice is not ours to keep
		o.values[key] = b[end-int64(len(v)) : end]
	}
	if _, err := d.ReadToken(); err != nil {
		return o, eof(err)
	}
	if _, err := d.ReadToken(); err != io.EOF {
		return o, errors.New("something follows its object")
	}
	return o, nil
}

// eof rewords the end of a text that is cut off.
func eof(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the text is cut off")
	}
	return err
}

// unquote returns the string that a valid JSON string stands for.
func unquote(v jsontext.Value) string {
	b, _ := jsontext.AppendUnquote(nil, v)
	return string(b)
}

// object returns the object under a key; it has no keys where there is none.
func (o object) object(key string) object {
	v, ok := o.values[key]
	if !ok || v.Kind() != '{' {
		return object{}
	}
	sub, _ := parseObject(v) // a part of valid text
	return sub
}

// has reports whether a key is present with a value that is not null.
func (o object) has(key string) bool {
	v, ok := o.values[key]
	return ok && v.Kind() != 'n'
}

// isTrue reports whether a key is present and true.
func (o object) isTrue(key string) bool {
	v, ok := o.values[key]
	return ok && v.Kind() == 't'
}

// text returns the string under a key, "" without one.
func (o object) text(key string) string {
	if v, ok := o.values[key]; ok && v.Kind() == '"' {
		return unquote(v)
	}
	return ""
}

// integer returns the integer under a key; ok is false where there is none.
func (o object) integer(key string) (n int, ok bool) {
	v, ok := o.values[key]
	if !ok {
		return 0, false
	}
	return integer(v)
}

// integer accepts integers of a sane size, also as floats without a fraction.
func integer(v jsontext.Value) (int, bool) {
	if v.Kind() != '0' {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil || f != float64(int32(f)) {
		return 0, false
	}
	return int(f), true
}

// pair returns a list of two positive integers under a key.
func (o object) pair(key string) ([2]int, bool) {
	v, ok := o.values[key]
	if !ok || v.Kind() != '[' {
		return [2]int{}, false
	}
	var p [2]int
	n := 0
	for e := range list(v) {
		i, ok := integer(e)
		if !ok || i <= 0 || n == 2 {
			return [2]int{}, false
		}
		p[n] = i
		n++
	}
	if n != 2 {
		return [2]int{}, false
	}
	return p, true
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

// metaValue returns a JSON value as metadata has it: scalars native, the rest as
// text or list.
func metaValue(v jsontext.Value) any {
	if v.Kind() == '[' {
		a := array{text: v}
		for range list(v) {
			a.n++
		}
		return a
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

// array is a JSON array as metadata.
type array struct {
	text jsontext.Value
	n    int
}

// Len returns the number of elements.
func (a array) Len() int { return a.n }

// Values returns the elements; nested ones are JSON text.
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

// lookup finds a value by its path with dots, as package config asks for it.
// Numbers stay text, so that their precision is the reader's choice.
func (o object) lookup(path string) (any, bool) {
	key, rest, nested := strings.Cut(path, ".")
	if nested {
		return o.object(key).lookup(rest)
	}
	v, ok := o.values[key]
	if !ok || v.Kind() == 'n' {
		return nil, false
	}
	return decoded(v), true
}

func decoded(v jsontext.Value) any {
	switch v.Kind() {
	case '0':
		return json.Number(v)
	case '[':
		values := []any{}
		for e := range list(v) {
			values = append(values, decoded(e.Clone()))
		}
		return values
	}
	return scalar(v)
}
