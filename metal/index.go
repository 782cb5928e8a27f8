package metal

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// indexVersion is the version of index.json that this package reads.
const indexVersion = 1

// index is index.json, compactly: a model of 50,000 tensors has 400,000
// entries, so what repeats (names, types, shapes, sections) is kept once.
type index struct {
	model  ModelInfo
	views  []view // sorted by name
	files  []string
	dtypes []string
	shapes [][]int64
	layout []layout
}

// view is one view of the tree.
type view struct {
	name    string
	entries []entry  // sorted by name
	absent  []absent // sorted by name
}

// entry is one tensor of one view.
type entry struct {
	name   string
	bytes  int64
	offset int64 // in file
	file   int32 // place in index.files; -1 where no single file holds the bytes
	dtype  int32 // place in index.dtypes
	shape  int32 // place in index.shapes
	layout int32 // place in index.layout
}

// layout is what an engine must know beyond dtype and shape. The zero value
// belongs to tensors that are one section.
type layout struct {
	sections []Section
	quant    *Quant
	engine   int // -1 without one
}

type absent struct{ name, reason string }

// view returns the named view, or nil.
func (x *index) view(name string) *view {
	i, ok := slices.BinarySearchFunc(x.views, name, func(v view, name string) int { return strings.Compare(v.name, name) })
	if !ok {
		return nil
	}
	return &x.views[i]
}

// entry returns the named tensor, or nil.
func (v *view) entry(name string) *entry {
	i, ok := slices.BinarySearchFunc(v.entries, name, func(e entry, name string) int { return strings.Compare(e.name, name) })
	if !ok {
		return nil
	}
	return &v.entries[i]
}

// reason returns why the view leaves a tensor out; false where it says nothing.
func (v *view) reason(name string) (string, bool) {
	i, ok := slices.BinarySearchFunc(v.absent, name, func(a absent, name string) int { return strings.Compare(a.name, name) })
	if !ok {
		return "", false
	}
	return v.absent[i].reason, true
}

// table holds distinct values, by the text that stands for them.
type table[T any] struct {
	values []T
	places map[string]int32
}

// add returns the place of the value that text stands for; parse is called the
// first time.
func (t *table[T]) add(text []byte, parse func([]byte) (T, error)) (int32, error) {
	if i, ok := t.places[string(text)]; ok {
		return i, nil
	}
	v, err := parse(text)
	if err != nil {
		return 0, err
	}
	if t.places == nil {
		t.places = map[string]int32{}
	}
	i := int32(len(t.values))
	t.values = append(t.values, v)
	t.places[string(text)] = i
	return i, nil
}

// indexReader decodes index.json as it streams by.
type indexReader struct {
	d       *jsontext.Decoder
	strings table[string]
	files   table[string]
	dtypes  table[string]
	shapes  table[[]int64]
	layout  table[layout]
	views   map[string]*view
	scratch []byte
	runs    []extent
}

// readIndex decodes index.json. Fields that it does not know are skipped.
func readIndex(r io.Reader) (*index, error) {
	// Duplicates are found when the names are sorted, for less memory than the
	// decoder's own check takes.
	p := &indexReader{d: jsontext.NewDecoder(r, jsontext.AllowDuplicateNames(true)), views: map[string]*view{}}
	x, err := p.read()
	if err != nil {
		return nil, fmt.Errorf("at byte %d: %w", p.d.InputOffset(), err)
	}
	return x, nil
}

