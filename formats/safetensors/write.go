package safetensors

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/tensorfs/tensorfs"
)

// Stored is a tensor of a file that is written.
type Stored struct {
	Name  string
	DType tensorfs.DType
	Shape []int64 // row-major
	Data  tensorfs.Data
}

const (
	// metadataKey is the one name in a header that is not a tensor's.
	metadataKey = "__metadata__"
	// page is what the data section begins at a multiple of, so that a reader that maps
	// the file has every tensor aligned to its elements.
	page = 4096
)

// Compose returns a safetensors file: the header is written now, the tensors are
// read when the file is.
//
//	N | {"__metadata__":..,"NAME":..}    .. | tensor 0 | tensor 1 | ...
//	                                        ^ a multiple of a page
//
// Tensors are laid out by the size of their elements, largest first, then in the
// order given. So each begins at a multiple of its element size without holes,
// which the format does not have.
//
// The error describes what a reader would refuse: a name or key used twice or not UTF-8, a
// type that the format does not have, data that do not have the size of type and shape.
func Compose(metadata [][2]string, tensors []Stored) (tensorfs.Data, error) {
	list := slices.Clone(tensors)
	slices.SortStableFunc(list, func(a, b Stored) int { return cmp.Compare(b.DType.Bits(), a.DType.Bits()) })
	b := []byte("\x00\x00\x00\x00\x00\x00\x00\x00{")
	b, err := appendMetadata(b, metadata)
	if err != nil {
		return nil, err
	}
	seen := make(map[string]bool, len(list))
	parts := make([]tensorfs.Data, 1, 1+len(list))
	offset := int64(0)
	for i := range list {
		t := &list[i]
		size, err := t.size(offset)
		switch {
		case err != nil:
			return nil, fmt.Errorf("the tensor %s %w", tensorfs.Quote(t.Name), err)
		case seen[t.Name]:
			return nil, fmt.Errorf("the tensor %s is there twice", tensorfs.Quote(t.Name))
		}
		seen[t.Name] = true
		if b[len(b)-1] != '{' {
			b = append(b, ',')
		}
		b = append(tensorfs.AppendJSONString(b, t.Name), `:{"dtype":"`...)
		b = append(append(b, t.DType.String()...), `","shape":`...)
		b = append(appendNumbers(b, t.Shape...), `,"data_offsets":`...)
		b = append(appendNumbers(b, offset, offset+size), '}')
		offset += size
		parts = append(parts, t.Data)
	}
	b = append(b, '}')
	for len(b)%page != 0 {
		b = append(b, ' ')
	}
	if len(b)-8 > maxHeader {
		return nil, fmt.Errorf("%d tensors take a header of %d bytes, and readers take %d at most", len(list), len(b)-8, maxHeader)
	}
	binary.LittleEndian.PutUint64(b, uint64(len(b)-8))
	parts[0] = tensorfs.Bytes(b)
	return tensorfs.Concat(parts...), nil
}

// size returns the bytes that t takes at an offset, or why it cannot be there.
func (t *Stored) size(offset int64) (int64, error) {
	size, ok := t.DType.Size(t.Shape)
	switch {
	case !utf8.ValidString(t.Name):
		return 0, fmt.Errorf("has a name that is not UTF-8")
	case t.Name == metadataKey:
		return 0, fmt.Errorf("has the name of what describes all of them")
	case !t.DType.Safetensors():
		return 0, fmt.Errorf("is of type %s, which safetensors does not have", t.DType)
	case !ok || size != t.Data.Size() || size > math.MaxInt64-maxHeader-8-offset:
		return 0, fmt.Errorf("has %d bytes, which do not fit %s of shape %v", t.Data.Size(), t.DType, t.Shape)
	}
	return size, nil
}

// appendMetadata appends the entry of free text, or nothing without any.
func appendMetadata(b []byte, metadata [][2]string) ([]byte, error) {
	if len(metadata) == 0 {
		return b, nil
	}
	b = append(b, `"`+metadataKey+`":{`...)
	seen := map[string]bool{}
	for i, m := range metadata {
		switch {
		case !utf8.ValidString(m[0]) || !utf8.ValidString(m[1]):
			return nil, fmt.Errorf("the key %s or its value is not UTF-8", tensorfs.Quote(m[0]))
		case seen[m[0]]:
			return nil, fmt.Errorf("the key %s is there twice", tensorfs.Quote(m[0]))
		}
		seen[m[0]] = true
		if i > 0 {
			b = append(b, ',')
		}
		b = append(tensorfs.AppendJSONString(b, m[0]), ':')
		b = tensorfs.AppendJSONString(b, m[1])
	}
	return append(b, '}'), nil
}

// appendNumbers appends an array of integers.
func appendNumbers(b []byte, numbers ...int64) []byte {
	b = append(b, '[')
	for i, n := range numbers {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, n, 10)
	}
	return append(b, ']')
}
