package formats

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/source"
)

// usual is the advice if nothing better is known.
const usual = "name a GGUF or safetensors file, a model directory or an Ollama manifest"

// unknown returns an error about a path that exists but is not a model.
func unknown(path, problem, advice string) error {
	return &tensorfs.FormatError{File: path, Offset: -1, Problem: problem, Advice: advice, Kind: tensorfs.ErrUnsupported}
}

// refuse adds to the error for a path that cannot be opened what else the user
// may have meant. given is the path as the user wrote it.
func refuse(given string, err error) error {
	e, ok := errors.AsType[*tensorfs.FormatError](err)
	if !ok || e.Kind != fs.ErrNotExist {
		return err
	}
	switch {
	case strings.Contains(given, "://"):
		e.File, e.Problem, e.Advice = given, "it is a URL, and tensorfs downloads nothing", `fetch the model with "hf download" or "ollama pull", then name it hf:ORG/NAME or ollama:NAME`
	case e.Advice == "check the path":
		e.Advice += " (models in a store are called ollama:NAME or hf:ORG/NAME)"
	}
	return e
}

// noModel returns an error about a directory that holds no model itself.
func noModel(src source.FS, entries []fs.DirEntry) error {
	path := src.Location(".")
	var ggufs, cached []string
	store := 0
	for _, e := range entries {
		name := e.Name()
		switch {
		case strings.HasSuffix(name, ".gguf"):
			ggufs = append(ggufs, tensorfs.Printable(src.Location(name)))
		case strings.HasPrefix(name, "models--"):
			cached = append(cached, tensorfs.Printable(src.Location(name)))
		case name == "manifests" || name == "blobs":
			store++
		}
	}
	switch {
	case len(ggufs) == 1:
		return unknown(path, "it is a directory with a GGUF file", "name the file: "+ggufs[0])
	case len(ggufs) > 1:
		return unknown(path, fmt.Sprintf("it is a directory with %d GGUF files", len(ggufs)), "name one of them, such as "+ggufs[0])
	case len(cached) > 0:
		return unknown(path, "it is a Hugging Face cache, not a model", "name one of its models as hf:ORG/NAME, or its folder, such as "+cached[0])
	case store == 2:
		return unknown(path, "it is an Ollama store", "name a model of it as ollama:NAME with OLLAMA_MODELS="+tensorfs.Printable(path)+", or its manifest")
	case len(entries) == 0:
		return unknown(path, "looked for model*.safetensors and its index in this directory; found it empty", usual)
	}
	return unknown(path, fmt.Sprintf("looked for model*.safetensors and its index in this directory; found none among %d entries", len(entries)), usual)
}
