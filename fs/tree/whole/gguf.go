package whole

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/gguf"
)

// ggufName is the one file below gguf/.
const ggufName = "model.gguf"

// GGUF returns the model as the file that llama.cpp loads. It reads configs, the
// tokenizer, and the scales of quantised tensors, so it takes time; the result is
// meant to be kept.
func GGUF(m *tensorfs.Model, opts Options) *Files {
	of := composed
	if m.Layout == "gguf" {
		of = stored
	}
	f, err := of(m, opts)
	if err != nil {
		return Absent(err)
	}
	return f
}

// stored returns the file of a model that is one already, or was one before it
// was split.
func stored(m *tensorfs.Model, opts Options) (*Files, error) {
	if opts.Type != tensorfs.Unknown {
		return nil, fmt.Errorf("the tensors of a GGUF model are given as they are stored, not as %s; llama-quantize makes such a file", opts.Type)
	}
	f := &Files{Tensors: len(m.Tensors), Types: map[string]int{}, Exact: true}
	name := ""
	for _, s := range m.Sources {
		if m.Format == "gguf" || s.Name == ollamaModel {
			if name != "" {
				return merged(m, f)
			}
			name = s.Name
		}
	}
	d, err := m.File(name)
	if err != nil {
		return nil, err
	}
	if f.List, err = []File{{ggufName, d}}, llamaReads(d); err != nil {
		return merged(m, f)
	}
	f.Tensors = 0
	for i := range m.Tensors {
		// The layers of an Ollama model beside this one, such as a projector, are files of their own.
		if x := tensorfs.Extents(m.Tensors[i].Data); len(x) == 0 || x[0].File == name {
			f.count(m.Tensors[i].DType)
		}
	}
	return f, nil
}

// ollamaModel is the name below source/ of the GGUF file in an Ollama model.
const ollamaModel = "model.gguf"

// count notes a tensor of the file.
func (f *Files) count(t tensorfs.DType) {
	f.Tensors++
	f.Types[t.String()]++
}

// llamaReads returns an error unless llama.cpp reads the version of a GGUF file:
// 2 or 3, little-endian.
func llamaReads(d tensorfs.Data) error {
	head := make([]byte, 8)
	if err := tensorfs.ReadFull(d, head, 0); err != nil {
		return err
	}
	if string(head[:4]) != "GGUF" || head[4] != 2 && head[4] != 3 || string(head[5:]) != "\x00\x00\x00" {
		return fmt.Errorf("a header that llama.cpp does not read")
	}
	return nil
}

// splitKeys says that a file is one of several.
const splitKeys = "split."

// merged writes a new header before the tensors of all shards, in their order.
func merged(m *tensorfs.Model, f *Files) (*Files, error) {
	meta := make([]tensorfs.Meta, 0, len(m.Metadata))
	for _, x := range m.Metadata {
		if !strings.HasPrefix(x.Key, splitKeys) {
			meta = append(meta, x)
		}
	}
	list := make([]*tensorfs.Tensor, len(m.Tensors))
	for i := range m.Tensors {
		list[i] = &m.Tensors[i]
	}
	slices.SortStableFunc(list, inFileOrder)
	tensors := make([]gguf.Stored, len(list))
	f.Tensors = 0
	for i, t := range list {
		if t.BigEndian {
			return nil, fmt.Errorf("the model is big-endian, which llama.cpp reads only on such machines; convert it with gguf_convert_endian.py")
		}
		tensors[i] = gguf.Stored{Name: t.Source, DType: t.DType, Shape: t.Shape, Data: t.Data}
		f.count(t.DType)
	}
	d, err := gguf.Compose(meta, tensors)
	if err != nil {
		return nil, err
	}
	f.List = []File{{ggufName, d}}
	return f, nil
}

// inFileOrder compares tensors by where they are in the model's files.
func inFileOrder(a, b *tensorfs.Tensor) int {
	x, y := tensorfs.Extents(a.Data), tensorfs.Extents(b.Data)
	if len(x) == 0 || len(y) == 0 { // no bytes: first
		return len(x) - len(y)
	}
	if c := strings.Compare(x[0].File, y[0].File); c != 0 {
		return c
	}
	return int(min(max(x[0].Offset-y[0].Offset, -1), 1))
}
