package hfdir

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
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
		return path.Ext(name) != ".safetensors" && !strings.HasSuffix(name, ".safetensors.index.json") && name != configName
	})
}

// sources returns the model's own files of the names that are wanted.
func sources(m *tensorfs.Model, wanted func(name string) bool) (list []whole.File, err error) {
	for _, s := range m.Sources {
		if !wanted(s.Name) {
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

// isMLX reports whether a model's own files are what mlx-lm loads.
func isMLX(m *tensorfs.Model) (bool, error) {
	switch m.Format {
	case "mlx":
		return true, nil
	case "huggingface":
	default:
		return false, nil
	}
	text, err := storedConfig(m)
	if err != nil {
		return false, err
	}
	config, err := jsonobj.Parse(text)
	if err != nil {
		return false, fmt.Errorf("%s: %w", configName, err)
	}
	name := config.Raw("model_type").Text()
	class := architectures.MLXClasses()[name]
	if class == nil {
		return false, fmt.Errorf("mlx-lm is not known to have the model type %s", tensorfs.Quote(name))
	}
	if why := unloaded(m, class, newMLXConfig(config, true)); why != "" {
		return false, errors.New(why)
	}
	return true, nil
}
