package convert

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/gguf"
	"github.com/tensorfs/tensorfs/internal/convert/layout"
	"github.com/tensorfs/tensorfs/views"
)

// InLlama returns a model with llama.cpp's keys and tensors, and how it differs from the
// file, nil if it does not. The error explains why that is not possible.
func InLlama(m *tensorfs.Model) (*tensorfs.Model, *gguf.Spelling, error) {
	s := gguf.InLlama(m)
	switch {
	case s == nil:
		return m, nil, nil
	case s.Absent != "":
		return nil, nil, errors.New(s.Absent)
	case len(s.PlusOne) == 0 && len(s.MayLackOne) == 0:
		return s.Model, s, nil
	}
	c := *s.Model
	c.Tensors = slices.Clone(c.Tensors)
	at := map[string]*tensorfs.Tensor{}
	for i := range c.Tensors {
		at[c.Tensors[i].Source] = &c.Tensors[i]
	}
	larger := s.PlusOne
	lack, err := lackOne(s.MayLackOne, at)
	if err != nil {
		return nil, nil, err
	}
	if lack {
		for _, pair := range s.MayLackOne {
			larger = append(slices.Clip(larger), pair[0])
		}
	}
	for _, name := range larger {
		t := at[name]
		if t.Change != nil {
			return nil, nil, errors.New("an adapter changes " + tensorfs.Quote(name) + ", to which one has to be added")
		}
		more, err := layout.AddOne(t)
		if err != nil {
			return nil, nil, err
		}
		*t = *more
	}
	return &c, s, nil
}

// lackOne reports whether the numbers of the first tensor of each pair are smaller by one
// than the second's. Both are weights of norms, which are near a common value: files of
// some converters have it without the one that the norm adds.
func lackOne(pairs [][2]string, at map[string]*tensorfs.Tensor) (bool, error) {
	below := 0.0
	for _, pair := range pairs {
		var means [2]float64
		for i, name := range pair {
			mean, err := meanOf(at[name])
			if err != nil {
				return false, err
			}
			means[i] = mean
		}
		below += means[1] - means[0]
	}
	return below > float64(len(pairs))/2, nil
}

// maxNorm bounds the weights of norms that are read.
const maxNorm = 1 << 20

// meanOf returns the mean of the numbers of a tensor, which has a row of them.
func meanOf(t *tensorfs.Tensor) (float64, error) {
	if n, ok := tensorfs.Elements(t.Shape); !ok || n > maxNorm {
		return 0, fmt.Errorf("%s has too many numbers for the weight of a norm", tensorfs.Quote(t.Source))
	}
	numbers, err := views.Floats(t)
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for _, x := range numbers {
		sum += float64(x)
	}
	return sum / float64(max(len(numbers), 1)), nil
}

// translated returns the file of a model that Ollama's converter wrote: a header in
// llama.cpp's form before the stored tensors, and its tower's file. theirs is the model as
// it is stored.
func translated(m, theirs *tensorfs.Model, s *gguf.Spelling, opts Options) (*Files, error) {
	own := m.Tensors
	if m.Format == "ollama" {
		own = slices.DeleteFunc(slices.Clone(own), func(t tensorfs.Tensor) bool {
			e := tensorfs.Extents(t.Data)
			return len(e) > 0 && e[0].File != gguf.OllamaModel
		})
	}
	f, err := rewritten(named(m.Metadata, m), own, opts)
	if err != nil {
		return nil, err
	}
	if m.Format == "ollama" {
		f.leaveBeside(m, gguf.OllamaModel)
	}
	f.NoteSpelling(s)
	f.addOllamaTower(theirs, m, s.Left, opts)
	return f, nil
}

// NoteSpelling notes how the model's file differs from llama.cpp's form, and what is left out
// beside towers.
func (f *Files) NoteSpelling(s *gguf.Spelling) {
	f.Notes = append(slices.Clone(s.Notes), f.Notes...)
	f.repeatedAt += len(s.Notes)
	if slices.ContainsFunc(s.Left, func(name string) bool { return strings.HasPrefix(name, "mtp.") }) {
		f.Notes = append(f.Notes, "the layers that predict further tokens (mtp.*) are left out: llama.cpp has no place for them")
	}
}

// ProjectorLayer returns the projector layer of an Ollama model as a model of its own, with
// llama.cpp's keys, nil without one, and how it differs from the file, nil if it does not.
func ProjectorLayer(m *tensorfs.Model) (*tensorfs.Model, *gguf.Spelling) {
	const file, prefix = "projector.gguf", "projector."
	if m.Format != "ollama" {
		return nil, nil
	}
	t := &tensorfs.Model{Layout: "gguf"}
	for _, x := range m.Metadata {
		if key, ok := strings.CutPrefix(x.Key, prefix); ok {
			t.Metadata = append(t.Metadata, tensorfs.Meta{Key: key, Value: x.Value})
		}
	}
	for _, x := range m.Tensors {
		if e := tensorfs.Extents(x.Data); len(e) > 0 && e[0].File == file {
			t.Tensors = append(t.Tensors, x)
		}
	}
	if len(t.Tensors) == 0 {
		return nil, nil
	}
	if s := gguf.InLlama(t); s != nil {
		return s.Model, s
	}
	return t, nil
}
