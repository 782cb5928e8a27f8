package whole

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/tensorfs/tensorfs"
)

// ReadText returns the content of one of the model's files, nil where the model
// has none of that name.
func ReadText(m *tensorfs.Model, name string, limit int64) ([]byte, error) {
	d, err := m.File(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case d.Size() > limit:
		return nil, fmt.Errorf("%s has %d bytes, and at most %d are read", name, d.Size(), limit)
	}
	text := make([]byte, d.Size())
	return text, tensorfs.ReadFull(d, text, 0)
}
