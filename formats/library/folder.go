package library

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/exported"
	"github.com/tensorfs/tensorfs/formats/gguf"
	"github.com/tensorfs/tensorfs/formats/hub"
	"github.com/tensorfs/tensorfs/formats/names"
	"github.com/tensorfs/tensorfs/formats/pick"
	"github.com/tensorfs/tensorfs/internal/near"
	"github.com/tensorfs/tensorfs/internal/source"
)

const (
	ggufSuffix  = ".gguf"
	tensors     = ".safetensors"
	indexSuffix = ".safetensors.index.json"
	config      = "config.json"
)

// isWeights reports whether a name belongs to a file with tensors.
func isWeights(name string) bool {
	return strings.HasSuffix(name, ggufSuffix) || strings.HasSuffix(name, tensors)
}

// matters reports whether an entry below a folder has to do with models.
func matters(e entry) bool {
	return e.isDir() || e.isFile() && (isWeights(e.name) || strings.HasSuffix(e.name, indexSuffix) || e.name == config)
}

// isModel reports whether a directory with these files is a model's own: one with a
// config or an index beside its safetensors, or with shards of them.
func isModel(files []string) bool {
	return pick.Whole(files) || slices.ContainsFunc(files, func(f string) bool {
		shard, isTensors := strings.CutSuffix(f, tensors)
		if isTensors && strings.HasPrefix(f, "model") {
			_, _, _, isTensors = gguf.Shard(shard + ggufSuffix)
			return isTensors
		}
		return strings.HasSuffix(f, indexSuffix)
	})
}

// files returns the names of entries that are files, or links.
func files(entries []entry) (names []string) {
	for _, e := range entries {
		if e.isFile() {
			names = append(names, e.name)
		}
	}
	return names
}

// Single reports whether a directory is a model, so that it is not a library: a
// repository's folder in the Hugging Face cache is one, too, and so are a mounted or
// exported tree, and a directory with one GGUF model at its top and none below.
func Single(dir string, o Options) bool {
	src, err := source.Dir(dir, source.Anywhere)
	if err != nil {
		return false
	}
	defer src.Close()
	if hub.IsFolder(src, ".") {
		return true
	}
	if found, err := src.ReadDir("."); err == nil && exported.Match(found) {
		return true
	}
	entries, err := readDirectory(dir, matters)
	if err != nil {
		return false
	}
	all := files(entries)
	name, refusal := pick.Model(all, pick.Select{})
	if refusal != nil {
		return false
	}
	if name != "." {
		return !slices.ContainsFunc(entries, entry.isDir) || len(Below(dir, o)) == 0
	}
	return isModel(all) || slices.Contains(all, config) ||
		slices.ContainsFunc(all, func(f string) bool {
			return strings.HasPrefix(f, "model") || strings.HasPrefix(f, "diffusion_pytorch_model")
		})
}

// Below returns the models in the directories of a folder, without those at its top.
func Below(dir string, o Options) []*Model {
	l, err := open(dir, folder, []string{dir}, o)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(l.Now().Models, func(m *Model) bool { return !strings.Contains(m.Rel, "/") && m.files != nil })
}

// Several returns an error if a model that was opened by the path of a directory is the one
// at its top, and more models are below: the directory is a library, and the choice is
// ambiguous.
func Several(path string, m *tensorfs.Model, o Options) error {
	if m.Format != "gguf" || !source.HasDir(path) || Single(path, o) {
		return nil
	}
	dir, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	names := []string{m.Path}
	for _, b := range Below(dir, o) {
		names = append(names, b.Path())
	}
	return tensorfs.Unsupported(dir, fmt.Sprintf("it is a folder with %d models: %s", len(names), near.List(names)),
		"name one of them; tensorfs list "+tensorfs.Printable(path)+" describes all, and tensorfs mount mounts all")
}

// folder finds the models below a directory.
var folder = &kind{find: func(s *search, place string) {
	if entries, _ := s.dir(place, matters); isModel(files(entries)) {
		s.add(s.model(place, "."), path.Base(place))
		return
	}
	s.below(place, ".", nil, func(rel string) string { return filepath.Join(place, rel) })
}}

// model returns the model of a directory.
func (s *search) model(root, rel string) *Model {
	return &Model{Call: filepath.Join(root, rel), Root: root, Rel: rel, foreign: s.foreign}
}

// below finds the models in a directory that is not a model itself, and in its
// subdirectories. Their names begin with parts, and call names a path for messages.
func (s *search) below(root, rel string, parts []string, call func(rel string) string) {
	dir := filepath.Join(root, rel)
	entries, err := s.dir(dir, matters)
	if err != nil {
		return // what cannot be read has no models for us
	}
	name := func(last string) string {
		return strings.Join(append(parts[:len(parts):len(parts)], names.Escape(last)), "/")
	}
	add := func(file string, stem string, set []string) {
		m := s.model(root, path.Join(rel, file))
		m.Call = call(m.Rel)
		for _, f := range set {
			m.files = append(m.files, filepath.Join(dir, f))
		}
		s.add(m, name(stem), name(file))
	}
	var weights []string
	for _, e := range entries {
		if isWeights(e.name) && e.isFile() && s.regular(dir, e) {
			weights = append(weights, e.name)
		}
	}
	for _, c := range pick.Choices(weights) {
		add(c.Path, c.Base, shards(weights, c.Path))
	}
	for _, f := range weights {
		if stem, ok := strings.CutSuffix(f, tensors); ok {
			add(f, stem, []string{f})
		}
	}
	for _, e := range entries {
		if !e.isDir() || s.truncated {
			continue
		}
		at := path.Join(rel, e.name)
		inside, _ := s.dir(filepath.Join(root, at), matters)
		deeper := append(parts[:len(parts):len(parts)], names.Escape(e.name))
		if isModel(files(inside)) {
			m := s.model(root, at)
			m.Call = call(at)
			s.add(m, strings.Join(deeper, "/"))
		} else if len(deeper) < maxDepth {
			s.below(root, at, deeper, call)
		}
	}
}

// shards returns the files of a set, or the one file.
func shards(all []string, first string) []string {
	prefix, _, count, ok := gguf.Shard(first)
	if !ok {
		return []string{first}
	}
	var set []string
	for _, f := range all {
		if p, _, n, ok := gguf.Shard(f); ok && p == prefix && n == count {
			set = append(set, f)
		}
	}
	return set
}
