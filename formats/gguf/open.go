package gguf

import (
	"errors"
	"io/fs"

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
	m.Warnings = ts.Name(names.GGUF, m.Architecture)
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
