package tokenizer

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
)

// Names of files.
const (
	jsonName     = "tokenizer.json"
	pieceName    = "tokenizer.model"
	settingsName = "tokenizer_config.json"
	addedName    = "added_tokens.json"
)

// Limits of files, in bytes. A tokenizer.json of a quarter of a million tokens
// has 35 MB.
const (
	maxFile  = 128 << 20
	maxSmall = 32 << 20 // files that say what the vocabulary does not
)

// source is a model whose tokenizer is read.
type source struct {
	Options
	settings jsonobj.Object // tokenizer_config.json
	class    string         // its tokenizer_class
	document *document      // tokenizer.json; nil without one
}

func newSource(o Options) (*source, error) {
	s := &source{Options: o}
	var err error
	s.settings, err = s.object(settingsName)
	s.class = s.settings.Raw("tokenizer_class").Text()
	return s, err
}

// open returns a file of the model, nil where there is none.
func (s *source) open(name string) (tensorfs.Data, error) {
	d, err := s.File(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("%s: %s", name, tensorfs.OneLine(err.Error()))
	}
	return d, nil
}

func (s *source) has(name string) (bool, error) {
	d, err := s.open(name)
	return d != nil, err
}

// read returns the content of a file, nil where there is none.
func (s *source) read(name string, limit int64) ([]byte, error) {
	d, err := s.open(name)
	if d == nil || err != nil {
		return nil, err
	}
	n := d.Size()
	if n < 0 || n > limit {
		return nil, fmt.Errorf("%s has %d bytes, and at most %d are read", name, n, limit)
	}
	b := make([]byte, n)
	if err := tensorfs.ReadFull(d, b, 0); err != nil {
		return nil, fmt.Errorf("%s: %s", name, tensorfs.OneLine(err.Error()))
	}
	return b, nil
}

// object reads a small JSON file. One that is missing has no keys.
func (s *source) object(name string) (jsonobj.Object, error) {
	b, err := s.read(name, maxSmall)
	if b == nil || err != nil {
		return jsonobj.Object{}, err
	}
	o, err := jsonobj.Parse(b)
	if err != nil {
		err = fmt.Errorf("%s: %s", name, tensorfs.OneLine(err.Error()))
	}
	return o, err
}

// config returns a field of config.json, or of the object about the language model inside.
func (s *source) config(name string) jsonobj.Raw {
	if s.Config.Has(name) {
		return s.Config.Raw(name)
	}
	_, text := s.Config.Inner(architectures.TextConfigs)
	return text.Raw(name)
}

// boolean returns a value that is true or false.
func boolean(r jsonobj.Raw) (value, ok bool) {
	k := r.Kind()
	return k == 't', k == 't' || k == 'f'
}
