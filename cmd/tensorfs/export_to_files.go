package main

import (
	"cmp"
	"context"
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/gguf"
	"github.com/tensorfs/tensorfs/formats/hub"
	"github.com/tensorfs/tensorfs/formats/ollama"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/export"
	"github.com/tensorfs/tensorfs/internal/stores"
)

// files are the files of a directory of whole models.
func (s *toStore) files(kind string) ([]export.File, error) {
	files, err := s.tree.WholeModel(kind)
	if err != nil {
		return nil, err
	}
	for _, n := range files.AllNotes() {
		if n == gguf.FromOllama || strings.HasPrefix(n, convert.NotLoaded) {
			s.note = tensorfs.OneLine(n)
		}
	}
	for _, part := range []string{convert.Audio, convert.Vision} {
		if why := files.Left[part]; why != "" {
			s.note = "without its " + part + " tower: " + tensorfs.OneLine(why)
		}
	}
	var list []export.File
	for _, f := range files.List {
		list = append(list, export.File{Path: f.Path, Data: f.Data})
	}
	return list, nil
}

// gguf returns the files of gguf/, the language model first and then its vision tower. A
// tower that is beside the model, and not in gguf/, gets the name that it would have there.
func (s *toStore) gguf() ([]export.File, error) {
	files, err := s.files("gguf")
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(files, languageFirst)
	m := s.tree.Model
	if len(files) > 1 || m.Layout != "gguf" {
		return files, nil
	}
	d, note, err := s.o.checked.TowerFile(m)
	if err != nil {
		return nil, err
	}
	if d == nil {
		s.note = cmp.Or(note, s.note)
		return files, nil
	}
	s.note = ""
	if f, ok := d.(interface{ Descriptor() int }); ok { // the model's facts do not have it
		state, err := stateOf(f.Descriptor())
		if err != nil {
			return nil, err
		}
		s.options.Export.Facts = append(s.options.Export.Facts, export.Fact{What: "vision tower", Is: state})
	}
	return append(files, export.File{Path: convert.TowerFile, Data: d}), nil
}

// languageFirst orders the files of gguf/.
func languageFirst(a, b export.File) int {
	rank := func(f export.File) int {
		if f.Path == convert.LanguageFile {
			return 0
		}
		return 1
	}
	return rank(a) - rank(b)
}

// ollama writes gguf/ into Ollama's store. What another model of Ollama has beside it, the
// new one has too.
func (s *toStore) ollama(ctx context.Context) (*stores.Report, error) {
	n, err := ollama.ParseName(strings.TrimPrefix(s.name, ollama.Prefix))
	if err != nil {
		return nil, err
	}
	files, err := s.gguf()
	if err != nil {
		return nil, err
	}
	parent := stores.Parent{Kinds: map[string]string{convert.TowerFile: "projector"}}
	if m := s.tree.Model; m.Format == "ollama" {
		parent.Name = strings.TrimPrefix(m.Name, ollama.Prefix)
		if parent.Layers, parent.Config, err = ollama.KeptLayers(m, parent.Name); err != nil {
			return nil, err
		}
		for _, w := range ollama.OtherWeights(m) {
			d, err := m.File(w.Name)
			if err != nil {
				return nil, err
			}
			files = append(files, export.File{Path: w.Name, Data: d})
			parent.Kinds[w.Name] = w.Kind
		}
	}
	return stores.Ollama(ctx, s.dir, n, files, parent, s.options)
}

// lmstudio writes gguf/ or mlx/ into LM Studio's folder. The language model, or config.json, comes
// last: LM Studio is not to see the model without the other files.
func (s *toStore) lmstudio(ctx context.Context) (*stores.Report, error) {
	if s.o.to.kind == "mlx" {
		files, err := s.files("mlx")
		if err != nil {
			return nil, err
		}
		slices.SortStableFunc(files, func(a, b export.File) int { return configRank(a) - configRank(b) })
		return stores.LMStudio(ctx, s.dir, s.name, files, s.options)
	}
	files, err := s.gguf()
	if err != nil {
		return nil, err
	}
	base := s.name[strings.IndexByte(s.name, '/')+1:]
	q := s.o.checked.Tree.Whole.Quantise
	switch m := s.tree.Model; { // LM Studio takes the type from the name
	case q != nil && q.From != nil:
		base += "-" + q.From.Label()
	case q != nil:
		base += "-" + strings.ToUpper(s.o.GGUFType)
	case m.Format == "gguf" && len(m.Sources) == 1:
		base = strings.TrimSuffix(path.Base(m.Sources[0].Name), ".gguf")
	}
	for i := range files {
		switch f := &files[i]; f.Path {
		case convert.LanguageFile:
			f.Path = base + ".gguf"
		default:
			f.Path = strings.TrimSuffix(f.Path, ".gguf") + "-" + base + ".gguf"
		}
	}
	slices.Reverse(files)
	return stores.LMStudio(ctx, s.dir, s.name, files, s.options)
}

// configRank orders config.json after other files.
func configRank(f export.File) int {
	if f.Path == "config.json" {
		return 1
	}
	return 0
}

// hfCache writes hf/ into the Hugging Face cache.
func (s *toStore) hfCache(ctx context.Context) (*stores.Report, error) {
	files, err := s.files("hf")
	if err != nil {
		return nil, err
	}
	return stores.HuggingFace(ctx, s.dir, strings.TrimPrefix(s.name, hub.Prefix), files, s.options)
}

// hubToCache puts a repository of the Hub into the Hugging Face cache as it is, with its own
// commit: what fetch does.
func (o *exportOptions) hubToCache(cmd *cobra.Command, model string) error {
	if o.Dequantise {
		return cli.UsageError{Err: errors.New("--dequantise makes another model of it: choose another ORG/NAME")}
	}
	return o.fetch(cmd, model, fetchHow{json: o.json, forOthers: true})
}
