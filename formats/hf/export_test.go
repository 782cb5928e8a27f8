package hf

import (
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/source"
)

// Open opens the model in the directory at a path of this machine.
func Open(dir string) (*tensorfs.Model, error) {
	src, err := source.Dir(dir, source.Anywhere)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	return OpenFS(src, ".")
}

// OpenFile opens the safetensors file at a path of this machine.
func OpenFile(path string) (*tensorfs.Model, error) {
	src, name, err := source.Named(path, source.Anywhere)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	return OpenFileFS(src, name)
}
