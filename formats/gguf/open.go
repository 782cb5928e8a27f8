package gguf

import (
	"errors"
	"io"
	"path/filepath"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/mmap"
)

// Open opens the model at path: a GGUF file, or any one shard of a set whose
// others are beside it. Their names are derived from path as given, not from
// what it may link to.
func Open(path string) (*tensorfs.Model, error) {
	m, err := mmap.Open(path, filepath.Base(path))
	if err != nil {
		return nil, err
	}
	f, err := Parse(m)
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	files := []*File{f}
	count, err := f.Shards()
	if err == nil && count > 1 {
		files, err = openSet(path, f, count)
	}
	if err != nil {
		return nil, errors.Join(err, closeAll(files))
	}
	return newModel(path, files)
}

func closeAll(files []*File) error {
	var errs []error
	for _, f := range files {
		errs = append(errs, f.file.Close())
	}
	return errors.Join(errs...)
}

// newModel makes a model of one file, or of the shards of a set in order. It
// owns their mappings.
func newModel(path string, files []*File) (*tensorfs.Model, error) {
	m := tensorfs.Model{Format: "gguf", Layout: "gguf"}
	var err error
	if m.Path, err = filepath.Abs(path); err != nil {
		return nil, errors.Join(err, closeAll(files))
	}
	all := union(files)
	m.Metadata, m.Tensors, m.Architecture = all.Metadata, all.Tensors, all.Architecture()
	var closers []io.Closer
	for _, f := range files {
		closers = append(closers, f.file)
		abs, err := filepath.Abs(f.file.Path())
		if err != nil {
			return nil, errors.Join(err, closeAll(files))
		}
		m.Sources = append(m.Sources, tensorfs.Source{Name: f.file.Label(), Path: abs})
		if t := f.file.ModTime(); t.After(m.ModTime) {
			m.ModTime = t
		}
	}
	m.Warnings = Name(m.Tensors, m.Architecture)
	m.Config = all.Config(m.Tensors)
	return tensorfs.NewModel(m, closers...)
}

// union returns what the shards of a set say together: each key once, as the
// first shard that has it says.
func union(files []*File) *File {
	if len(files) == 1 {
		return files[0]
	}
	all := &File{keys: make(map[string]int)}
	for _, f := range files {
		all.Tensors = append(all.Tensors, f.Tensors...)
		for _, m := range f.Metadata {
			if _, ok := all.keys[m.Key]; !ok {
				all.keys[m.Key] = len(all.Metadata)
				all.Metadata = append(all.Metadata, m)
			}
		}
	}
	return all
}
