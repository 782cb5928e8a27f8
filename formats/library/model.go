package library

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/gguf"
	"github.com/tensorfs/tensorfs/formats/images"
	"github.com/tensorfs/tensorfs/internal/source"
)

// Model is a model of a library. It is not open.
type Model struct {
	Name string // its path in the library
	Call string // what other commands take: "ollama:gemma3:4b", "hf:ORG/NAME@v1", a path
	Root string // a directory that the model's files are in, an absolute path
	Rel  string // the model in it, with slashes: a file, its directory, or a manifest in a store

	files []string // what it consists of, absolute; for a directory's, nil
	text  bool     // its file is a complete description, like a manifest

	mu      sync.Mutex
	stamp   stamp  // of a text
	digest  string // of a text with that stamp
	foreign func(path string) bool
}

// Path is where the model is.
func (m *Model) Path() string { return filepath.Join(m.Root, m.Rel) }

// Identity returns a text that is another one once the model's files were replaced,
// written to, added or removed, and when they were modified last. It opens no file but
// a manifest. An error means that the model is gone.
func (m *Model) Identity() (id string, modified time.Time, err error) {
	if m.text {
		return m.textIdentity()
	}
	files := m.files
	if files == nil {
		entries, err := readDirectory(m.Path(), func(e entry) bool { return e.isFile() })
		if err != nil {
			return "", modified, err
		}
		for _, e := range entries {
			files = append(files, filepath.Join(m.Path(), e.name))
		}
		files = append(files, m.tokenizerFiles()...)
	}
	h := sha256.New()
	for _, file := range files {
		if m.foreign(file) {
			return "", modified, &tensorfs.FormatError{File: file, Offset: -1, Problem: "it is in another mount of tensorfs", Kind: fs.ErrNotExist}
		}
		s, err := stampOf(file)
		if err != nil && m.files != nil {
			return "", modified, err
		} // of a directory's files, a link to nothing is what the parser will name
		fmt.Fprintf(h, "%q %d %d %d %d\n", filepath.Base(file), s.dev, s.ino, s.size, s.modified.UnixNano())
		if isWeights(file) && s.modified.After(modified) {
			modified = s.modified
		}
	}
	return hex.EncodeToString(h.Sum(nil)), modified, nil
}

// tokenizerFiles returns the files of the tokenizer that a pipeline of diffusers has in another
// directory than its text encoder.
func (m *Model) tokenizerFiles() (files []string) {
	tokenizer := images.TokenizerOf(path.Base(m.Rel))
	if tokenizer == "" {
		return nil
	}
	at := filepath.Join(filepath.Dir(m.Path()), tokenizer)
	entries, _ := readDirectory(at, entry.isFile) // without it, the model has no tokenizer
	for _, e := range entries {
		files = append(files, filepath.Join(at, e.name))
	}
	return files
}

// StoredBytes returns the size of a model that is one GGUF file, of a version that
// llama.cpp reads. Any other model is converted for llama.cpp and has another size then.
func (m *Model) StoredBytes() (int64, bool) {
	if m.text || len(m.files) != 1 || !strings.HasSuffix(m.files[0], ggufSuffix) {
		return 0, false
	}
	head, err := source.ReadRegular(m.files[0], 8)
	if err != nil || !gguf.LlamaReads(head) {
		return 0, false
	}
	s, err := stampOf(m.files[0])
	return s.size, err == nil
}

// textIdentity is the digest of the file's content: writing the same content again
// changes nothing.
func (m *Model) textIdentity() (id string, modified time.Time, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	file := m.files[0]
	s, err := stampOf(file)
	if err != nil {
		return "", modified, err
	}
	if s != m.stamp || m.digest == "" || time.Since(s.modified) < settled {
		const limit = 16 << 20 // as Ollama's parser has it
		text, err := readText(file, limit)
		if err != nil {
			text = fmt.Appendf(nil, "%v %v", s, err) // the parser will say more
		}
		sum := sha256.Sum256(text)
		m.stamp, m.digest = s, hex.EncodeToString(sum[:])
	}
	return m.digest, s.modified, nil
}
