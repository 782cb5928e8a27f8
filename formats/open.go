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
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist) && dangling(path):
		return nil, fmt.Errorf("%s: the symbolic link leads to no file; fetch the file it names: %w", tensorfs.Printable(path), os.ErrNotExist)
	case errors.Is(err, os.ErrNotExist):
		return nil, fmt.Errorf("%s: no such file or directory; check the path (models in a store are called ollama:NAME or hf:ORG/NAME): %w", tensorfs.Printable(path), os.ErrNotExist)
	case errors.Is(err, os.ErrPermission):
		return nil, fmt.Errorf("%s: no permission to read it; change its mode or run as its owner: %w", tensorfs.Printable(path), os.ErrPermission)
	case err != nil:
		return nil, fmt.Errorf("%s: cannot be opened: %w; name the file itself", tensorfs.Printable(path), errors.Unwrap(err))
	case st.IsDir():
		return openDir(path)
	case !st.Mode().IsRegular():
		return nil, unknown(path, "it is neither a regular file nor a directory")
	}
	head, err := readHead(path)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		if f.match(path, head, st.Size()) {
			return f.open(path)
		}
	}
	for _, f := range files {
		if f.suffix != "" && strings.HasSuffix(path, f.suffix) {
			return f.open(path)
		}
	}
	if name := filepath.Base(path); name == "config.json" || strings.HasSuffix(name, ".safetensors.index.json") {
		return nil, unknown(path, "it describes a model directory; name the directory "+tensorfs.Printable(filepath.Dir(path)))
	}
	return nil, unknown(path, fmt.Sprintf("looked for GGUF (starts with \"GGUF\"), safetensors (header length and JSON) and an Ollama manifest; found %d bytes starting with %q", st.Size(), head[:min(len(head), 16)]))
}

func unknown(path, problem string) error {
	return &tensorfs.FormatError{File: path, Offset: -1, Problem: problem, Advice: "name a GGUF or safetensors file, a model directory or an Ollama manifest", Kind: tensorfs.ErrUnsupported}
}

func dangling(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// readHead reads the first bytes of a file without ever blocking on it.
func readHead(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, os.ErrPermission) {
		return nil, fmt.Errorf("%s: no permission to read it; change its mode or run as its owner: %w", tensorfs.Printable(path), os.ErrPermission)
	}
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
	var ggufs []string
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".gguf") {
			ggufs = append(ggufs, e.Name())
		}
	}
	if len(ggufs) > 0 {
		return nil, unknown(path, fmt.Sprintf("it is a directory with %d GGUF files: name one of them, such as %s", len(ggufs), tensorfs.Printable(filepath.Join(path, ggufs[0]))))
	}
	return nil, unknown(path, fmt.Sprintf("looked for model*.safetensors and its index in this directory; found none among %d entries", len(entries)))
}
