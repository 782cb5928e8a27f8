package formats

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/foreign"
	"github.com/tensorfs/tensorfs/formats/pick"
	"github.com/tensorfs/tensorfs/internal/near"
	"github.com/tensorfs/tensorfs/internal/source"
)

// usual is the advice if nothing better is known.
const usual = "name a GGUF or safetensors file, a model directory or an Ollama manifest"

// refuse adds to the error for a path that cannot be opened what else the user
// may have meant. given is the path as the user wrote it.
func refuse(given string, err error) error {
	e, ok := errors.AsType[*tensorfs.FormatError](err)
	if !ok || e.Kind != fs.ErrNotExist {
		return err
	}
	switch {
	case url.MatchString(given):
		e.File, e.Problem, e.Advice = withoutSecrets(given), "it is a URL, and this program opens only models of this machine", `fetch the model with "hf download" or "ollama pull", then name it hf:ORG/NAME or ollama:NAME`
	case e.Advice == "check the path":
		if names := nearPaths(e.File); len(names) > 0 {
			e.Advice = near.Question(names)
		} else {
			e.Advice += " (models in a store are called ollama:NAME or hf:ORG/NAME)"
		}
	}
	return e
}

// withoutSecrets leaves out of an address its user, password and query.
func withoutSecrets(address string) string {
	address, _, _ = strings.Cut(address, "?")
	scheme, rest, _ := strings.Cut(address, "://")
	return scheme + "://" + rest[strings.LastIndexByte(rest, '@')+1:]
}

// nearPaths returns paths that exist and are near one that does not: near its
// first part that is missing, in the directory that is there.
func nearPaths(missing string) []string {
	dir, name := path.Dir(missing), path.Base(missing)
	for !source.HasDir(dir) && path.Dir(dir) != dir {
		dir, name = path.Dir(dir), path.Base(dir)
	}
	src, err := source.Dir(dir, source.Anywhere)
	if err != nil {
		return nil
	}
	defer src.Close()
	entries, err := src.ReadDir(".")
	if err != nil {
		return nil
	}
	names := near.Names(name, allNames(entries), 3)
	for i := range names {
		names[i] = path.Join(dir, names[i])
	}
	return names
}

// allNames returns the names of entries.
func allNames(entries []fs.DirEntry) []string {
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names
}

// maxParts bounds the directories that are looked into for what is wrong.
const maxParts = 64

// several returns the error about a directory that has several models, or none.
func several(src source.FS, dir string, r *pick.Refusal) error {
	advice := usual
	if e := r.Example(false); e.Path != "" {
		advice = "name one, such as " + tensorfs.Printable(src.Location(path.Join(dir, e.Path)))
	}
	return tensorfs.Unsupported(src.Location(dir), r.Problem(false), advice)
}

// noModel returns an error about a directory that does not hold one model.
func noModel(src source.FS, dir string, entries []fs.DirEntry, r *pick.Refusal) error {
	if r.Several {
		return several(src, dir, r)
	}
	at := src.Location(dir)
	names := allNames(entries)
	first := func(prefix string) string {
		i := slices.IndexFunc(names, func(name string) bool { return strings.HasPrefix(name, prefix) })
		if i < 0 {
			return ""
		}
		return src.Location(path.Join(dir, names[i]))
	}
	if cached := first("models--"); cached != "" {
		return tensorfs.Unsupported(at, "it is a Hugging Face cache, not a model", "name one of its models as hf:ORG/NAME, or its folder, such as "+tensorfs.Printable(cached))
	}
	if slices.Contains(names, "manifests") && slices.Contains(names, "blobs") {
		return tensorfs.Unsupported(at, "it is an Ollama store", "name a model of it as ollama:NAME with OLLAMA_MODELS="+tensorfs.Printable(at)+", or its manifest")
	}
	files, looked := fileNames(entries), 0
	for _, e := range entries {
		if !e.IsDir() || looked == maxParts {
			continue
		}
		looked++
		below, _ := src.ReadDir(path.Join(dir, e.Name())) // not one of the parts where it cannot be read
		for _, name := range fileNames(below) {
			files = append(files, e.Name()+"/"+name)
		}
	}
	if parts := pick.Nothing(files); parts.Example(false) != (pick.Select{}) {
		return several(src, dir, parts)
	}
	if problem, advice := foreign.Directory(path.Base(at), names); problem != "" {
		return tensorfs.Unsupported(at, problem, advice)
	}
	if len(entries) == 0 {
		return tensorfs.Unsupported(at, "it is an empty directory", usual)
	}
	return tensorfs.Unsupported(at, fmt.Sprintf("it has no safetensors and no GGUF file among its %d entries", len(entries)), usual)
}
