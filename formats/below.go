package formats

import (
	"path"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/ollama"
	"github.com/tensorfs/tensorfs/internal/rescue"
	"github.com/tensorfs/tensorfs/internal/source"
)

// OpenBelow opens a model that a program found below a local directory. name is the name of
// a file or of a model's directory, with slashes, or of a manifest if dir is an Ollama
// store. KeepInside is about dir, or about the repository's folder if dir is in the Hugging
// Face cache; name is not followed out of it either.
func (o Options) OpenBelow(dir, name string) (m *tensorfs.Model, err error) {
	defer rescue.To(&err, path.Join(dir, name))
	if ollama.Match(name, nil) && source.HasDir(path.Join(dir, "blobs")) {
		store, err := ollama.OpenStore(dir, o.KeepInside)
		if err != nil {
			return nil, err
		}
		return owning(store)(OpenFS(store.FS(), name))
	}
	src, err := source.Dir(dir, source.Links(o.KeepInside))
	if err != nil {
		return nil, err
	}
	if source.IsDir(src, name) {
		return owning(src)(openDir(src, name))
	}
	return owning(src)(openFile(src, name))
}
