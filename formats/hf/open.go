package hf

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/tensorfs/tensorfs"
)

// Match reports whether dir is a directory that Open is for: one with a
// config.json, an index or safetensors files, or a model's folder in the Hugging
// Face cache. It does not ask whether the model is sound or complete.
func Match(dir string) bool {
	if !isDir(dir) {
		return false
	}
	for _, name := range []string{"config.json", indexName} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return true
		}
	}
	if isCacheFolder(dir) {
		return true
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, e := range entries {
		if filepath.Ext(e.Name()) == ".safetensors" {
			return true
		}
	}
	return false
}

// Open opens the model in a directory, or in a model's folder of the Hugging
// Face cache.
func Open(dir string) (*tensorfs.Model, error) {
	if _, err := os.Stat(dir); err != nil {
		return nil, tensorfs.PathError(dir, err)
	}
	if !isDir(dir) {
		return nil, &tensorfs.FormatError{File: dir, Offset: -1, Problem: "it is not a directory", Advice: "name the model's directory"}
	}
	snap, warning := dir, ""
	if isCacheFolder(dir) && !hasConfig(dir) {
		var err error
		if snap, warning, err = snapshot(dir, ""); err != nil {
			return nil, err
		}
	}
	return openDir(snap, dir, warning)
}

// OpenFile opens a safetensors file: as Open opens its directory if the file is
// the whole model of a directory with a config.json, else on its own.
func OpenFile(path string) (*tensorfs.Model, error) {
	dir, name := filepath.Split(path)
	if dir == "" {
		dir = "."
	}
	b := &builder{model: tensorfs.Model{Format: "safetensors", Path: path, Layout: "hf"}, dir: dir, set: &fileSet{weights: []string{name}}}
	if set, err := choose(dir); err == nil && hasConfig(dir) {
		switch {
		case len(set.weights) == 1 && set.weights[0] == name:
			return openSet(dir, path, set)
		case slices.Contains(set.weights, name):
			b.warn("%s is one of the %d files of a model; open the directory %s to see all of it", tensorfs.Printable(name), len(set.weights), tensorfs.Printable(filepath.Clean(dir)))
		}
	}
	return b.build()
}

// hasConfig reports whether a directory has a config.json, be it a broken link.
func hasConfig(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, "config.json"))
	return err == nil
}

// openDir opens the model in dir, which the user knows as path.
func openDir(dir, path, warning string) (*tensorfs.Model, error) {
	set, err := choose(dir)
	if err != nil {
		return nil, err
	}
	if warning != "" {
		set.warnings = append(set.warnings, warning)
	}
	return openSet(dir, path, set)
}

func openSet(dir, path string, set *fileSet) (*tensorfs.Model, error) {
	b := &builder{model: tensorfs.Model{Format: "huggingface", Path: path, Layout: "hf"}, dir: dir, set: set, whole: true}
	for _, w := range set.warnings {
		b.warn("%s", w)
	}
	var err error
	if b.config, err = optionalObject(filepath.Join(dir, "config.json")); err != nil {
		return nil, err
	}
	if b.modelOpt, err = optionalObject(filepath.Join(dir, "hf_quant_config.json")); err != nil {
		return nil, err
	}
	if b.generation, err = optionalObject(filepath.Join(dir, "generation_config.json")); err != nil {
		b.warn("%v", err) // nothing here depends on it
	}
	return b.build()
}

// readDir lists a directory, sorted by name.
func readDir(dir string) ([]fs.DirEntry, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, tensorfs.PathError(dir, err)
	}
	return entries, nil
}

// reason strips the operation and the path from an error of package os.
func reason(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}