func (p *indexReader) read() (*index, error) {
	x := &index{}
	version := int64(-1)
	err := p.object(func(key string) (err error) {
		switch key {
		case "version":
			if version, err = p.int(); err == nil && version != indexVersion {
				err = fmt.Errorf("version %d, and only version %d is known; mount and load with the same release of tensorfs", version, indexVersion)
			}
		case "model":
			x.model, err = p.model()
		case "views":
			err = p.object(func(name string) error { return p.object(p.entryOf(name)) })
		case "absent":
			err = p.object(func(name string) error { return p.object(p.absentOf(name)) })
		default:
			err = p.d.SkipValue()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if _, err := p.d.ReadToken(); err != io.EOF {
		return nil, fmt.Errorf("text after the end of the index")
	}
	if version < 0 {
		return nil, fmt.Errorf("no version: this is not an index of a tensorfs tree")
	}
	for _, v := range p.views {
		slices.SortFunc(v.entries, func(a, b entry) int { return strings.Compare(a.name, b.name) })
		slices.SortFunc(v.absent, func(a, b absent) int { return strings.Compare(a.name, b.name) })
		for i := 1; i < len(v.entries); i++ {
			if v.entries[i].name == v.entries[i-1].name {
				return nil, fmt.Errorf("view %q: %q is in it twice", v.name, v.entries[i].name)
			}
		}
		v.entries, v.absent = slices.Clip(v.entries), slices.Clip(v.absent)
		x.views = append(x.views, *v)
	}
	slices.SortFunc(x.views, func(a, b view) int { return strings.Compare(a.name, b.name) })
	x.files, x.dtypes, x.shapes, x.layout = p.files.values, p.dtypes.values, p.shapes.values, p.layout.values
	return x, nil
}

// model reads what the tree says about the model. A path that is no UTF-8 is no
// string there, and stays empty here.
func (p *indexReader) model() (ModelInfo, error) {
	var m ModelInfo
	fields := map[string]*string{"format": &m.Format, "path": &m.Path, "architecture": &m.Architecture, "layout": &m.Layout}
	err := p.object(func(key string) error {
		if fields[key] == nil || p.d.PeekKind() != '"' {
			return p.d.SkipValue()
		}
		t, err := p.d.ReadToken()
		if err == nil {
			*fields[key] = t.String()
		}
		return err
	})
	return m, err
}

// view returns the view of that name, made on first sight.
func (p *indexReader) view(name string) *view {
	v := p.views[name]
	if v == nil {
		v = &view{name: name}
		p.views[name] = v
	}
	return v
}

// entryOf returns what reads the entries of a view.
func (p *indexReader) entryOf(name string) func(string) error {
	v := p.view(name)
	return func(key string) error {
		e, err := p.entry(key)
		if err != nil {
			return fmt.Errorf("%q of view %q: %w", key, name, err)
		}
		v.entries = append(v.entries, e)
		return nil
	}
}

// absentOf returns what reads the reasons of a view.
func (p *indexReader) absentOf(name string) func(string) error {
	v := p.view(name)
	return func(key string) error {
		reason, err := p.string(&p.strings)
		if err != nil {
			return fmt.Errorf("%q of view %q: %w", key, name, err)
		}
		v.absent = append(v.absent, absent{key, p.strings.values[reason]})
		return nil
	}
}

// entry reads one tensor.
func (p *indexReader) entry(name string) (entry, error) {
	e := entry{name: name, bytes: -1, file: -1, dtype: -1, shape: -1}
	var extents []extent
	p.scratch = p.scratch[:0]
	err := p.object(func(key string) (err error) {
		switch key {
		case "dtype":
			e.dtype, err = p.string(&p.dtypes)
		case "shape":
			e.shape, err = p.shape()
		case "bytes":
			e.bytes, err = p.int()
		case "extents":
			extents, err = p.extents()
		case "sections", "quant", "engine_dtype":
			// Joined to one text, which repeats from layer to layer and is
			// decoded once.
			var v jsontext.Value
			if v, err = p.d.ReadValue(); err == nil {
				p.scratch = append(append(append(p.scratch, `,"`...), key...), `":`...)
				p.scratch = append(p.scratch, v...)
			}
		default:
			err = p.d.SkipValue()
		}
		return err
	})
	switch {
	case err != nil:
		return e, err
	case e.bytes < 0 || e.dtype < 0 || e.shape < 0:
		return e, fmt.Errorf("dtype, shape or bytes are missing")
	}
	if len(extents) == 1 && extents[0].bytes == e.bytes {
		e.file, e.offset = extents[0].file, extents[0].offset
	}
	e.layout, err = p.layout.add(p.scratch, parseLayout)
	if err != nil {
		return e, err
	}
	for _, s := range p.layout.values[e.layout].sections {
		if s.Offset < 0 || s.Bytes < 0 || s.Offset > e.bytes || s.Bytes > e.bytes-s.Offset {
			return e, fmt.Errorf("section %q: %d bytes at %d, of %d", s.Name, s.Bytes, s.Offset, e.bytes)
		}
	}
	return e, nil
}

// parseLayout decodes the fields that entry joined, each with a comma before it.
func parseLayout(b []byte) (layout, error) {
	l := layout{engine: -1}
	if len(b) == 0 {
		return l, nil
	}
	var v struct {
		Sections []Section `json:"sections"`
		Quant    *Quant    `json:"quant"`
		Engine   *int      `json:"engine_dtype"`
	}
	text := append([]byte{'{'}, b[1:]...)
	if err := json.Unmarshal(append(text, '}'), &v); err != nil {
		return l, err
	}
	l.sections, l.quant = v.Sections, v.Quant
	if v.Engine != nil {
		l.engine = *v.Engine
	}
	return l, nil
}

// extent is a run of bytes of a file.
type extent struct {
	file          int32
	offset, bytes int64
}

// extents reads where the bytes of an entry stand. Of more than one extent only
// their being several matters.
func (p *indexReader) extents() ([]extent, error) {
	all := p.runs[:0]
	err := p.array(func() error {
		x := extent{-1, -1, -1}
		err := p.object(func(key string) (err error) {
			switch key {
			case "file":
				x.file, err = p.string(&p.files)
			case "offset":
				x.offset, err = p.int()
			case "bytes":
				x.bytes, err = p.int()
			default:
				err = p.d.SkipValue()
			}
			return err
		})
		if err == nil && (x.file < 0 || x.offset < 0 || x.bytes < 0 || x.offset > math.MaxInt64-x.bytes) {
			err = fmt.Errorf("an extent is not a range of a file")
		}
		if len(all) < 2 {
			all = append(all, x)
		}
		return err
	})
	p.runs = all
	return all, err
}

// object calls field with the key of every member; field reads its value.
func (p *indexReader) object(field func(key string) error) error {
	if err := p.open('{'); err != nil {
		return err
	}
	for p.d.PeekKind() != '}' {
		i, err := p.string(&p.strings)
		if err != nil {
			return err
		}
		if err := field(p.strings.values[i]); err != nil {
			return err
		}
	}
	_, err := p.d.ReadToken()
	return err
}

// array calls item before every item; item reads it.
func (p *indexReader) array(item func() error) error {
	if err := p.open('['); err != nil {
		return err
	}
	for p.d.PeekKind() != ']' {
		if err := item(); err != nil {
			return err
		}
	}
	_, err := p.d.ReadToken()
	return err
}

// open reads the start of an object or array.
func (p *indexReader) open(kind jsontext.Kind) error {
	t, err := p.d.ReadToken()
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err == nil && t.Kind() != kind {
		err = fmt.Errorf("%s where %s was expected", t.Kind(), kind)
	}
	return err
}

// string reads a string into t.
func (p *indexReader) string(t *table[string]) (int32, error) {
	v, err := p.d.ReadValue()
	if err != nil {
		return 0, err
	}
	if v.Kind() != '"' {
		return 0, fmt.Errorf("%s where a string was expected", v.Kind())
	}
	return t.add(v, func(b []byte) (string, error) {
		s, err := jsontext.AppendUnquote(nil, b)
		return string(s), err
	})
}

// shape reads a shape.
func (p *indexReader) shape() (int32, error) {
	v, err := p.d.ReadValue()
	if err != nil {
		return 0, err
	}
	return p.shapes.add(v, func(b []byte) ([]int64, error) {
		var shape []int64
		if err := json.Unmarshal(b, &shape); err != nil {
			return nil, err
		}
		for _, d := range shape {
			if d < 0 {
				return nil, fmt.Errorf("shape %s", b)
			}
		}
		return shape, nil
	})
}

// int reads a whole number of at most 63 bits.
func (p *indexReader) int() (int64, error) {
	v, err := p.d.ReadValue()
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%s where a size was expected", v)
	}
	return n, nil
}
