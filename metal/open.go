package metal

import (
	"errors"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/models"
)

// Open opens a model: a file of any format, a directory, the name of a model in a store, or
// a directory with a mounted or exported tree. A folder with several models is an error.
func Open(model string, o Options) (*Loader, error) {
	m, err := models.Open(model, o.modelOptions())
	if err != nil {
		return nil, err
	}
	if m.Shown != nil && o.I2S != "" {
		err = tensorfs.Unsupported(model, "a tree is as it was made, and another layout of I2_S codes cannot be chosen", "open the model itself, or mount it with --i2s "+o.I2S)
		return nil, errors.Join(err, m.Close())
	}
	return newLoader(newTree(m, o), o)
}

// modelOptions are the options that are about the model.
func (o *Options) modelOptions() models.Options {
	return models.Options{Files: o.Model, Views: o.Views, I2S: o.I2S, LoRA: o.LoRA, Convert: o.Convert}
}
