package testmodel

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"reflect"

	"github.com/tensorfs/tensorfs"
)

// GGUF is a GGUF file to be written. The zero value is an empty one.
type GGUF struct {
	Version   uint32 // 0 means 3
	BigEndian bool   // header only: the tensors' Data is written as it is
	Alignment uint32 // written as general.alignment unless 0, which means 32
	// Meta holds the file's metadata after general.alignment. Values are scalars, strings,
	// and slices of these or of slices; the first element of a []any gives its type.
	Meta    []tensorfs.Meta
	Tensors []GGUFTensor // their Data is laid out in this order
}

// GGUFTensor is a tensor of a GGUF file.
type GGUFTensor struct {
	Name  string
	Shape []int64 // row-major
	Type  uint32  // ggml's number
	Data  []byte
}

// ggufTypes holds GGUF's numbers of value types.
var ggufTypes = map[reflect.Kind]uint32{
	reflect.Uint8: 0, reflect.Int8: 1, reflect.Uint16: 2, reflect.Int16: 3, reflect.Uint32: 4, reflect.Int32: 5,
	reflect.Float32: 6, reflect.Bool: 7, reflect.String: 8, reflect.Slice: 9, reflect.Uint64: 10, reflect.Int64: 11,
	reflect.Float64: 12,
}

// ggufWriter appends to a file in one byte order and version.
type ggufWriter struct {
	order interface {
		binary.ByteOrder
		binary.AppendByteOrder
	}
	narrow bool
	b      []byte
}

func (w *ggufWriter) u32(v uint32) { w.b = w.order.AppendUint32(w.b, v) }

func (w *ggufWriter) length(n int) {
	if w.narrow {
		w.u32(uint32(n))
	} else {
		w.b = w.order.AppendUint64(w.b, uint64(n))
	}
}

func (w *ggufWriter) text(s string) {
	w.length(len(s))
	w.b = append(w.b, s...)
}

func (w *ggufWriter) value(v reflect.Value) {
	switch v.Kind() {
	case reflect.Interface:
		w.value(v.Elem())
	case reflect.String:
		w.text(v.String())
	case reflect.Slice:
		elem := v.Type().Elem().Kind()
		if elem == reflect.Interface && v.Len() > 0 {
			elem = v.Index(0).Elem().Kind()
		}
		w.u32(ggufTypes[elem])
		w.length(v.Len())
		for i := range v.Len() {
			w.value(v.Index(i))
		}
	default:
		var err error
		if w.b, err = binary.Append(w.b, w.order, v.Interface()); err != nil {
			panic(fmt.Sprintf("GGUF value of type %s", v.Type())) // the test's bug
		}
	}
}

func (w *ggufWriter) meta(m tensorfs.Meta) {
	v := reflect.ValueOf(m.Value)
	w.text(m.Key)
	w.u32(ggufTypes[v.Kind()])
	w.value(v)
}

func (w *ggufWriter) pad(alignment int) {
	for len(w.b)%alignment != 0 {
		w.b = append(w.b, 0)
	}
}

// Bytes returns the file.
func (g GGUF) Bytes() []byte {
	w := ggufWriter{order: binary.LittleEndian, narrow: g.Version == 1, b: []byte("GGUF")}
	if g.BigEndian {
		w.order = binary.BigEndian
	}
	if g.Version == 0 {
		g.Version = 3
	}
	meta, alignment := g.Meta, 32
	if g.Alignment > 0 {
		meta = append([]tensorfs.Meta{{Key: "general.alignment", Value: g.Alignment}}, meta...)
		alignment = int(g.Alignment)
	}
	w.u32(g.Version)
	w.length(len(g.Tensors))
	w.length(len(meta))
	for _, m := range meta {
		w.meta(m)
	}
	offset := 0
	for _, t := range g.Tensors {
		w.text(t.Name)
		w.u32(uint32(len(t.Shape)))
		for i := len(t.Shape) - 1; i >= 0; i-- {
			w.length(int(t.Shape[i]))
		}
		w.u32(t.Type)
		w.b = w.order.AppendUint64(w.b, uint64(offset))
		offset += (len(t.Data) + alignment - 1) / alignment * alignment
	}
	w.pad(alignment)
	start := len(w.b)
	for _, t := range g.Tensors {
		w.b = append(w.b, t.Data...)
		for (len(w.b)-start)%alignment != 0 {
			w.b = append(w.b, 0)
		}
	}
	return w.b
}

// Shards returns g cut into n shards by file name: PREFIX-00001-of-0000n.gguf
// and so on. The first has the metadata; tensors are dealt out in order.
func (g GGUF) Shards(prefix string, n int) map[string][]byte {
	files := make(map[string][]byte, n)
	for i := range n {
		s := g
		s.Meta = nil
		if i == 0 {
			s.Meta = append(s.Meta, g.Meta...)
		}
		s.Meta = append(s.Meta,
			tensorfs.Meta{Key: "split.no", Value: uint16(i)},
			tensorfs.Meta{Key: "split.count", Value: uint16(n)},
			tensorfs.Meta{Key: "split.tensors.count", Value: int32(len(g.Tensors))})
		s.Tensors = g.Tensors[i*len(g.Tensors)/n : (i+1)*len(g.Tensors)/n]
		files[fmt.Sprintf("%s-%05d-of-%05d.gguf", prefix, i+1, n)] = s.Bytes()
	}
	return files
}

// Write writes files below dir by name.
func Write(dir string, files map[string][]byte) error {
	for name, b := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return err
		}
		if err := os.WriteFile(path, b, 0o666); err != nil {
			return err
		}
	}
	return nil
}
