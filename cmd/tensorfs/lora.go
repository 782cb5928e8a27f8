package main

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/views/lora"
)

// absoluteAdapters makes paths of adapters independent of the working directory, which a
// server leaves.
func (f *modelFlags) absoluteAdapters() (err error) {
	for i, named := range f.lora {
		if named == "" {
			return usageError{errors.New("--lora: name an adapter")}
		}
		if !formats.IsName(named) && !filepath.IsAbs(named) {
			if f.lora[i], err = filepath.Abs(named); err != nil {
				return err
			}
		}
	}
	return nil
}

// openAdapted opens a model and applies the adapters that flags name.
func (f *modelFlags) openAdapted(o formats.Options, path string) (*tensorfs.Model, error) {
	m, err := o.Open(path)
	if err != nil || len(f.lora) == 0 {
		return m, err
	}
	var uses []lora.Use
	for _, named := range f.lora {
		a, by, err := o.OpenAdapter(named)
		if err != nil {
			for _, u := range uses {
				u.Model.Close()
			}
			return nil, errors.Join(fmt.Errorf("--lora %s: %w", printableName(named), err), m.Close())
		}
		uses = append(uses, lora.Use{Model: a, Adapter: by})
	}
	if err := lora.Apply(m, f.tree.Views, uses...); err != nil {
		return nil, errors.Join(fmt.Errorf("--lora: %w", err), m.Close())
	}
	return m, nil
}

// withAdapters is how a model is called to which adapters are applied.
func withAdapters(shown string, m *tensorfs.Model) string {
	for _, a := range m.Adapters {
		shown += "+" + a.String()
	}
	return shown
}
