package library

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/hub"
	"github.com/tensorfs/tensorfs/formats/names"
	"github.com/tensorfs/tensorfs/formats/ollama"
	"github.com/tensorfs/tensorfs/formats/pick"
	"github.com/tensorfs/tensorfs/internal/environ"
	"github.com/tensorfs/tensorfs/internal/source"
)

// LMStudio names the models folder of LM Studio.
const LMStudio = environ.LMStudio

// Stores are the names of the stores of other programs.
var Stores = []string{ollama.Prefix, hub.Prefix, LMStudio}

// Open looks through the library that a user names: "ollama:", "hf:", "lmstudio:" or a
// folder, which may also be a store. The error is [fs.ErrNotExist] if the library does not
// exist.
func Open(name string, o Options) (*Library, error) {
	if slices.Contains(Stores, name) {
		return openStore(name, o)
	}
	dir, err := filepath.Abs(name)
	if err != nil {
		return nil, err
	}
	if store, rest, _ := strings.Cut(name, ":"); rest != "" && slices.Contains(Stores, store+":") {
		if _, err := os.Lstat(dir); err != nil {
			return nil, &tensorfs.FormatError{File: name, Offset: -1, Problem: "it is the name of one model, and a library has many", Advice: "tensorfs info " + tensorfs.Printable(name) + " describes it; the library's name is " + store + ":"}
		}
	}
	if st, err := os.Stat(dir); err != nil {
		e := tensorfs.PathError(dir, err)
		if slices.Contains(Stores, name+":") {
			e.Advice = "did you mean " + name + ":?"
		} else if errors.Is(err, fs.ErrNotExist) {
			e.Advice = "name a folder with models, ollama:, hf: or lmstudio:"
		}
		return nil, e
	} else if !st.IsDir() {
		return nil, &tensorfs.FormatError{File: dir, Offset: -1, Problem: "it is not a directory", Advice: "name a folder with models, ollama: or hf:"}
	}
	return open(dir, kindOf(dir), []string{dir}, o)
}

// openStore opens the store of another program.
func openStore(name string, o Options) (*Library, error) {
	k, places, err := placesOf(name)
	switch {
	case err == nil:
		return open(name, k, places, o)
	case o.Missing && errors.Is(err, fs.ErrNotExist):
		return openMissing(name, k, places, err, o)
	}
	return nil, err
}

