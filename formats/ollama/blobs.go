package ollama

import (
	"fmt"

	"github.com/tensorfs/tensorfs"
)

// Blob is a blob that a manifest refers to.
type Blob struct {
	Name   string // in a store: blobs/sha256-HEX
	Digest string // sha256:HEX
	Size   int64
}

// Blobs returns the blobs that a model needs, each once: what a store holds beside
// the manifest at Name.Manifest, for [OpenFS]. path is the manifest's for messages.
func Blobs(path string, manifest []byte) ([]Blob, error) {
	m, err := parseManifest(path, manifest)
	if err != nil {
		return nil, err
	}
	layers := m.layers
	if m.config != nil {
		layers = append([]layer{*m.config}, layers...)
	}
	var blobs []Blob
	sizes := map[digest]int64{}
	for i := range layers {
		l := &layers[i]
		size, ok := sizes[l.digest]
		switch {
		case ok && size != l.size:
			return nil, &tensorfs.FormatError{File: path, Offset: -1, Problem: fmt.Sprintf("%s: it has %d bytes, and for another layer %d", l.digest, l.size, size)}
		case !ok:
			sizes[l.digest] = l.size
			blobs = append(blobs, Blob{l.digest.name(), l.digest.String(), l.size})
		}
	}
	return blobs, nil
}

// Manifest returns the name of the model's manifest in a store.
func (n Name) Manifest() string { return manifests + "/" + n.Path() }
