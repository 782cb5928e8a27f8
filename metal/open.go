package metal

import (
	"errors"
	"fmt"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/library"
	"github.com/tensorfs/tensorfs/views"
	"github.com/tensorfs/tensorfs/views/lora"
	"github.com/tensorfs/tensorfs/views/tree/whole/merged"
)

// Open opens a model: a file of any format, a directory, the name of a model in a
// store, or a directory where one is mounted or was exported to. A folder with several
// models is none.
func Open(model string, o Options) (*Loader, error) {
	m, err := merged.OpenPath(o.Model, model)
	if err != nil {
		return nil, err
	}
	if !formats.IsName(model) {
		err = library.Several(model, m, library.Options{})
	}
	if m.Shown != nil && o.I2S != "" {
		err = tensorfs.Unsupported(model, "a tree is as it was made, and another layout of I2_S codes cannot be chosen", "open the model itself, or mount it with --i2s "+o.I2S)
	}
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	if err := lora.Open(m, views.Options{I2S: o.I2S}, o.LoRA, o.Model.OpenAdapter); err != nil {
		return nil, errors.Join(fmt.Errorf("lora: %w", err), m.Close())
	}
	return New(m, o) // it closes m on error
}
