package ollama

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/gguf"
	"github.com/tensorfs/tensorfs/internal/assemble"
	"github.com/tensorfs/tensorfs/internal/source"
)

// OpenName opens a model of the local store by its name, such as
// gemma3:4b. keepInside refuses links that lead out of the store's directories.
func OpenName(name string, keepInside bool) (*tensorfs.Model, error) {
	n, err := ParseName(name)
	if err != nil {
		return nil, err
	}
	at, err := locate(n, keepInside)
	if err != nil {
		return nil, err
	}
	src := source.With(at.store.files, at.name, at.file)
	defer src.Close()
	m, err := OpenFS(src, at.name)
	if err != nil {
		return nil, errors.Join(err, at.store.Close())
	}
	m.Own(at.store)
	m.Name = Prefix + display(at.name)
	return m, nil
}

// Match reports whether a file is a manifest, as far as its name in a store and
// its beginning say: manifests/HOST/NAMESPACE/MODEL/TAG. Whether the manifest is
// sound is [OpenFS]'s to say.
func Match(name string, head []byte) bool {
	if strings.HasPrefix(string(head), "GGUF") {
		return false
	}
	_, ok := parse(name)
	return ok
}

// OpenFS opens the model of the manifest of that name in a store.
func OpenFS(fsys fs.FS, name string) (*tensorfs.Model, error) {
	m, err := open(source.Of(fsys), name)
	if err != nil {
		return nil, fmt.Errorf("ollama: %s: %w", display(name), err)
	}
	return m, nil
}

func open(src source.FS, name string) (*tensorfs.Model, error) {
	b := builder{name: name, path: src.Location(name), blobs: &blobs{src: src, files: make(map[digest]source.File)}}
	text, err := source.ReadSmall(src, name, maxManifest)
	if err != nil {
		return nil, fmt.Errorf("manifest: %w", refetch(err))
	}
	if text, err = b.child(text); err != nil {
		return nil, err
	}
	if b.manifest, err = parseManifest(b.path, text); err != nil {
		return nil, err
	}
	b.labels = b.manifest.labels()
	if err := b.build(); err != nil {
		return nil, errors.Join(err, b.blobs.close())
	}
	if len(b.blobs.colons) > 0 {
		b.warn("blobs are named sha256:HEX, as Ollama named them until February 2024; Ollama renames them when it starts")
	}
	m, err := source.Finish(b.out, b.blobs.order)
	if err == nil {
		gguf.AsInLlama(m)
	}
	return m, refetch(err)
}

// child returns the manifest for llama.cpp if the text is a list of manifests, else the text.
func (b *builder) child(text []byte) ([]byte, error) {
	c, err := ChildOf(b.path, text)
	if c == nil || err != nil {
		return text, err
	}
	f, err := b.blobs.openBlob(c.digest)
	if err != nil {
		return nil, fmt.Errorf("the manifest %s of a list of manifests: %w", c.digest, refetch(err))
	}
	defer f.Close()
	if text, err = source.ReadAll(f, f.Path(), maxManifest); err != nil {
		return nil, err
	}
	b.warn("%s", c.Note)
	return text, c.Check(b.path, text)
}

// builder puts a model together.
type builder struct {
	name     string // of the manifest
	path     string // the same for people
	manifest *manifest
	labels   []string // of the manifest's layers, see manifest.labels
	blobs    *blobs
	configs  map[string]*modelConfig // by component, "" for the model; tensor models only
	tensors  assemble.Tensors        // of tensor models
	out      tensorfs.Model
}

func (b *builder) build() error {
	b.out.Format, b.out.Path = "ollama", b.path
	has := make(map[layerKind]bool)
	mapped := make(map[digest]bool)
	for i, l := range b.manifest.layers {
		has[l.kind] = true
		if b.labels[i] != "" && l.kind.hasTensors() {
			mapped[l.digest] = true
		}
	}
	b.out.Sources = append(b.out.Sources, source.Unopened(b.blobs.src, b.name, "manifest"))
	image := b.imageConfig()
	read := b.tensorModel
	switch {
	case has[kindTensor] && has[kindModel]:
		return b.refuse("the manifest has both tensor layers and a model layer, and either could be the model")
	case has[kindTensor]:
	case has[kindModel]:
		read = b.ggufModel
	case image.Has("remote_host") || image.Has("remote_model"):
		return b.refuse("it has no weights here, because it names a model that runs on another machine")
	case has[kindAdapter]:
		return b.refuse("it has an adapter and no model that the adapter belongs to")
	default:
		return b.refuse("the manifest has no layer with weights")
	}
	if err := source.Room(b.path, len(mapped)); err != nil {
		return err
	}
	if err := b.readConfigs(); err != nil {
		return err
	}
	if err := read(); err != nil {
		return err
	}
	if len(b.out.Tensors) == 0 {
		return b.refuse("its blobs hold no tensor")
	}
	if err := b.readTexts(); err != nil {
		return err
	}
	b.out.Metadata = image.Meta(b.out.Metadata, "ollama.config.")
	b.uniqueKeys()
	return nil
}

// refuse returns an error about a manifest that is sound and of no use here.
func (b *builder) refuse(problem string) error {
	return tensorfs.Unsupported(b.path, problem, "name another model; 'ollama list' shows them")
}

// damaged returns an error about a layer whose blob is not what it should be.
func (b *builder) damaged(l *layer, format string, args ...any) error {
	return &tensorfs.FormatError{File: b.path, Offset: -1, Problem: l.String() + ": " + fmt.Sprintf(format, args...), Advice: pull}
}

func (b *builder) warn(format string, args ...any) {
	b.out.Warnings = append(b.out.Warnings, fmt.Sprintf(format, args...))
}

// source shows a layer's blob below source/.
func (b *builder) source(label string, l *layer) {
	s := source.Unopened(b.blobs.src, b.blobs.name(l.digest), label)
	s.Open = func() (tensorfs.File, error) { return b.blobs.open(l) }
	b.out.Sources = append(b.out.Sources, s)
}

// mapped opens the blob of layer i.
func (b *builder) mapped(i int) (source.File, error) {
	l := &b.manifest.layers[i]
	m, err := b.blobs.mapped(l, b.labels[i])
	if err != nil {
		return nil, err
	}
	if m.Label() != b.labels[i] { // the blob of another layer, too
		b.source(b.labels[i], l)
	}
	return m, nil
}

// uniqueKeys drops metadata whose key another layer has already. Keys of the
// layers have their own prefixes, but a GGUF file may have any key.
func (b *builder) uniqueKeys() {
	seen := make(map[string]bool, len(b.out.Metadata))
	b.out.Metadata = slices.DeleteFunc(b.out.Metadata, func(m tensorfs.Meta) bool {
		if seen[m.Key] {
			b.warn("metadata key %s occurs twice, and only its first value is shown", tensorfs.Quote(m.Key))
			return true
		}
		seen[m.Key] = true
		return false
	})
}