// Absent returns the error of Open if name is a store that does not exist.
func Absent(name string) error {
	if !slices.Contains(Stores, name) {
		return nil
	}
	if _, _, err := placesOf(name); errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// placesOf returns the directories of a store. Without any it returns an error and the directories
// that the store would have.
func placesOf(name string) (k *kind, places []string, err error) {
	absent := &tensorfs.FormatError{File: strings.TrimSuffix(name, ":"), Offset: -1, Kind: fs.ErrNotExist}
	exists := func(place string) bool { return source.HasDir(place) }
	switch name {
	case ollama.Prefix:
		k = ollamaStore
		for _, p := range environ.OllamaStores(environ.Process) {
			places = append(places, p.Path)
		}
		exists = func(place string) bool { return source.HasDir(filepath.Join(place, manifests)) }
		absent.Problem, absent.Advice = "there is no Ollama store here that can be read", "set OLLAMA_MODELS to the directory that holds manifests and blobs"
	case hub.Prefix:
		k = hubCache
		cache, err := environ.HuggingFaceCache(environ.Process)
		if err != nil {
			return nil, nil, err
		}
		places = []string{cache}
		absent.Problem, absent.Advice = "there is no Hugging Face cache at "+tensorfs.Printable(cache), "set HF_HOME to the directory that contains it"
	case LMStudio:
		k = lmStudio
		dir, err := environ.LMStudioModels()
		if err != nil {
			return nil, nil, err
		}
		places = []string{dir}
		absent.Problem, absent.Advice = "there are no models of LM Studio at "+tensorfs.Printable(dir), "name the folder that contains them"
	}
	here := slices.DeleteFunc(slices.Clone(places), func(p string) bool { return !exists(p) })
	if len(here) == 0 {
		return k, places, absent
	}
	return k, here, nil
}

// kindOf returns how models are kept in a directory, by what is in it.
func kindOf(dir string) *kind {
	if source.HasDir(filepath.Join(dir, manifests)) && source.HasDir(filepath.Join(dir, "blobs")) {
		return ollamaStore
	}
	entries, _ := readDirectory(dir, func(e entry) bool { _, ok := hub.Repository(e.name); return ok }) // Open reports why it cannot be read
	if len(entries) > 0 {
		return hubCache
	}
	return folder
}

const manifests = "manifests"

// ollamaStore finds the models of a store:
//
//	manifests/HOST/NAMESPACE/MODEL/TAG
//
// They are named as Ollama shows them. Where two names collide, one has the host in
// front.
var ollamaStore = &kind{deeper: true, find: func(s *search, place string) {
	known := map[string]bool{} // in a store before: it comes first
	for _, c := range s.found {
		known[c.model.Call] = true
	}
	s.level(place, manifests, 4, func(rel string) {
		p := strings.Split(rel, "/")
		n, err := ollama.ParseName(p[1] + "/" + p[2] + "/" + p[3] + ":" + p[4])
		if err != nil || n.Path() != strings.Join(p[1:], "/") || known[ollama.Prefix+n.String()] {
			return // Ollama would not list it, or not this one
		}
		m := &Model{Call: ollama.Prefix + n.String(), Root: place, Rel: rel, files: []string{filepath.Join(place, rel)}, text: true, foreign: s.foreign}
		full := []string{n.Host, n.Namespace, n.Model, n.Tag}
		shown := strings.Split(strings.TrimSuffix(n.String(), ":"+n.Tag), "/")
		s.add(m, strings.Join(escape(append(shown, n.Tag)), "/"), strings.Join(escape(full), "/"))
	})
}}

// lmStudio finds the models in the folder of LM Studio, PUBLISHER/NAME/FILE. They have LM
// Studio's names, with the file's name if there are several.
var lmStudio = &kind{find: func(s *search, place string) {
	s.below(place, ".", nil, func(rel string) string { return LMStudio + rel })
	beside := map[string]int{}
	for _, c := range s.found {
		beside[path.Dir(c.model.Rel)]++
	}
	for _, c := range s.found {
		if dir := path.Dir(c.model.Rel); len(c.model.files) > 0 && strings.HasSuffix(c.model.files[0], ggufSuffix) && strings.Count(dir, "/") == 1 && beside[dir] == 1 {
			c.model.Call = LMStudio + dir
		}
	}
}}

// level calls fn for the files that are depth directories deep.
func (s *search) level(root, rel string, depth int, fn func(rel string)) {
	dir := filepath.Join(root, rel)
	entries, _ := s.dir(dir, nil) // what cannot be read has no models for us
	for _, e := range entries {
		switch at := path.Join(rel, e.name); {
		case depth == 1 && e.isFile() && s.regular(dir, e):
			fn(at)
		case depth > 1 && e.isDir():
			s.level(root, at, depth-1, fn)
		}
	}
}

// escape makes names of files of the parts of a name.
func escape(parts []string) []string {
	for i, p := range parts {
		parts[i] = names.Escape(p)
	}
	return parts
}

// hubCache finds the models in a cache of the Hugging Face hub:
//
//	models--ORG--NAME/refs/REF               a commit
//	models--ORG--NAME/snapshots/COMMIT/...   links to files
//
// A snapshot with several models is a directory with them.
var hubCache = &kind{find: func(s *search, place string) {
	entries, _ := s.dir(place, func(e entry) bool { _, ok := hub.Repository(e.name); return ok }) // an unreadable folder counts as empty
	for _, e := range entries {
		if s.truncated {
			return
		}
		if e.isDir() || e.kind == fs.ModeSymlink { // to a disk with more room
			repository, _ := hub.Repository(e.name)
			s.repository(filepath.Join(place, e.name), repository)
		}
	}
}}

// repository finds the models of a repository in its folder.
func (s *search) repository(at, repository string) {
	entries, _ := s.dir(filepath.Join(at, "snapshots"), nil) // without any, there are no models
	var snapshots []string
	for _, e := range entries {
		if e.isDir() {
			snapshots = append(snapshots, e.name)
		}
	}
	if len(snapshots) == 0 {
		return
	}
	refs := map[string]string{}
	s.refs(filepath.Join(at, "refs"), "", refs)
	revisions, commits := hub.Snapshots(repository, refs, snapshots)
	for i, n := range revisions {
		s.snapshot(at, n, commits[i])
	}
}

// snapshot finds the models of a snapshot in the folder of its repository. If the name of a
// model is taken, the commit becomes part of it.
func (s *search) snapshot(at string, n hub.Name, commit string) {
	rel := path.Join("snapshots", commit)
	entries, _ := s.dir(filepath.Join(at, rel), matters) // without any, there is no model
	var all []string
	for _, e := range entries {
		if e.isFile() && (!isWeights(e.name) || s.regular(filepath.Join(at, rel), e)) {
			all = append(all, e.name)
		}
	}
	m := s.model(at, rel)
	m.Call = n.String()
	one, refusal := pick.Model(all, pick.Select{})
	switch {
	case refusal == nil && slices.Contains(all, one): // its only GGUF model
		m.Rel = path.Join(rel, one)
		for _, f := range shards(all, one) {
			m.files = append(m.files, filepath.Join(at, rel, f))
		}
	case isModel(all) || refusal == nil && slices.Contains(all, "model"+tensors):
	default:
		s.below(at, rel, hubParts(n.Repository, n.Revision), func(below string) string {
			n := n
			n.Select.Path = strings.TrimPrefix(below, rel+"/")
			return n.String()
		})
		return
	}
	byCommit := hubParts(n.Repository, commit[:min(len(commit), 12)])
	s.add(m, strings.Join(hubParts(n.Repository, n.Revision), "/"), strings.Join(byCommit, "/"))
}

// hubParts returns the path of a repository's snapshot in the library.
func hubParts(repository, revision string) []string {
	parts := strings.Split(repository, "/")
	if revision != "" {
		parts[len(parts)-1] += "@" + revision
	}
	return escape(parts)
}

// refs reads the files below refs/.
func (s *search) refs(dir, prefix string, refs map[string]string) {
	entries, _ := s.dir(dir, nil) // a cache need not have any
	for _, e := range entries {
		at := filepath.Join(dir, e.name)
		switch ref := path.Join(prefix, e.name); {
		case e.isDir() && strings.Count(ref, "/") < maxDepth:
			s.refs(at, ref, refs)
		case e.isFile():
			if commit := hub.Commit(s.text(at)); commit != "" {
				refs[ref] = commit
			}
		}
	}
}
