package gguf

import (
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/source"
)

// Open opens the model at a path of this machine.
func Open(path string) (*tensorfs.Model, error) {
	src, name, err := source.Named(path, source.Anywhere)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	return OpenFS(src, name)
}
