package formats

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"sync"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/foreign"
	"github.com/tensorfs/tensorfs/formats/gguf"
	"github.com/tensorfs/tensorfs/formats/hf"
	"github.com/tensorfs/tensorfs/formats/hub"
	"github.com/tensorfs/tensorfs/formats/ollama"
	"github.com/tensorfs/tensorfs/formats/safetensors"
	"github.com/tensorfs/tensorfs/internal/environ"
	"github.com/tensorfs/tensorfs/internal/rescue"
	"github.com/tensorfs/tensorfs/internal/source"
)

// Options control how a model is opened.
type Options struct {
	// KeepInside refuses a model whose files are symbolic links out of its
	// directory, which is the repository's folder in the Hugging Face cache, or the
	// Ollama store. Without KeepInside, links are followed to anything the process
	// may read. The path itself is followed wherever it leads, but links in it that
	// belong to other users than root and the process's own lead only to files of
	// these users, or to what everybody may read.
	//
	// It is for a process that may read more than the users it serves: otherwise
	// anyone who can write to the model's directory could show them any file.
	KeepInside bool
	// OwnNames lets a recipe name models of stores and servers although KeepInside is set:
	// only the process's own user reads what is opened.
	OwnNames bool
	// Remote finds a model that is on another machine, by a name such as hf:ORG/NAME,
	// which has no SELECT, or an address such as https://HOST/model.gguf. It is asked
	// only for what this machine does not have, or has not all of. Nil forbids asking.
	Remote func(name string) (Elsewhere, error)
	// Hub is the address of the Hub, whose pages are names, "" for the public one.
	Hub string
	// AskFirst asks Remote also for what this machine has.
	AskFirst bool
	// Offline is what forbids Remote to ask other machines, for messages; "" for
	// nothing. It then finds only what was found before.
	Offline string
}

// ErrLink marks a link that KeepInside refuses.
var ErrLink = source.ErrLink

// Open opens the model at path: a file of any of the formats, a directory with one model,
// or the name of a model in a local store ("ollama:NAME[:TAG]",
// "hf:ORG/NAME[@REVISION][:SELECT]", "hf:ORG/NAME/FILE", "lmstudio:PUBLISHER/NAME"; the
// address of the model's page on the Hub is such a name, too). A file's format follows from
// its content; its name decides only if the content is ambiguous. Nothing is downloaded:
// see Options.Remote.
func Open(path string) (*tensorfs.Model, error) { return Options{}.Open(path) }

// Open opens the model at path as the options say.
func (o Options) Open(path string) (m *tensorfs.Model, err error) {
	defer rescue.To(&err, path)
	path = o.inStore(path)
	for i := range schemes {
		if name, ok := strings.CutPrefix(path, schemes[i].prefix); ok {
			return o.openNamed(&schemes[i], path, name)
		}
	}
	if o.Remote != nil && url().MatchString(path) {
		m, _, err := o.openElsewhere(path)
		return m, err
	}
	if path == "" {
		return nil, errors.New("the model's path is empty; name a file, a directory, ollama:NAME or hf:ORG/NAME")
	}
	src, name, err := source.Named(path, source.Links(o.KeepInside))
	if err != nil {
		return nil, refuse(path, err)
	}
	if name == "." {
		if pipeline, part := o.openPart(src.Location(".")); pipeline != nil {
			src.Close()
			return owning(pipeline)(openDir(pipeline, part))
		}
		return owning(src)(openDir(src, "."))
	}
	if dir, name, ok := ollama.Locate(path); ok {
		src.Close()
		store, err := ollama.OpenStore(dir, o.KeepInside)
		if err != nil {
			return nil, err
		}
		store.Follow(name)
		return owning(store)(OpenFS(store.FS(), name))
	}
	return owning(src)(openFile(src, name))
}

// owning makes a model own the directories that it was opened in: they open the model's
// further files on demand. Without a model they are closed.
func owning(dirs io.Closer) func(m *tensorfs.Model, err error) (*tensorfs.Model, error) {
	return func(m *tensorfs.Model, err error) (*tensorfs.Model, error) {
		if err != nil {
			return nil, errors.Join(err, dirs.Close())
		}
		m.Own(dirs)
		return m, nil
	}
}

// OpenFS opens the model of that name in fsys: a file, "." for the directory itself, or
// a manifest of Ollama, manifests/HOST/NAMESPACE/MODEL/TAG beside blobs. fsys may be
// any fs.FS, such as a zip.Reader, an embed.FS, a fstest.MapFS or one of a program's
// own. It is not closed, and has to last as long as the model.
//
// Tensors are read by ReadAt of its files, concurrently and in any order. If a file has
// Size() int64 too, it is a tensorfs.Data, and its other abilities are used: see
// tensorfs.ContextReaderAt and tensorfs.Checker. A file without ReadAt, such as a file of a
// zip.Reader, is read into memory when it is opened, if it has at most 1 GiB. Messages and
// Model.Sources name a file by its path in fsys, or by the result of fsys's method
// Location(name string) string; only a local file may have an absolute path there.
func OpenFS(fsys fs.FS, name string) (m *tensorfs.Model, err error) {
	src := source.Of(fsys)
	defer rescue.To(&err, src.Location(name))
	if name == "." {
		return openDir(src, ".")
	}
	return openFile(src, name)
}

