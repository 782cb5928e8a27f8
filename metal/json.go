package metal

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Most that is read of texts, which strangers may have written, for the memory that
// it takes. The index of a model with 50,000 tensors has a tenth of it.
const (
	maxText  = 1 << 30  // bytes of a text
	maxNames = 8 << 20  // names in it of which the places are kept
	maxValue = 64 << 20 // bytes of a value that is decoded
)

var errNames = fmt.Errorf("more than %d names", maxNames)

// textFile is a JSON file of which only the places of values are kept. It stays
// open, and a value is read when it is asked for.
type textFile struct{ *os.File }

// object is where the values of an object are.
type object struct {
	names []string // sorted
	spans []span   // of the value of each name
}

// span is a part of a file.
type span struct{ off, n int64 }

// find returns where the value of a name is.
func (o *object) find(name string) (span, bool) {
	i, ok := slices.BinarySearch(o.names, name)
	if !ok {
		return span{}, false
	}
	return o.spans[i], true
}

// read gives the text to fn, piece by piece.
func (t textFile) read(fn func(d *jsontext.Decoder) error) error {
	st, err := t.Stat()
	if err != nil {
		return err
	}
	if st.Size() > maxText {
		return fmt.Errorf("%d bytes, and at most %d are read", st.Size(), int64(maxText))
	}
	// Duplicates are found when the names are sorted, for less memory than the
	// decoder's own check takes.
	d := jsontext.NewDecoder(bufio.NewReaderSize(io.NewSectionReader(t, 0, st.Size()), 1<<20), jsontext.AllowDuplicateNames(true))
	if err := fn(d); err != nil {
		return fmt.Errorf("at byte %d: %w", d.InputOffset(), err)
	}
	if _, err := d.ReadToken(); err != io.EOF {
		return fmt.Errorf("at byte %d: text after the end", d.InputOffset())
	}
	return nil
}

// value returns the text of a value.
func (t textFile) value(s span) ([]byte, error) {
	if err := checkValue(s.n); err != nil {
		return nil, err
	}
	b := make([]byte, s.n)
	_, err := io.ReadFull(io.NewSectionReader(t, s.off, s.n), b)
	return b, err
}

func checkValue(n int64) error {
	if n > maxValue {
		return fmt.Errorf("a value has %d bytes, and at most %d are read", n, maxValue)
	}
	return nil
}

// members calls fn with the name of each member of an object; fn reads its value.
func members(d *jsontext.Decoder, fn func(name string) error) error {
	t, err := d.ReadToken()
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err == nil && t.Kind() != '{' {
		err = fmt.Errorf("%s where { was expected", t.Kind())
	}
	for err == nil && d.PeekKind() != '}' {
		if t, err = d.ReadToken(); err == nil {
			err = fn(t.String())
		}
	}
	if err == nil {
		_, err = d.ReadToken()
	}
	return err
}

// readObject returns where the values of an object are. left is how many names may
// still be read.
func readObject(d *jsontext.Decoder, left *int) (*object, error) {
	type member struct {
		name string
		span
	}
	var all []member
	err := members(d, func(name string) error {
		if *left--; *left < 0 {
			return errNames
		}
		v, err := d.ReadValue()
		all = append(all, member{name, span{d.InputOffset() - int64(len(v)), int64(len(v))}})
		return err
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b member) int { return strings.Compare(a.name, b.name) })
	o := &object{make([]string, len(all)), make([]span, len(all))}
	for i, m := range all {
		if i > 0 && m.name == all[i-1].name {
			return nil, fmt.Errorf("%q is there twice", m.name)
		}
		o.names[i], o.spans[i] = m.name, m.span
	}
	return o, nil
}
