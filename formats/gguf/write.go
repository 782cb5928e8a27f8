package gguf

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"

	"github.com/tensorfs/tensorfs"
)

// Stored is a tensor of a file that is written.
type Stored struct {
	Name  string
	DType tensorfs.DType
	Shape []int64 // row-major
	Data  tensorfs.Data
}

// usualAlignment of the data is what readers assume if the file does not specify it.
const usualAlignment = 32

// Limits are what a program takes of a tensor.
type Limits struct {
	Program    string
	Name       int // bytes
	Dimensions int
}

// LimitsOfGGML are of llama.cpp and all programs that read files by ggml.
var LimitsOfGGML = Limits{"ggml", MaxName, MaxDimensions}

// LimitsOfComfyUI are of ComfyUI-GGUF, whose quantiser takes longer names and whose files of
// video models have five dimensions.
var LimitsOfComfyUI = Limits{"ComfyUI-GGUF", 127, 5}

// Compose is ComposeWithin the limits of ggml.
func Compose(meta []tensorfs.Meta, tensors []Stored) (tensorfs.Data, error) {
	return ComposeWithin(LimitsOfGGML, meta, tensors)
}

// ComposeWithin returns a GGUF file of version 3, little-endian: the header is written
// now, the tensors are read when the file is. They are laid out in the order
// given, each padded to the alignment, as ggml demands: to general.alignment, 32
// bytes where meta has no such key.
//
//	header | entries | tensor infos | 0.. | tensor 0 | 0.. | tensor 1 | 0.. | ...
//
// A value of meta is a bool, an integer or float of a fixed width, a string, a slice of
// these, or a [tensorfs.Array] as [Parse] returns it. The error describes what the program would
// refuse: a name or a shape beyond its limits, a name or key used twice, data that do not have
// the size of the type.
func ComposeWithin(limits Limits, meta []tensorfs.Meta, tensors []Stored) (tensorfs.Data, error) {
	alignment, err := alignmentOf(meta)
	if err != nil {
		return nil, err
	}
	zeros := make(tensorfs.Bytes, alignment)
	b := append([]byte(magic), 3, 0, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(tensors)))
	b = binary.LittleEndian.AppendUint64(b, uint64(len(meta)))
	seen := make(map[string]bool, len(tensors)+len(meta))
	for _, m := range meta {
		if seen[m.Key] {
			return nil, fmt.Errorf("the key %s is there twice", tensorfs.Quote(m.Key))
		}
		seen[m.Key] = true
		if b, err = appendValue(appendText(b, m.Key), m.Value, true); err != nil {
			return nil, fmt.Errorf("the key %s: %w", tensorfs.Quote(m.Key), err)
		}
	}
	clear(seen)
	offset := int64(0)
	parts := make([]tensorfs.Data, 1, 1+2*len(tensors))
	for i := range tensors {
		t := &tensors[i]
		if seen[t.Name] {
			return nil, fmt.Errorf("the tensor %s is there twice", tensorfs.Quote(t.Name))
		}
		seen[t.Name] = true
		size, ok := t.DType.Size(t.Shape)
		number := t.DType.GGML()
		switch {
		case len(t.Name) > limits.Name || t.Name == "":
			return nil, fmt.Errorf("the tensor name %s has %d bytes, and %s takes 1 to %d", tensorfs.Quote(t.Name), len(t.Name), limits.Program, limits.Name)
		case number < 0:
			return nil, fmt.Errorf("the tensor %s is of type %s, which ggml does not have", tensorfs.Quote(t.Name), t.DType)
		case len(t.Shape) > limits.Dimensions:
			return nil, fmt.Errorf("the tensor %s has %d dimensions, and %s takes at most %d", tensorfs.Quote(t.Name), len(t.Shape), limits.Program, limits.Dimensions)
		case !ok || size != t.Data.Size() || size > math.MaxInt64-offset-alignment:
			return nil, fmt.Errorf("the tensor %s has %d bytes, which do not fit %s of shape %v", tensorfs.Quote(t.Name), t.Data.Size(), t.DType, t.Shape)
		}
		b = appendText(b, t.Name)
		b = binary.LittleEndian.AppendUint32(b, uint32(max(len(t.Shape), 1)))
		for d := len(t.Shape) - 1; d >= 0; d-- {
			b = binary.LittleEndian.AppendUint64(b, uint64(t.Shape[d]))
		}
		if len(t.Shape) == 0 { // a single number
			b = binary.LittleEndian.AppendUint64(b, 1)
		}
		b = binary.LittleEndian.AppendUint32(b, uint32(number))
		b = binary.LittleEndian.AppendUint64(b, uint64(offset))
		parts = append(parts, t.Data)
		padding := -size & (alignment - 1)
		if padding > 0 {
			parts = append(parts, zeros[:padding])
		}
		offset += size + padding
	}
	parts[0] = tensorfs.Bytes(append(b, zeros[:-int64(len(b))&(alignment-1)]...))
	return tensorfs.Concat(parts...), nil
}

