package ollama

import (
	"fmt"
	"os"
	"path/filepath"
)

// Blob is a blob of a model and what its bytes must hash to.
type Blob struct {
	Name   string // below source/; the first one, where layers share the blob
	Digest string // sha256: and 64 hexadecimal digits of the SHA-256 of the whole file
	Path   string // absolute
	Size   int64  // as the manifest says
}

// Open opens the blob and checks its size. It never blocks and follows no link
// out of the blobs directory.
func (b Blob) Open() (*os.File, error) {
	f, err := openBelow(filepath.Dir(b.Path), filepath.Base(b.Path))
	if err != nil {
		return nil, fmt.Errorf("%s (%s): %w", b.Name, b.Digest, err)
	}
	st, err := f.Stat()
	if err == nil && st.Size() != b.Size {
		err = fmt.Errorf("%s (%s): it has %d bytes, the manifest says %d; fetch the model again with 'ollama pull'", b.Name, b.Digest, st.Size(), b.Size)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Blobs returns the blobs that the manifest at path needs, each once, in the
// order of the manifest, its config first. It opens none of them.
func Blobs(path string) ([]Blob, error) {
	at, err := locateFile(path)
	if err != nil {
		return nil, err
	}
	text, err := at.read()
	if err != nil {
		return nil, fmt.Errorf("ollama: %s: %w", at.name(), err)
	}
	m, err := parseManifest(at.path(), text)
	if err != nil {
		return nil, fmt.Errorf("ollama: %s: %w", at.name(), err)
	}
	dir, err := filepath.Abs(filepath.Join(string(at.dir), "blobs"))
	if err != nil {
		return nil, err
	}
	var list []Blob
	seen := make(map[digest]bool)
	add := func(l *layer, label string) {
		if label != "" && !seen[l.digest] {
			seen[l.digest] = true
			list = append(list, Blob{label, l.digest.String(), filepath.Join(dir, l.digest.file()), l.size})
		}
	}
	if m.config != nil {
		add(m.config, labelConfig)
	}
	labels := m.labels()
	for i := range m.layers {
		add(&m.layers[i], labels[i])
	}
	return list, nil
}
