package hf

import (
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/adapter"
	"github.com/tensorfs/tensorfs/internal/source"
)

// Match reports whether fsys has a directory of that name that OpenFS is for: one
// with a config.json, an index or safetensors files. It does not ask whether the
// model is sound or complete.
func Match(fsys fs.FS, dir string) bool {
	entries, err := source.Of(fsys).ReadDir(dir)
	return err == nil && slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		return e.Name() == "config.json" || strings.HasSuffix(e.Name(), indexSuffix) || path.Ext(e.Name()) == suffix
	})
}

// OpenFS opens the model in a directory of fsys.
func OpenFS(fsys fs.FS, dir string) (*tensorfs.Model, error) {
	src := source.Of(fsys)
	d, err := openFolder(src, dir)
	if err != nil {
		return nil, err
	}
	defer d.close()
	set, err := choose(d)
	if err != nil {
		return nil, err
	}
	return openSet(d, src.Location(dir), set)
}

// OpenFileFS opens a safetensors file: as OpenFS opens its directory if the file
// is the whole model of a directory with a config.json, else on its own.
func OpenFileFS(fsys fs.FS, file string) (*tensorfs.Model, error) {
	src := source.Of(fsys)
	dir, name := path.Dir(file), path.Base(file)
	d, err := openFolder(src, dir)
	defer d.close()
	b := &builder{model: tensorfs.Model{Format: "safetensors", Path: src.Location(file), Layout: "hf"}, dir: d, set: &fileSet{weights: []string{name}}}
	if err != nil || !d.has("config.json") && !d.isAdapter(name) {
		return b.build()
	}
	if d.isAdapter(name) { // beside a model, too
		return openSet(d, b.model.Path, b.set)
	}
	if set, err := choose(d); err == nil {
		switch {
		case len(set.weights) == 1 && set.weights[0] == name:
			return openSet(d, b.model.Path, set)
		case slices.Contains(set.weights, name):
			b.warn("%s is one of the %d files of a model; open the directory %s to see all of it", tensorfs.Printable(name), len(set.weights), tensorfs.Printable(src.Location(dir)))
		}
	}
	return b.build()
}

func openSet(d *folder, path string, set *fileSet) (*tensorfs.Model, error) {
	b := &builder{model: tensorfs.Model{Format: "huggingface", Path: path, Layout: "hf"}, dir: d, set: set, isDirectory: true}
	switch {
	case d.isAdapter(set.weights[0]):
		b.model.Format = adapter.Format
	case d.adapter() == adapter.WeightsName:
		b.warn("%s beside the model is an adapter, which is not applied; transformers applies it, and so does --lora", adapter.WeightsName)
	case d.adapter() != "":
		b.warn("%s beside the model is an adapter of mlx-lm, which is not applied; --lora applies it", d.adapter())
	}
	for _, w := range set.warnings {
		b.warn("%s", w)
	}
	var err error
	if b.config, err = optionalObject(d, "config.json"); err != nil {
		return nil, err
	}
	if b.model.Format == adapter.Format {
		if b.adapter, err = optionalObject(d, adapter.ConfigName); err != nil {
			return nil, err
		}
	}
	if b.modelOpt, err = optionalObject(d, "hf_quant_config.json"); err != nil {
		return nil, err
	}
	if b.generation, err = optionalObject(d, "generation_config.json"); err != nil {
		b.warn("%v", err) // nothing here depends on it
	}
	return b.build()
}
