package models

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/metal"
	"github.com/tensorfs/tensorfs/views"
)

// Options choose how a model is opened. The zero value is the default.
type Options struct {
	metal.Options
	// Views names the views to have; nil for those that a mount has. A view is made
	// when it is first asked for. A mounted or exported tree has those that it has.
	Views []string
	// I2S is the layout of I2_S codes: one of views.I2SLayouts, "" to go by the size.
	// Of a tree it cannot be chosen any more, which is an error.
	I2S string
	// Model says how the model's files are found and read. With Formats of a
	// [github.com/tensorfs/tensorfs/formats/remote.Client] they may be on servers.
	Model formats.Options
	// CacheDir is the directory of the cache; "" for that of "tensorfs cache dir".
	CacheDir string
	// CacheLimit is how many bytes converted models may take there; 0 for a quarter of
	// what is free and what they take.
	CacheLimit int64
	// Logger hears why the cache cannot be used; nil for nobody.
	Logger *slog.Logger
}

// Open opens a model: a file of any format, a directory, the name of a model in a
// store, or a directory where one is mounted or was exported to.
func Open(model string, o Options) (*metal.Loader, error) {
	if isTree(model) {
		if o.I2S != "" {
			return nil, tensorfs.Unsupported(model, "a tree is as it was made, and another layout of I2_S codes cannot be chosen", "open the model itself, or mount it with --i2s "+o.I2S)
		}
		return metal.Open(model, o.Options)
	}
	m, err := o.Model.Open(model)
	if err != nil {
		return nil, err
	}
	t, err := NewTree(m, o)
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return metal.New(t, o.Options) // it closes t on error
}

// isTree reports whether a directory is a mounted or exported tree: it has an
// index.json and a view.
func isTree(dir string) bool {
	if st, err := os.Stat(filepath.Join(dir, "index.json")); err != nil || !st.Mode().IsRegular() {
		return false
	}
	for _, v := range views.All {
		if st, err := os.Stat(filepath.Join(dir, v.Name)); err == nil && st.IsDir() {
			return true
		}
	}
	return false
}
