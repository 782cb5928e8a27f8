package tokenizer_test

import (
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/tokenizer"
)

// keyed is a vocabulary as keys of GGUF.
type keyed struct {
	Meta  []tensorfs.Meta
	Count int
	Notes []string
}

// read reads the tokenizer of a directory and returns its keys.
func read(o tokenizer.Options) (*keyed, error) {
	v, err := tokenizer.ReadFiles(o)
	if err != nil {
		return nil, err
	}
	list, err := v.Keys()
	if err != nil {
		return nil, err
	}
	return &keyed{list, len(v.Tokens), v.Notes}, nil
}

// written reads the tokenizer of metadata and returns the files of a directory.
func written(get func(key string) any, arch string) (map[string][]byte, error) {
	v, err := tokenizer.ReadKeys(get, arch)
	if err != nil {
		return nil, err
	}
	return v.Files()
}

// meta returns the keys of a tokenizer.
func meta(t *keyed) map[string]any {
	m := map[string]any{}
	for _, e := range t.Meta {
		m[e.Key] = e.Value
	}
	return m
}
