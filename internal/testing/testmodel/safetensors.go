package testmodel

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"

	"github.com/tensorfs/tensorfs"
)

// SafeTensor is a tensor of a safetensors file.
type SafeTensor struct {
	Name  string
	DType tensorfs.DType
	Shape []int64
	Data  []byte // nil means bytes that count up from the tensor's place in the list
}

// Size returns the bytes that the tensor takes.
func (t SafeTensor) Size() int64 {
	n, ok := t.DType.Size(t.Shape)
	if !ok {
		panic(fmt.Sprintf("test tensor %q: %v %v has no size", t.Name, t.DType, t.Shape))
	}
	return n
}

// Safetensors returns a safetensors file: header and data in the order of
// tensors, no padding between them, as MLX writes it.
func Safetensors(tensors []SafeTensor, metadata [][2]string) []byte {
	file := safetensorsHeader(tensors, metadata)
	for i, t := range tensors {
		data := t.Data
		if data == nil {
			data = make([]byte, t.Size())
			for j := range data {
				data[j] = byte(i + j)
			}
		}
		if int64(len(data)) != t.Size() {
			panic(fmt.Sprintf("test tensor %q: %d bytes for %v %v", t.Name, len(data), t.DType, t.Shape))
		}
		file = append(file, data...)
	}
	return file
}

// WriteSparseSafetensors writes a safetensors file whose data is a hole: a
// model of any size that takes no space.
func WriteSparseSafetensors(path string, tensors []SafeTensor) error {
	header := safetensorsHeader(tensors, nil)
	if err := os.WriteFile(path, header, 0o666); err != nil {
		return err
	}
	size := int64(len(header))
	for _, t := range tensors {
		size += t.Size()
	}
	return os.Truncate(path, size)
}

func safetensorsHeader(tensors []SafeTensor, metadata [][2]string) []byte {
	h := []byte("\x00\x00\x00\x00\x00\x00\x00\x00{")
	if metadata != nil {
		h = append(h, `"__metadata__":{`...)
		for i, m := range metadata {
			if i > 0 {
				h = append(h, ',')
			}
			h = append(appendJSON(h, m[0]), ':')
			h = appendJSON(h, m[1])
		}
		h = append(h, '}')
	}
	offset := int64(0)
	for i, t := range tensors {
		if i > 0 || metadata != nil {
			h = append(h, ',')
		}
		shape := t.Shape
		if shape == nil {
			shape = []int64{}
		}
		h = append(appendJSON(h, t.Name), `:{"dtype":`...)
		h = append(appendJSON(h, t.DType.String()), `,"shape":`...)
		h = append(appendJSON(h, shape), `,"data_offsets":`...)
		h = append(appendJSON(h, [2]int64{offset, offset + t.Size()}), '}')
		offset += t.Size()
	}
	h = append(h, '}')
	binary.LittleEndian.PutUint64(h, uint64(len(h)-8))
	return h
}

func appendJSON(dst []byte, v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // names of tests are UTF-8
	}
	return append(dst, b...)
}
