package tree

import (
	"errors"
	"slices"
	"sync"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/adapter"
	"github.com/tensorfs/tensorfs/formats/exported"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/convert/hf"
)

// kinds are the kinds of whole-model files, each a directory of the tree.
var kinds = []struct {
	name string
	make func(*tensorfs.Model, convert.Options) *convert.Files
}{
	{"gguf", convert.GGUF},
	{"hf", hf.HF},
	{"mlx", hf.MLX},
}

// WholeHelp describes each directory of whole-model files in a line.
var WholeHelp = map[string]string{
	"gguf": "for llama.cpp: llama-server -m gguf/model.gguf",
	"hf":   "for transformers, vLLM and candle: from_pretrained('hf')",
	"mlx":  "for mlx-lm: mlx_lm.generate --model mlx",
}

// Whole is a directory of whole-model files.
type Whole struct {
	Name string

	make  func() *convert.Files
	mu    sync.Mutex
	files *convert.Files
}

// Files returns the files. They are made by the first call, and kept.
func (w *Whole) Files() *convert.Files {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.files == nil {
		w.files = w.make()
		// The model may itself be such a directory, and this is about another one.
		w.files.List = slices.DeleteFunc(w.files.List, func(f convert.File) bool { return f.Path == description })
	}
	return w.files
}

// WholeFiles returns the files of one of the directories of whole models: gguf, hf or mlx.
// It is nil if the tree has no such directory.
func (t *Tree) WholeFiles(name string) *convert.Files {
	for _, w := range t.Whole {
		if w.Name == name {
			return w.Files()
		}
	}
	return nil
}

// WholeModel returns [Tree.WholeFiles], or an error that explains why the directory has no files.
func (t *Tree) WholeModel(name string) (*convert.Files, error) {
	switch f := t.WholeFiles(name); {
	case f == nil:
		return nil, errors.New("there is no " + name + "/")
	case f.Reason != "":
		return nil, errors.New(name + "/ has no files: " + tensorfs.OneLine(f.Reason))
	default:
		return f, nil
	}
}

// description is the file that lists the content of a directory of whole-model files, or
// why it is empty.
const description = "tensorfs.json"

// errNotWhole explains why an exported tree has no whole models.
var errNotWhole = errors.New("an exported tree lacks parts of the model's own files, such as the tokenizer: name the model that it was exported from")

// errAdapter explains why an adapter without its base is not a whole model.
var errAdapter = errors.New("an adapter: give it with --lora to its base")

// wholes returns the directories of whole-model files. They are made on first access.
func wholes(m *tensorfs.Model, opts convert.Options) (all []*Whole) {
	for _, k := range kinds {
		files := func() *convert.Files { return k.make(m, opts) }
		switch m.Format {
		case adapter.Format:
			files = func() *convert.Files { return convert.Absent(errAdapter) }
		case exported.Format:
			files = func() *convert.Files { return convert.Absent(errNotWhole) }
		}
		all = append(all, &Whole{Name: k.name, make: files})
	}
	return all
}

// dir returns the files as a directory.
func (w *Whole) dir() tensorfs.Dir {
	return tensorfs.NewLater(func() tensorfs.Dir {
		files := w.Files()
		list := []tensorfs.Entry{{Name: description, Data: tensorfs.Bytes(files.Describe())}}
		for _, f := range files.List {
			list = append(list, tensorfs.Entry{Name: f.Path, Data: f.Data})
		}
		return tensorfs.Nest(list, nil)
	})
}
