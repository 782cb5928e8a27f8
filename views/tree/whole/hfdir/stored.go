package hfdir

import (
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/views/tree/whole"
	"github.com/tensorfs/tensorfs/views/tree/whole/internal/settings"
)

// asStored returns all files of a model that is such a directory already.
func asStored(m *tensorfs.Model) (*whole.Files, error) {
	f := &whole.Files{Tensors: len(m.Tensors), Types: map[string]int{}, Exact: true}
	for i := range m.Tensors {
		f.Types[m.Tensors[i].DType.String()]++
	}
	var err error
	f.List, err = sources(m, func(string) bool { return true })
	return f, err
}

// others returns the files of a model that hold no tensors and say nothing of how
// tensors are stored: tokenizer, chat template, generation config and so on.
func others(m *tensorfs.Model) ([]whole.File, error) {
	return sources(m, func(name string) bool {
		if m.Format == "ollama" && path.Ext(name) != ".json" {
			return false // manifest, template, licence and so on are of Ollama's own kinds
		}
		return !isWeights(name) && name != configName
	})
}

// isWeights reports whether a file holds tensors, or says in which file they are.
func isWeights(name string) bool {
	return path.Ext(name) == ".safetensors" || strings.HasSuffix(name, ".safetensors.index.json")
}

// sources returns the model's own files of the names that are wanted.
func sources(m *tensorfs.Model, wanted func(name string) bool) (list []whole.File, err error) {
	for _, s := range m.Sources {
		if s.Adapter || !wanted(s.Name) {
			continue
		}
		d, err := m.File(s.Name)
		if err != nil {
			return nil, err
		}
		list = append(list, whole.File{Path: s.Name, Data: d})
	}
	return list, nil
}

// maxConfig bounds a config.json.
const maxConfig = 16 << 20

// storedConfig returns the model's own config.json.
func storedConfig(m *tensorfs.Model) ([]byte, error) {
	text, err := settings.ReadText(m, configName, maxConfig)
	if err == nil && text == nil {
		err = fmt.Errorf("%s: %w", configName, fs.ErrNotExist)
	}
	return text, err
}
