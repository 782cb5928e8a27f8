package stores

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/gguf"
	"github.com/tensorfs/tensorfs/formats/ollama"
	"github.com/tensorfs/tensorfs/internal/environ"
	"github.com/tensorfs/tensorfs/internal/export"
	"github.com/tensorfs/tensorfs/internal/opendir"
	"github.com/tensorfs/tensorfs/internal/source"
)

// Parent is the Ollama model that another one is derived from; the zero value means none.
type Parent struct {
	Layers []ollama.Kept
	Config func(key string) string // looks up keys of its config; may be nil
	Name   string                  // as Ollama shows it
	Kinds  map[string]string       // of files whose kind another manifest states, by name
}

// OllamaDir returns the store that models are written to: OLLAMA_MODELS, else the store in
// the home directory, or the store of Ollama's service if only that exists, even if this
// user cannot read it.
func OllamaDir() (string, error) {
	places := environ.OllamaStores(environ.Process)
	for _, p := range places {
		d, err := opendir.Open(p.Path)
		if err == nil {
			d.Close()
		}
		if err == nil || errors.Is(err, fs.ErrPermission) {
			return p.Path, nil
		}
	}
	if len(places) == 0 {
		return "", errors.New("where does Ollama keep its models? Set OLLAMA_MODELS")
	}
	return places[0].Path, nil
}

// OllamaName returns the name under which a store has or gets a model: among names that
// differ only in case it has one. It fails if the store has the model, and it may not be
// replaced.
func OllamaName(dir string, n ollama.Name, force bool) (ollama.Name, error) {
	store, err := opendir.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return n, nil
	}
	if err != nil {
		return n, err
	}
	defer store.Close()
	return nameIn(store, n, force)
}

// nameIn is [OllamaName] for an open store.
func nameIn(store *opendir.Dir, n ollama.Name, force bool) (ollama.Name, error) {
	there, err := ollama.Find(storeFS{store}, n)
	dir := store.Path()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return n, nil
	case err != nil:
		return n, fmt.Errorf("%s: %w", tensorfs.Printable(dir), err)
	case !force:
		return n, fmt.Errorf("%s: the model %s %w", tensorfs.Printable(dir), there, ErrExists)
	}
	return there, nil
}

// Ollama writes a model into Ollama's store at dir, as 'ollama create' does: files of GGUF,
// the language model first. The name is one of [OllamaName].
func Ollama(ctx context.Context, dir string, n ollama.Name, files []export.File, parent Parent, o Options) (_ *Report, err error) {
	at, err := opendir.Make(dir, dirMode, true)
	if err != nil {
		return nil, tensorfs.NoDirectory(dir, err)
	}
	defer release(at, &err)
	store := ollamaStore{store: at, dir: dir}
	if err := store.openBlobs(); err != nil {
		return nil, err
	}
	defer func() { release(store.blobs, &err) }()
	stageAt := at
	if !opendir.SameDisk(at, store.blobs) { // blobs may be a link to another disk, where files have to be to get their names
		stageAt = store.blobs
	}
	sum := sha256.Sum256([]byte(n.Path()))
	stageName := ".tensorfs-" + hex.EncodeToString(sum[:8])
	s, err := openStage(stageAt, stageName, o)
	if err != nil {
		return nil, err
	}
	defer func() { s.close(err) }()
	if n, err = nameIn(at, n, o.Force); err != nil { // it may have been added in between
		return nil, err
	}
	store.stage = s
	list, err := s.write(ctx, files, store.there(ctx))
	if err != nil {
		return nil, err
	}
	weights, err := store.weights(list, parent)
	if err != nil {
		return nil, err
	}
	if parent.Config == nil {
		parent.Config = func(string) string { return "" }
	}
	created, err := ollama.Create(weights, parent.Layers, parent.Config)
	if err != nil {
		return nil, err
	}
	all, err := store.texts(created.Texts)
	if err != nil {
		return nil, err
	}
	all = append(all, pointers(list)...)
	if err := store.placeAll(ctx, all); err != nil {
		return nil, err
	}
	r := &Report{Path: filepath.Join(dir, filepath.FromSlash(n.Manifest())), Chat: created.Chat}
	if err := store.publish(n, stageName, created.Manifest); err != nil {
		return nil, err
	}
	// Ollama removes blobs without a manifest when it starts, so it may have removed these.
	if err := store.placeAll(ctx, all); err != nil {
		return nil, err
	}
	for i := range list {
		f := &list[i]
		r.Files = append(r.Files, Placed{store.path(f), f.size, f.digest(), f.how, f.origin})
	}
	return r, s.done()
}

// ollamaStore is a store that gets a model.
type ollamaStore struct {
	*stage
	store *opendir.Dir
	dir   string // its directory
	blobs *opendir.Dir
}

// openBlobs opens the directory of the blobs, which it makes if it is missing.
func (s *ollamaStore) openBlobs() error {
	blobs, err := s.store.Follow("blobs", dirMode)
	if err != nil {
		return tensorfs.NoDirectory(s.store.Join("blobs"), err)
	}
	if s.blobs != nil && s.stage.at != s.blobs {
		s.blobs.Close()
	}
	s.blobs = blobs
	return nil
}