// maxWrittenAlignment bounds the zeros between tensors. Files have 32, some a page.
const maxWrittenAlignment = 1 << 16

// alignmentOf returns the alignment that metadata asks for.
func alignmentOf(meta []tensorfs.Meta) (int64, error) {
	for _, m := range meta {
		if m.Key != keyAlignment {
			continue
		}
		n, ok := integer(m.Value)
		if !ok || n < 8 || n > maxWrittenAlignment || n&(n-1) != 0 {
			return 0, fmt.Errorf("the alignment %v is not a power of two from 8 to %d", m.Value, maxWrittenAlignment)
		}
		return n, nil
	}
	return usualAlignment, nil
}

func appendText(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint64(b, uint64(len(s))), s...)
}

// numberOf holds GGUF's numbers of the types of values.
var numberOf = map[reflect.Kind]valueType{
	reflect.Uint8: 0, reflect.Int8: 1, reflect.Uint16: 2, reflect.Int16: 3, reflect.Uint32: 4, reflect.Int32: 5, reflect.Float32: 6, reflect.Bool: 7,
	reflect.String: typeString, reflect.Slice: typeArray, reflect.Uint64: 10, reflect.Int64: 11, reflect.Float64: 12,
}

// appendValue appends a value, after its type if typed is set.
func appendValue(b []byte, value any, typed bool) ([]byte, error) {
	if a, ok := value.(*array); ok {
		return appendArray(b, a, typed)
	}
	v := reflect.ValueOf(value)
	number, ok := numberOf[v.Kind()]
	if !ok {
		return b, fmt.Errorf("GGUF has no values of type %T", value)
	}
	if typed {
		b = binary.LittleEndian.AppendUint32(b, uint32(number))
	}
	switch number {
	case typeString:
		return appendText(b, v.String()), nil
	case typeArray:
		elem, ok := numberOf[v.Type().Elem().Kind()]
		if !ok {
			return b, fmt.Errorf("GGUF has no values of type %T", value)
		}
		b = binary.LittleEndian.AppendUint32(b, uint32(elem))
		b = binary.LittleEndian.AppendUint64(b, uint64(v.Len()))
		if texts, ok := value.([]string); ok {
			for _, s := range texts {
				b = appendText(b, s)
			}
			return b, nil
		}
		if elem == typeArray || elem == typeString {
			var err error
			for i := 0; i < v.Len() && err == nil; i++ {
				b, err = appendValue(b, v.Index(i).Interface(), false)
			}
			return b, err
		}
	}
	return binary.Append(b, binary.LittleEndian, value)
}

// appendArray appends an array of a file that was parsed.
func appendArray(b []byte, a *array, typed bool) ([]byte, error) {
	if typed {
		b = binary.LittleEndian.AppendUint32(b, uint32(typeArray))
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(a.elem))
	b = binary.LittleEndian.AppendUint64(b, uint64(a.n))
	n, err := int64(0), error(nil)
	for v := range a.Values() {
		n++
		if b, err = appendValue(b, v, false); err != nil {
			return b, err
		}
	}
	if n != a.n {
		return b, fmt.Errorf("%d of its %d elements can be read", n, a.n)
	}
	return b, nil
}
