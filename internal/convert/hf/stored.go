package hf

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/names"
	"github.com/tensorfs/tensorfs/formats/safetensors"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/convert/internal/settings"
)

// asStored returns all files of a model that is such a directory already.
func asStored(m *tensorfs.Model) (*convert.Files, error) {
	f := &convert.Files{Tensors: len(m.Tensors), Types: map[string]int{}, Exact: true}
	for i := range m.Tensors {
		f.Types[m.Tensors[i].DType.String()]++
	}
	var err error
	f.List, err = sources(m, func(string) bool { return true })
	return f, err
}

// withoutLeftovers returns the model without what training left before the names of all its
// tensors or in the middle of some, which no library takes off, and the file that has them; nil if there is nothing to take off.
func (k *kind) withoutLeftovers(m *tensorfs.Model) (*tensorfs.Model, *convert.Files, error) {
	if m.Format != "huggingface" || len(m.Tensors) == 0 {
		return nil, nil, nil
	}
	clean := *m
	clean.Tensors = slices.Clone(m.Tensors)
	list := make([]safetensors.Stored, len(m.Tensors))
	_, prefix, _ := names.Leftover(m.Tensors[0].Source)
	everywhere := prefix != "" && !slices.ContainsFunc(m.Tensors, func(t tensorfs.Tensor) bool { _, before, _ := names.Leftover(t.Source); return before == "" })
	var inner string
	seen := make(map[string]bool, len(list))
	for i := range clean.Tensors {
		t := &clean.Tensors[i]
		name, before, part := names.Leftover(t.Source)
		if !everywhere {
			name = before + name
		}
		if seen[name] || strings.Contains(name, ".lora_") { // an adapter beside its base
			return nil, nil, nil
		}
		t.Source, inner, seen[name] = name, cmp.Or(inner, part), true
		list[i] = safetensors.Stored{Name: t.Source, DType: t.DType, Shape: t.Shape, Data: t.Data}
	}
	var taken []string
	if everywhere {
		taken = append(taken, "the "+tensorfs.Quote(prefix)+" that training left before their names")
	}
	if inner != "" {
		taken = append(taken, "the "+tensorfs.Quote(inner)+" that training left in them")
	}
	if taken == nil {
		return nil, nil, nil
	}
	f, err := asStored(&clean)
	if err != nil {
		return nil, nil, err
	}
	return &clean, f, inOneFile(f, k, list, "the tensors are in one file, without "+strings.Join(taken, " and "))
}

// noteAdapter notes that the tensors of an adapter are among the model's own, which only code that is beside
// config.json may load.
func (k *kind) noteAdapter(m *tensorfs.Model, f *convert.Files) {
	at := slices.IndexFunc(m.Tensors, func(t tensorfs.Tensor) bool { return strings.Contains(t.Source, ".lora_A.") })
	if m.Format != "huggingface" || at < 0 {
		return
	}
	cfg, err := settings.Read(m, configName)
	if k == hf && err == nil && cfg.Top().Has("auto_map") {
		return
	}
	who := map[*kind]string{hf: "transformers", mlx: "mlx-lm"}[k]
	f.Notes = append(f.Notes, fmt.Sprintf("the tensors of an adapter, such as %s, are among the model's own, and %s loads neither them nor the weights that they change", tensorfs.Quote(m.Tensors[at].Source), who))
}

// filesWithoutTensors returns the files of a model that hold no tensors and say nothing of how
// tensors are stored: tokenizer, chat template, generation config and so on.
func filesWithoutTensors(m *tensorfs.Model) ([]convert.File, error) {
	return sources(m, func(name string) bool {
		if m.Format == "ollama" && path.Ext(name) != ".json" {
			return false // manifest, template, licence and so on are of Ollama's own kinds
		}
		return !isWeights(name) && name != configName
	})
}

// isWeights reports whether a file holds the model's tensors, or maps them to files. Files
// in folders belong to modules beside the model.
func isWeights(name string) bool {
	return !strings.Contains(name, "/") && (path.Ext(name) == ".safetensors" || strings.HasSuffix(name, ".safetensors.index.json"))
}

// sources returns the model's own files of the names that are wanted.
func sources(m *tensorfs.Model, wanted func(name string) bool) (list []convert.File, err error) {
	for _, s := range m.Sources {
		if s.Adapter || !wanted(s.Name) {
			continue
		}
		d, err := m.File(s.Name)
		if err != nil {
			return nil, err
		}
		list = append(list, convert.File{Path: s.Name, Data: d})
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
