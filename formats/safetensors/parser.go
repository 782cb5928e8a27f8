package safetensors

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/source"
)

// maxDepth is how deep the reference reader lets values nest, also in fields
// that it skips.
const maxDepth = 127

// parser reads a header token by token, directly from the mapping if there is
// one. Text that outlives the call is copied.
type parser struct {
	file     source.File
	dec      *jsontext.Decoder
	records  []record
	seen     map[string]struct{} // tensor names so far
	metadata [][2]string
	hasMeta  bool
	warnings []string
	arena    []int64  // shapes are cut from here
	dims     []uint64 // shape of the entry being read
}

// base is where the header starts in the file.
const base = 8

// at returns where the value that was just read starts in the file, given its
// length.
func (p *parser) at(length int) int64 { return base + p.dec.InputOffset() - int64(length) }

// header parses b, the whole header.
func (p *parser) header(b []byte) error {
	p.dec = jsontext.NewDecoder(bytes.NewBuffer(b), jsontext.AllowDuplicateNames(true))
	p.seen = make(map[string]struct{})
	if err := p.open('{', "", "the header"); err != nil {
		return err
	}
	for {
		name, at, more, err := p.key()
		if err != nil {
			return err
		}
		if !more {
			break
		}
		if name == "__metadata__" {
			err = p.meta(at)
		} else {
			err = p.entry(name, at)
		}
		if err != nil {
			return err
		}
	}
	if _, err := p.dec.ReadToken(); err != io.EOF {
		if err == nil {
			return p.fail(p.at(0), "", "something follows the header's JSON object")
		}
		return p.syntax(err)
	}
	return nil
}

// key reads the next name of an object; more is false at the object's end.
func (p *parser) key() (name string, at int64, more bool, err error) {
	if p.dec.PeekKind() == '}' {
		_, err = p.dec.ReadToken()
		return "", 0, false, err
	}
	v, err := p.dec.ReadValue()
	if err != nil {
		return "", 0, false, p.syntax(err)
	}
	return decodeString(v), p.at(len(v)), true, nil
}

// entry reads the record of a tensor.
func (p *parser) entry(name string, at int64) error {
	if _, dup := p.seen[name]; dup {
		return p.fail(at, name, "the name occurs twice")
	}
	p.seen[name] = struct{}{}
	if err := p.open('{', name, "the entry"); err != nil {
		return err
	}
	r := record{name: name, at: at}
	var hasType, hasShape, hasOffsets bool
	for {
		field, fat, more, err := p.key()
		if err != nil {
			return err
		}
		if !more {
			break
		}
		var has *bool
		switch field {
		case "dtype":
			has, err = &hasType, p.dtype(&r)
		case "shape":
			has = &hasShape
			p.dims, err = p.numbers(p.dims[:0], name, field)
		case "data_offsets":
			has, err = &hasOffsets, p.offsets(&r)
		default:
			err = p.skip(name)
		}
		if err != nil {
			return err
		}
		if has == nil {
			continue
		}
		if *has {
			return p.fail(fat, name, "its entry has %s twice", field)
		}
		*has = true
	}
	for _, f := range []struct {
		has  bool
		name string
	}{{hasType, "dtype"}, {hasShape, "shape"}, {hasOffsets, "data_offsets"}} {
		if !f.has {
			return p.fail(at, name, "its entry has no %s", f.name)
		}
	}
	var err error
	if r.size, err = p.size(at, name, r.dtype, p.dims); err != nil {
		return err
	}
	r.shape = p.shape(&r)
	p.records = append(p.records, r)
	return nil
}

// dtype reads the name of a type.
func (p *parser) dtype(r *record) error {
	s, at, err := p.string(r.name, "dtype")
	if err != nil {
		return err
	}
	t, ok := dtypes[s]
	if !ok {
		return p.fail(at, r.name, "dtype %s is not one of the format's types", tensorfs.Quote(s))
	}
	r.dtype = t
	return nil
}

// offsets reads data_offsets.
func (p *parser) offsets(r *record) error {
	var pair [2]uint64
	got, err := p.numbers(pair[:0:2], r.name, "data_offsets")
	if err != nil {
		return err
	}
	if len(got) != 2 {
		return p.fail(p.at(0), r.name, "data_offsets has length %d instead of 2", len(got))
	}
	r.begin, r.end = got[0], got[1]
	return nil
}

// numbers appends the entries of an array of plain non-negative integers.
func (p *parser) numbers(dst []uint64, name, field string) ([]uint64, error) {
	if err := p.open('[', name, field); err != nil {
		return dst, err
	}
	for {
		if p.dec.PeekKind() == ']' {
			_, err := p.dec.ReadToken()
			return dst, err
		}
		v, err := p.dec.ReadValue()
		if err != nil {
			return dst, p.syntax(err)
		}
		n, ok := natural(v)
		if !ok {
			return dst, p.fail(p.at(len(v)), name, "%s has the entry %s, which is not a plain integer from 0 to 2^64-1", field, tensorfs.Quote(string(v)))
		}
		dst = append(dst, n)
	}
}

