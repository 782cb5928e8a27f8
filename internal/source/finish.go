package source

import (
	"io"

	"github.com/tensorfs/tensorfs"
)

// Finish makes a model that owns its weight files, shows them below source/ and
// is as old as the latest of them.
func Finish(m tensorfs.Model, files []File) (*tensorfs.Model, error) {
	closers := make([]io.Closer, len(files))
	for i, f := range files {
		closers[i] = f
		m.Sources = append(m.Sources, tensorfs.Source{Name: f.Label(), Path: f.Path(), Open: func() (tensorfs.File, error) { return f, nil }})
		if t := f.ModTime(); t.After(m.ModTime) {
			m.ModTime = t
		}
	}
	return tensorfs.NewModel(m, closers...)
}

// Unopened returns the file of that name in src as a source of a model, to be
// opened when it is asked for.
func Unopened(src FS, name, label string) tensorfs.Source {
	return tensorfs.Source{Name: label, Path: src.Location(name), Open: func() (tensorfs.File, error) { return src.OpenFile(name) }}
}
