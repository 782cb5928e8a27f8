package gguf

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/names"
	"github.com/tensorfs/tensorfs/internal/assemble"
	"github.com/tensorfs/tensorfs/internal/source"
)

// OpenFS opens the model in the file of that name in fsys: a GGUF file, or any one
// shard of a set in one directory. Their names are derived from name as given, not from
// what it may link to.
func OpenFS(fsys fs.FS, name string) (*tensorfs.Model, error) {
	src := source.Of(fsys)
	f, err := openFile(src, name)
	if err != nil {
		return nil, err
	}
	files := []*File{f}
	count, err := f.Shards()
	if err == nil && count > 1 {
		files, err = openSet(src, name, f, count)
	}
	if err != nil {
		return nil, errors.Join(err, closeAll(files))
	}
	return newModel(src.Location(name), files)
}

// openFile opens and parses one file.
func openFile(src source.FS, name string) (*File, error) {
	m, err := src.OpenFile(name)
	if err != nil {
		return nil, err
	}
	f, err := Parse(m)
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return f, nil
}

func closeAll(files []*File) error {
	var errs []error
	for _, f := range files {
		errs = append(errs, f.file.Close())
	}
	return errors.Join(errs...)
}

// newModel makes a model of one file, or of the shards of a set in order. The model owns them.
func newModel(path string, files []*File) (*tensorfs.Model, error) {
	m := tensorfs.Model{Format: "gguf", Layout: "gguf", Path: path}
	all := union(files)
	m.Metadata, m.Tensors, m.Architecture = all.Metadata, all.Tensors, all.Architecture()
	ts := assemble.Tensors{List: m.Tensors}
	if slices.Contains(wordsOfImages, m.Architecture) {
		m.Architecture = cmp.Or(ts.Image(), m.Architecture)
	}
	m.Warnings = append(all.unfold(), ts.Name(names.GGUF, m.Architecture)...)
	nameFactors(m.Tensors)
	m.Config = ts.Config(all.Lookup)
	sources := make([]source.File, len(files))
	for i, f := range files {
		sources[i] = f.file
	}
	opened, err := source.Finish(m, sources)
	if err == nil {
		AsInLlama(opened)
	}
	return opened, err
}

// factorNames are the ends of the names of tensors with the second scale of NVFP4, as llama.cpp's
// converter and others have them.
var factorNames = []string{".scale", ".weight.scale"}

// nameFactors gives weights of NVFP4 the names of their factors.
func nameFactors(list []tensorfs.Tensor) {
	at := map[string]*tensorfs.Tensor{} // tensors that may be factors
	for i := range list {
		if t := &list[i]; t.DType == tensorfs.F32 && strings.HasSuffix(t.Source, factorNames[0]) {
			at[t.Source] = t
		}
	}
	for i := range list {
		t := &list[i]
		stem, ok := strings.CutSuffix(t.Source, ".weight")
		if !ok || t.DType != tensorfs.NVFP4 {
			continue
		}
		for _, end := range factorNames {
			f := at[stem+end]
			if f == nil {
				continue
			}
			if n, ok := tensorfs.Elements(f.Shape); ok && (n == 1 || len(t.Shape) == 3 && n == t.Shape[0]) {
				t.Factor = f.Name
				break
			}
		}
	}
}

// wordsOfImages are what files of image models have for an architecture that they do not name.
var wordsOfImages = []string{"unknown", "pig", "cow"}

// KeyShape begins the keys of the shapes that tensors of an image model have for programs,
// where the file has rows of 256 numbers.
const KeyShape = "comfy.gguf.orig_shape."

// unfold gives tensors the shapes of the keys about them, and returns warnings about keys without
// a shape.
func (f *File) unfold() (warnings []string) {
	var at map[string]int
	for _, e := range f.Metadata {
		name, ok := strings.CutPrefix(e.Key, KeyShape)
		if !ok {
			continue
		}
		if at == nil {
			at = make(map[string]int, len(f.Tensors))
			for i := range f.Tensors {
				at[f.Tensors[i].Source] = i
			}
		}
		i, ok := at[name]
		if !ok {
			warnings = append(warnings, fmt.Sprintf("the key %s is for a tensor that the file does not have", tensorfs.Quote(e.Key)))
			continue
		}
		t := &f.Tensors[i]
		shape, ok := shapeOf(e.Value)
		have, _ := tensorfs.Elements(t.Shape)
		if n, counted := tensorfs.Elements(shape); !ok || !counted || n != have {
			warnings = append(warnings, fmt.Sprintf("the key %s has no shape of the %d numbers of its tensor, which keeps shape %v", tensorfs.Quote(e.Key), have, t.Shape))
			continue
		}
		t.Unfolded = shape
	}
	return warnings
}

// shapeOf reads a shape, outermost first, which is an array of int32.
func shapeOf(v any) (shape []int64, ok bool) {
	a, ok := v.(tensorfs.Array)
	if !ok || a.Len() > maxDimensions {
		return nil, false
	}
	for v := range a.Values() {
		n, ok := v.(int32)
		if !ok || n < 0 {
			return nil, false
		}
		shape = append(shape, int64(n))
	}
	return shape, len(shape) > 0
}

// union returns the combined metadata of a set's shards: each key once, with the
// value from the first shard that has it, and the largest alignment.
func union(files []*File) *File {
	if len(files) == 1 {
		return files[0]
	}
	all := &File{keys: make(map[string]int)}
	for _, f := range files {
		all.Tensors = append(all.Tensors, f.Tensors...)
		for _, m := range f.Metadata {
			i, ok := all.keys[m.Key]
			if !ok {
				all.keys[m.Key] = len(all.Metadata)
				all.Metadata = append(all.Metadata, m)
			} else if m.Key == keyAlignment && f.Alignment > all.Alignment {
				all.Metadata[i] = m
			}
			all.Alignment = max(all.Alignment, f.Alignment)
		}
	}
	return all
}