// scheme is a prefix of the names of models in a store.
type scheme struct {
	prefix string
	// open opens a model of a local store. lacks reports that the error means that the
	// store has nothing of that name, or not all of it.
	open func(name string, keepInside bool) (m *tensorfs.Model, lacks bool, err error)
}

var schemes = []scheme{
	{ollama.Prefix, openOllama},
	{hub.Prefix, openHub},
	{environ.LMStudio, openLMStudio},
}

// url matches the scheme of a model's address that a user may pass as its path, and the prefix of names that only
// a server has.
var url = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^([A-Za-z][A-Za-z0-9+.-]*://|` + ModelScope + `)`) })

// inStore returns the name of a model in a store for the address of its page, as people copy
// it from their browser, with or without the store's prefix. Others stay as they are.
func (o Options) inStore(path string) string {
	if scheme, rest, ok := strings.Cut(path, "://"); ok && url().MatchString(path) {
		path = strings.ToLower(scheme) + "://" + rest
	}
	if n, ok := hub.FromAddress(strings.TrimPrefix(path, hub.Prefix), o.Hub); ok {
		return n.String()
	}
	if name, ok := strings.CutPrefix(path, ollama.Prefix+"//"); ok {
		return ollama.Prefix + name
	}
	for _, page := range ollamaPages {
		if name, ok := strings.CutPrefix(strings.TrimPrefix(path, ollama.Prefix), page); ok {
			if _, err := ollama.ParseName(name); err == nil {
				return ollama.Prefix + name
			}
		}
	}
	return path
}

// ollamaPages are how addresses of Ollama's library begin, the longer ones first.
var ollamaPages = []string{"https://ollama.com/library/", "https://ollama.com/", "https://registry.ollama.ai/library/", "https://registry.ollama.ai/"}

// IsName reports whether Open takes what a user wrote for the name of a model in a
// store, or an address, and not for a path.
func IsName(s string) bool {
	for _, x := range schemes {
		if strings.HasPrefix(s, x.prefix) {
			return true
		}
	}
	return url().MatchString(s)
}

// format is a row of the table below.
type format struct {
	name   string
	suffix string // files with it are taken for the format if their content is not recognised, so that the parser reports what is wrong
	match  func(name string, head []byte, size int64) bool
	open   func(fsys fs.FS, name string) (*tensorfs.Model, error)
}

// files are the formats of a single file, tried in order: content first.
var files = []format{
	{"GGUF", ".gguf", func(_ string, head []byte, _ int64) bool { return gguf.Match(head) }, gguf.OpenFS},
	{"Ollama manifest", "", func(name string, head []byte, _ int64) bool { return ollama.Match(name, head) }, ollama.OpenFS},
	{"safetensors", ".safetensors", func(_ string, head []byte, size int64) bool { return safetensors.Match(head, size) }, hf.OpenFileFS},
}

// headSize is how much of a file the table examines.
const headSize = 64

// openFile opens the model of a regular file. The parser gets the very file that was examined.
func openFile(src source.FS, name string) (*tensorfs.Model, error) {
	f, err := src.OpenFile(name)
	if err != nil {
		return nil, err
	}
	opened := source.With(src, name, f)
	defer opened.Close()
	size := f.Size()
	head := make([]byte, min(headSize, size))
	if err := tensorfs.ReadFull(f, head, 0); err != nil {
		return nil, err
	}
	at := src.Location(name)
	for _, x := range files {
		if !x.match(name, head, size) {
			continue
		}
		m, err := x.open(opened, name)
		if problem, advice := foreign.Piece(path.Base(name)); problem != "" && errors.Is(err, tensorfs.ErrFormat) {
			return nil, tensorfs.Unsupported(at, problem, advice)
		}
		return m, err
	}
	if problem, advice := foreign.File(path.Base(name), f); problem != "" {
		return nil, tensorfs.Unsupported(at, problem, advice)
	}
	for _, x := range files {
		if x.suffix != "" && strings.HasSuffix(name, x.suffix) {
			return x.open(opened, name)
		}
	}
	if dir := path.Dir(name); path.Ext(name) == ".json" && hf.Match(src, dir) {
		return nil, tensorfs.Unsupported(at, "it is part of a model, not the model", "name its directory "+tensorfs.Printable(src.Location(dir)))
	}
	const looked = `looked for GGUF (starts with "GGUF"), safetensors (header length and JSON) and an Ollama manifest; found `
	if len(head) == 0 {
		return nil, tensorfs.Unsupported(at, looked+"an empty file", usual)
	}
	return nil, tensorfs.Unsupported(at, fmt.Sprintf("%s%d bytes starting with %q", looked, size, head[:min(len(head), 16)]), usual)
}