// natural parses digits only: no sign, no fraction, no exponent. Leading zeros are not JSON.
func natural(v []byte) (uint64, bool) {
	if len(v) == 0 || len(v) > 20 {
		return 0, false
	}
	n := uint64(0)
	for _, c := range v {
		d := uint64(c - '0')
		if d > 9 || n > (1<<64-1-d)/10 {
			return 0, false
		}
		n = n*10 + d
	}
	return n, true
}

// shape returns the dimensions of r as signed integers. Dimensions of an empty
// tensor may be absurd and still legal; they mean nothing, so such a tensor is
// shown as [0].
func (p *parser) shape(r *record) []int64 {
	const least, most = 16, 4096 // chunks grow, as a file may have one tensor or thousands
	n := len(p.dims)
	if p.arena == nil || cap(p.arena)-len(p.arena) < n {
		p.arena = make([]int64, 0, max(n, min(2*cap(p.arena), most), least))
	}
	start := len(p.arena)
	fits := true
	for _, d := range p.dims {
		fits = fits && d < 1<<63
		p.arena = append(p.arena, int64(d))
	}
	shape := p.arena[start:len(p.arena):len(p.arena)]
	if fits {
		_, fits = tensorfs.Elements(shape)
	}
	if !fits {
		p.warnings = append(p.warnings, "tensor "+tensorfs.Quote(r.name)+": it has no elements and its shape "+shapeText(p.dims)+" exceeds 63 bits; it is shown as [0]")
		return []int64{0}
	}
	return shape
}

// meta reads "__metadata__".
func (p *parser) meta(at int64) error {
	if p.hasMeta {
		return p.fail(at, "", "__metadata__ occurs twice")
	}
	p.hasMeta = true
	if p.dec.PeekKind() == 'n' {
		_, err := p.dec.ReadToken()
		return p.syntax(err)
	}
	if err := p.open('{', "", "__metadata__"); err != nil {
		return err
	}
	place := make(map[string]int)
	for {
		key, _, more, err := p.key()
		if err != nil || !more {
			return err
		}
		value, _, err := p.string("", "a value of __metadata__")
		if err != nil {
			return err
		}
		i, ok := place[key]
		if !ok {
			i = len(p.metadata)
			place[key] = i
			p.metadata = append(p.metadata, [2]string{key})
		}
		p.metadata[i][1] = value // the last value wins, as in the reference
	}
}

// kinds names JSON values in messages.
var kinds = map[jsontext.Kind]string{
	'n': "null", 't': "true", 'f': "false", '"': "a string", '0': "a number", '{': "an object", '[': "an array",
}

// open reads the opening bracket of what.
func (p *parser) open(bracket jsontext.Kind, tensor, what string) error {
	t, err := p.dec.ReadToken()
	if err != nil {
		return p.syntax(err)
	}
	if k := t.Kind(); k != bracket {
		return p.fail(p.at(1), tensor, "%s is %s instead of %s", what, kinds[k], kinds[bracket])
	}
	return nil
}

// string reads a string.
func (p *parser) string(tensor, what string) (string, int64, error) {
	k := p.dec.PeekKind()
	if k != '"' && kinds[k] != "" {
		return "", 0, p.fail(p.at(0), tensor, "%s is %s instead of a string", what, kinds[k])
	}
	v, err := p.dec.ReadValue()
	if err != nil {
		return "", 0, p.syntax(err)
	}
	return decodeString(v), p.at(len(v)), nil
}

// skip skips a value of any kind, of limited depth.
func (p *parser) skip(tensor string) error {
	start := p.dec.StackDepth()
	for {
		if _, err := p.dec.ReadToken(); err != nil {
			return p.syntax(err)
		}
		depth := p.dec.StackDepth()
		if depth > maxDepth {
			return p.fail(p.at(1), tensor, "values nest deeper than %d levels", maxDepth)
		}
		if depth == start {
			return nil
		}
	}
}

// words are the strings that every entry repeats; sharing them costs no memory.
var words = func() map[string]string {
	m := map[string]string{"dtype": "dtype", "shape": "shape", "data_offsets": "data_offsets"}
	for name := range dtypes {
		m[name] = name
	}
	return m
}()

// decodeString returns the string that a JSON string represents.
func decodeString(v []byte) string {
	if len(v) >= 2 && bytes.IndexByte(v, '\\') < 0 {
		v = v[1 : len(v)-1]
		if w, ok := words[string(v)]; ok {
			return w
		}
		return string(v)
	}
	b, _ := jsontext.AppendUnquote(nil, v) // the decoder has checked v
	return string(b)
}

// syntax rewords an error of the JSON decoder; nil stays nil.
func (p *parser) syntax(err error) error {
	if err == nil {
		return nil
	}
	at := p.at(0)
	if s, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		at = base + s.ByteOffset
		err = s.Err
	}
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return p.fail(at, "", "the header is incomplete JSON")
	}
	return p.fail(at, "", "the header is not JSON: %s", strings.TrimPrefix(err.Error(), "jsontext: "))
}
