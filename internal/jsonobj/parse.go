package jsonobj

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tensorfs/tensorfs"
)

// MaxKeys bounds the keys at the top of a text, which metadata shows as a file
// each. Models have a few hundred; objects inside may have any number.
const MaxKeys = 1 << 14

// maxText bounds a text, so that places in it have 32 bits.
const maxText = 1 << 30

// SyntaxError explains why a text is not one JSON object.
type SyntaxError struct {
	Problem string // one line
	Offset  int64  // byte in the text; negative if the problem is not at one byte
	Advice  string // what to do; "" unless the text is whole
}

// Error returns the problem.
func (e *SyntaxError) Error() string { return e.Problem }

// Parse parses a text that is one object with at most [MaxKeys] keys. Its error
// is a [*SyntaxError].
func Parse(text []byte) (Object, error) {
	r, err := ParseRaw(text)
	o := r.Object()
	if n := o.Len(); n > MaxKeys {
		return Object{}, &SyntaxError{fmt.Sprintf("it has %d keys, and descriptions of models have at most %d", n, MaxKeys), -1, ""}
	}
	return o, err
}

// ParseFile is Parse for the text of a file, which its error names.
func ParseFile(file string, text []byte) (Object, error) {
	o, err := Parse(text)
	if s, ok := err.(*SyntaxError); ok {
		err = &tensorfs.FormatError{File: file, Offset: s.Offset, Problem: s.Problem, Advice: s.Advice}
	}
	return o, err
}

// ParseRaw parses a text that is one object, with any number of keys, and locates
// none of them. Its error is a [*SyntaxError].
func ParseRaw(text []byte) (Raw, error) {
	if len(text) > maxText {
		return Raw{}, &SyntaxError{fmt.Sprintf("its %d bytes are too many for JSON that describes a model", len(text)), -1, ""}
	}
	err := check(text)
	if err != nil {
		clean := plain(text)
		if len(clean) == len(text) {
			return Raw{}, err
		}
		if text, err = clean, check(clean); err != nil {
			err.Offset = -1
			return Raw{}, err
		}
	}
	return Raw{string(bytes.Trim(text, space))}, nil
}

// marks are the byte order marks that editors write, which no reader of models takes.
var marks = map[string]string{"\xef\xbb\xbf": "UTF-8", "\xff\xfe": "UTF-16", "\xfe\xff": "UTF-16"}

// check returns an error unless a text is one object. Everything else in this package relies on it.
func check(text []byte) *SyntaxError {
	if len(bytes.TrimLeft(text, space)) == 0 {
		return &SyntaxError{"it is not JSON: the text is empty", -1, ""}
	}
	for mark, kind := range marks {
		if bytes.HasPrefix(text, []byte(mark)) {
			return &SyntaxError{"it is not JSON: it begins with the byte order mark of " + kind, -1, "save it as UTF-8 without a byte order mark"}
		}
	}
	d := jsontext.NewDecoder(bytes.NewBuffer(text), jsontext.AllowDuplicateNames(true))
	v, err := d.ReadValue()
	if err != nil {
		return reword(err)
	}
	if v.Kind() != '{' {
		return &SyntaxError{"its top value is not an object", -1, ""}
	}
	end := d.InputOffset()
	if len(bytes.TrimLeft(text[end:], space)) > 0 {
		return &SyntaxError{"something follows its JSON object", end, ""}
	}
	return nil
}

// reword turns an error of the decoder into one line.
func reword(err error) *SyntaxError {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return &SyntaxError{"it is not JSON: the text is cut off", -1, ""}
	}
	if s, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return &SyntaxError{"it is not JSON: " + strings.TrimPrefix(s.Err.Error(), "jsontext: "), s.ByteOffset, ""}
	}
	return &SyntaxError{"it is not JSON: " + err.Error(), -1, ""}
}

// specials are numbers that Python writes into JSON although JSON has none.
var specials = []string{"NaN", "-Infinity", "Infinity"}

// plain puts quotes around the specials that are outside strings.
func plain(b []byte) []byte {
	n := bytes.Count(b, []byte("NaN")) + bytes.Count(b, []byte("Infinity"))
	if n == 0 {
		return b
	}
	out := make([]byte, 0, len(b)+n*len(`""`))
	quoted := false
next:
	for i := 0; i < len(b); i++ {
		if !quoted {
			for _, s := range specials {
				if b[i] == s[0] && bytes.HasPrefix(b[i:], []byte(s)) {
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
