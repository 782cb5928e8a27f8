package ollama

import (
	"github.com/tensorfs/tensorfs"
)

// Open opens the model of the manifest at a path of this machine, which must be in
// a store.
func Open(file string) (*tensorfs.Model, error) {
	dir, name, ok := Locate(file)
	if !ok {
		return nil, noStore(file)
	}
	src, err := OpenStore(dir, false)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	return OpenFS(src.FS(), name)
}
