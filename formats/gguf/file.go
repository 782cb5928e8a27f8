package gguf

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/config"
	"github.com/tensorfs/tensorfs/internal/source"
)

// File is the content of one GGUF file, before tensors get canonical names.
type File struct {
	Version   int
	BigEndian bool
	Alignment int64 // of the tensor data
	Metadata  []tensorfs.Meta
	Tensors   []tensorfs.Tensor // in the order of the file; Source is set, Name is empty
	Offsets   []int64           // where the bytes of each tensor begin in the file

	file  source.File
	keys  map[string]int      // to Metadata
	names map[string]struct{} // of the tensors
}

// keyAlignment is the key of the alignment of the data.
const keyAlignment = "general.alignment"

// maxDimensions is the maximum number of a tensor's dimensions. ggml has four, but files of
// video models have five, and the format sets no limit. NumPy's limit is 32 or more.
const maxDimensions = 32

// maxName is the maximum length of a key or a tensor's name, in bytes.
const maxName = 65535

// Value returns the metadata value of a key, or nil.
func (f *File) Value(key string) any {
	if i, ok := f.keys[key]; ok {
		return f.Metadata[i].Value
	}
	return nil
}

// Lookup is [File.Value] for package config.
func (f *File) Lookup(key string) (any, bool) {
	v := f.Value(key)
	return v, v != nil
}

// Architecture returns general.architecture, "unknown" where it names none.
func (f *File) Architecture() string {
	if s, ok := f.Value("general.architecture").(string); ok && s != "" && len(s) <= config.MaxArchitecture {
		return s
	}
	return "unknown"
}

// info is the part of a tensor info that only the layout needs.
type info struct {
	typ    uint32
	offset uint64
	at     int64 // where the info is in the file
}

// Parse reads a file up to its tensor data and checks it. A *bytes.Reader is Data. Parse
// does not own data: the caller closes it, if that is needed, once the File is no longer
// used. One shard of a set is parsed
// like a whole model: see [File.Shards].
func Parse(data tensorfs.Data) (*File, error) {
	m := source.AsFile(data, "model.gguf")
	c := newCursor(m, 0, min(m.Size(), maxHeader))
	f := &File{file: m, Alignment: 32}
	if err := checkMagic(m, c.next(int(min(m.Size(), int64(len(magic)))))); err != nil {
		if c.err != nil {
			return nil, c.err
		}
		return nil, err
	}
	f.readVersion(c)
	infoSize := 4 + 4 + 8 + c.lengthSize()
	tensors := c.count("tensors", infoSize)
	entries := c.count("metadata entries", 1+4+1+c.lengthSize())
	f.readMetadata(c, entries)
	infos := f.readInfos(c, tensors)
	if c.err != nil {
		return nil, c.err
	}
	if len(infos) > 0 {
		if err := f.lay(c.pos, infos); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// readVersion reads the version and sets up the cursor for it. The word is
// little-endian unless that makes its low half zero: no version is that large.
func (f *File) readVersion(c *cursor) {
	at := c.pos
	b := c.next(4)
	if b == nil {
		return
	}
	v := binary.LittleEndian.Uint32(b)
	if v != 0 && v&0xffff == 0 {
		v = binary.BigEndian.Uint32(b)
		f.BigEndian, c.big = true, true
		if v != 3 {
			c.fail(at, "it is big-endian GGUF of version %d, but only version 3 can be big-endian", v)
			return
		}
	}
	if v < 1 || v > 3 {
		c.fail(at, "GGUF version %d is not known: 1, 2 and 3 are", v)
		if e, ok := c.err.(*tensorfs.FormatError); ok && v > 3 {
			e.Kind, e.Advice = tensorfs.ErrUnsupported, "the file is damaged, or newer than this program: fetch it again or update tensorfs"
		}
		return
	}
	f.Version, c.narrow = int(v), v == 1
}

// readName reads a key or a tensor's name. C programs end it at a NUL, so a NUL
// inside it would give two readers two names.
func (c *cursor) readName() string {
	at := c.pos
	s := c.text(maxName)
	if i := strings.IndexByte(s, 0); i >= 0 {
		c.fail(at, "the name %s has a NUL inside", tensorfs.Quote(s))
	}
	return s
}

func (f *File) readMetadata(c *cursor, n int64) {
	f.keys = make(map[string]int, min(n, 256))
	c.what = "metadata entry"
	for c.index = 0; c.index < n && c.err == nil; c.index++ {
		at := c.pos
		c.key = ""
		key := c.readName()
		if key == "" {
			c.fail(at, "its key is empty")
		}
		if _, ok := f.keys[key]; ok {
			c.fail(at, "key %s occurs twice", tensorfs.Quote(key))
		}
		c.key = key
		c.what = "metadata key"
		t := valueType(c.u32())
		at = c.pos
		v := c.value(t, 0)
		if key == keyAlignment {
			f.setAlignment(c, at, v)
		}
		c.what = "metadata entry"
		f.keys[key] = len(f.Metadata)
		f.Metadata = append(f.Metadata, tensorfs.Meta{Key: key, Value: v})
	}
	c.key = ""
}

func (f *File) setAlignment(c *cursor, at int64, v any) {
	a, ok := v.(uint32)
	switch {
	case !ok:
		c.fail(at, "it must be a uint32, not %s", kindOf(v))
	case a == 0 || a&(a-1) != 0:
		c.fail(at, "%d is not a power of two", a)
	}
	f.Alignment = int64(a)
}

// kindOf names the type of a metadata value.
func kindOf(v any) string {
	if _, ok := v.(*array); ok {
		return "an array"
	}
	return fmt.Sprintf("%T", v)
}

func (f *File) readInfos(c *cursor, n int64) []info {
	c.what = "tensor info"
	const enough = 4096 // initial capacity; the count is only a claim
	infos := make([]info, 0, min(n, enough))
	f.Tensors = make([]tensorfs.Tensor, 0, min(n, enough))
	shapes := make([]int64, 0, 2*min(n, enough)) // cut into the tensors' shapes
	f.names = make(map[string]struct{}, min(n, enough))
	for c.index = 0; c.index < n && c.err == nil; c.index++ {
		at := c.pos
		c.tensor = ""
		name := c.readName()
		c.tensor = name
		if _, ok := f.names[name]; ok {
			c.fail(at, "another tensor has the same name")
		}
		f.names[name] = struct{}{}
		shapes = c.readShape(shapes[len(shapes):])
		f.Tensors = append(f.Tensors, tensorfs.Tensor{Source: name, Shape: shapes[:len(shapes):len(shapes)], BigEndian: f.BigEndian})
		infos = append(infos, info{typ: c.u32(), offset: c.u64(), at: at})
	}
	c.tensor = ""
	return infos
}

// readShape appends the dimensions of a tensor, outermost first; the file stores
// them in reverse order.
func (c *cursor) readShape(shape []int64) []int64 {
	at := c.pos
	n := c.u32()
	if n > maxDimensions {
		c.fail(at, "it has %d dimensions, more than %d", n, maxDimensions)
		return shape
	}
	var ne [maxDimensions]int64
	for i := range int(n) {
		at := c.pos
		d := c.length()
		if d > math.MaxInt64 {
			c.fail(at, "dimension %d is %d, which is 2^63 or more", i, d)
		}
		ne[int(n)-1-i] = int64(d)
	}
	shape = append(shape, ne[:n]...)
	if _, ok := tensorfs.Elements(shape); !ok {
		c.fail(at, "a shape of %v has 2^63 elements or more", shape)
	}
	return shape
}