// publish writes the manifest.
func (s *ollamaStore) publish(n ollama.Name, stageName string, manifest []byte) (err error) {
	manifests, err := s.store.Follow("manifests", dirMode)
	if err != nil {
		return tensorfs.NoDirectory(s.store.Join("manifests"), err)
	}
	defer release(manifests, &err)
	from := s.stage
	if !opendir.SameDisk(manifests, s.stage.dir) { // no path with fewer parts is one of a manifest
		if from, err = openStage(manifests, stageName, Options{}); err != nil {
			return err
		}
		defer func() { from.close(err) }()
	}
	text, err := from.text("manifest", manifest)
	if err != nil {
		return err
	}
	dir, name := path.Split(strings.TrimPrefix(n.Manifest(), "manifests/"))
	to, err := manifests.Follow(path.Clean(dir), dirMode)
	if err != nil {
		return tensorfs.NoDirectory(s.store.Join("manifests"), err)
	}
	defer release(to, &err)
	if err := publish(text, to, name, s.Force); err != nil {
		return err
	}
	if from != s.stage {
		return from.done()
	}
	return nil
}

func (s *ollamaStore) path(f *file) string { return filepath.Join(s.dir, "blobs", blobName(f)) }

func blobName(f *file) string { return "sha256-" + f.sum }

func pointers(list []file) (all []*file) {
	for i := range list {
		all = append(all, &list[i])
	}
	return all
}

// there finds blobs: see stage.write.
func (s *ollamaStore) there(ctx context.Context) known {
	sizes := map[int64]bool{}
	entries, _ := s.blobs.ReadDir() // what cannot be read is not reused
	for _, e := range entries {
		if st, err := e.Info(); err == nil && st.Mode().IsRegular() {
			sizes[st.Size()] = true
		}
	}
	return func(size int64, sum string) (*opendir.Dir, string, *os.File) {
		f := file{size: size, sum: sum}
		switch {
		case !sizes[size]:
			return nil, "", nil
		case sum == "":
			return s.blobs, "", nil
		}
		open, same, err := hasBytes(ctx, s.blobs, blobName(&f), &f)
		if err != nil || !same {
			return nil, "", nil
		}
		return s.blobs, blobName(&f), open
	}
}

// weights reads the headers of the files.
func (s *ollamaStore) weights(list []file, parent Parent) (all []ollama.Weights, err error) {
	for i := range list {
		f := &list[i]
		header, err := headerOf(f)
		if err != nil {
			return nil, err
		}
		w := ollama.Weights{File: header, Digest: f.digest(), Size: f.size, From: s.path(f), Kind: parent.Kinds[f.name]}
		if parent.Name != "" && (f.how != Written) { // the model's own layer
			w.From = parent.Name
		}
		all = append(all, w)
	}
	return all, nil
}

// headerOf reads the header of a staged file.
func headerOf(f *file) (*gguf.File, error) {
	open, err := f.open()
	if err != nil {
		return nil, err
	}
	st, err := open.Stat()
	if err != nil {
		open.Close()
		return nil, err
	}
	m, err := source.MapFile(open, open.Name(), f.name, st.ModTime())
	if err != nil {
		return nil, err
	}
	defer m.Close()
	return gguf.Parse(m)
}

// texts writes the other blobs to the stage.
func (s *ollamaStore) texts(list []ollama.Text) (all []*file, err error) {
	for _, t := range list {
		sum := t.Digest[len("sha256:"):]
		f, err := s.text("text-"+sum, t.Bytes)
		if err != nil {
			return nil, err
		}
		f.name, f.sum = t.Digest, sum
		all = append(all, f)
	}
	return all, nil
}

func (s *ollamaStore) placeAll(ctx context.Context, all []*file) error {
	for _, f := range all {
		err := s.place(ctx, f, s.blobs, blobName(f))
		if errors.Is(err, fs.ErrNotExist) { // the directory was removed in between
			if err = s.openBlobs(); err == nil {
				err = s.place(ctx, f, s.blobs, blobName(f))
			}
		}
		if err != nil {
			return err
		}
	}
	return s.blobs.Sync()
}

// storeFS is a store as [ollama.Find] reads it.
type storeFS struct{ dir *opendir.Dir }

func (s storeFS) Open(name string) (fs.File, error) {
	dir, base := path.Split(name)
	at := s.dir
	if dir != "" {
		var err error
		if at, err = s.dir.Follow(path.Clean(dir), 0); err != nil {
			return nil, err
		}
		defer at.Close()
	}
	f, _, err := at.OpenRegular(base)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (s storeFS) ReadDir(name string) ([]fs.DirEntry, error) {
	at, err := s.dir.Follow(name, 0)
	if err != nil {
		return nil, err
	}
	defer at.Close()
	return at.ReadDir()
}
