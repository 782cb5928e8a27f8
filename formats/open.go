package formats

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/gguf"
	"github.com/tensorfs/tensorfs/formats/hf"
	"github.com/tensorfs/tensorfs/formats/ollama"
	"github.com/tensorfs/tensorfs/formats/safetensors"
	"golang.org/x/sys/unix"
)

// format is a row of the table below.
type format struct {
	name   string
	suffix string // of files that are taken for the format when their content is not recognised, so that its parser says what is wrong
	match  func(path string, head []byte, size int64) bool
	open   func(path string) (*tensorfs.Model, error)
}

// files are the formats of a single file, tried in order: content first.
var files = []format{
	{"GGUF", ".gguf", func(_ string, head []byte, _ int64) bool { return gguf.Match(head) }, gguf.Open},
	{"Ollama manifest", "", func(path string, head []byte, _ int64) bool { return ollama.Match(path, head) }, ollama.Open},
	{"safetensors", ".safetensors", func(_ string, head []byte, size int64) bool { return safetensors.Match(head, size) }, hf.OpenFile},
}

// schemes are the names of models that stand in a store.
var schemes = []struct {
	prefix string
	open   func(name string) (*tensorfs.Model, error)
}{
	{"ollama:", ollama.OpenName},
	{"hf:", hf.OpenName},
}

// headSize is how much of a file the table looks at.
const headSize = 64

// Open opens the model at path: a file of any of the formats, a model directory,
// or the name of a model in a local store ("ollama:NAME[:TAG]", "hf:ORG/NAME").
// What a file is follows from its content; its name decides only where the
// content says nothing. Nothing is downloaded.
func Open(path string) (*tensorfs.Model, error) {
	for _, s := range schemes {
		if name, ok := strings.CutPrefix(path, s.prefix); ok {
			return s.open(name)
		}
	}
	if path == "" {
		return nil, errors.New("the model's path is empty; name a file, a directory, ollama:NAME or hf:ORG/NAME")
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	st, err := os.Stat(abs)
	switch {
	case err != nil:
		return nil, refuse(path, abs, err)
	case st.IsDir():
		return openDir(abs)
	case !st.Mode().IsRegular():
		return nil, tensorfs.NotRegular(abs, st.Mode())
	}
	return openFile(abs, st.Size())
}

// openFile opens a model of a regular file.
func openFile(path string, size int64) (*tensorfs.Model, error) {
	head, err := readHead(path)
	if err != nil {
		return nil, refuse(path, path, err)
	}
	for _, f := range files {
		if f.match(path, head, size) {
			return f.open(path)
		}
	}
	if problem, advice := hf.StandIn(head); problem != "" {
		return nil, unknown(path, problem, advice)
	}
	for _, f := range files {
		if f.suffix != "" && strings.HasSuffix(path, f.suffix) {
			return f.open(path)
		}
	}
	if dir := filepath.Dir(path); filepath.Ext(path) == ".json" && hf.Match(dir) {
		return nil, unknown(path, "it is a part of a model, not the model", "name its directory "+tensorfs.Printable(dir))
	}
	const looked = `looked for GGUF (starts with "GGUF"), safetensors (header length and JSON) and an Ollama manifest; found `
	if len(head) == 0 {
		return nil, unknown(path, looked+"an empty file", usual)
	}
	return nil, unknown(path, fmt.Sprintf("%s%d bytes starting with %q", looked, size, head[:min(len(head), 16)]), usual)
}

// readHead reads the first bytes of a file without ever blocking on it.
func readHead(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	head := make([]byte, headSize)
	n, err := io.ReadFull(f, head)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = nil
	}
	return head[:n], err
}

// openDir opens a model directory, or says what a directory without one holds.
func openDir(path string) (*tensorfs.Model, error) {
	if hf.Match(path) {
		return hf.Open(path)
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, refuse(path, path, err)
	}
	return nil, noModel(path, entries)
}
