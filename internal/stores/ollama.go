package stores

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/gguf"
	"github.com/tensorfs/tensorfs/formats/ollama"
	"github.com/tensorfs/tensorfs/internal/export"
	"github.com/tensorfs/tensorfs/internal/source"
	"golang.org/x/sys/unix"
)

// Parent is the Ollama model that another one is made of; the zero value is none.
type Parent struct {
	Layers []ollama.Kept
	Config func(key string) string // what its config says; nil for nothing
	Name   string                  // as Ollama shows it
	Kinds  map[string]string       // of files whose kind another manifest states, by name
}

// OllamaDir returns the store that models are written to: OLLAMA_MODELS, else that of the
// home directory or of Ollama's service if only this one is there, whether or not this user
// may look into it.
func OllamaDir() (string, error) {
	places := source.OllamaStores()
	for _, p := range places {
		if _, err := os.Stat(p.Path); err == nil || errors.Is(err, fs.ErrPermission) {
			return p.Path, nil
		}
	}
	if len(places) == 0 {
		return "", errors.New("where does Ollama keep its models? Set OLLAMA_MODELS")
	}
	return places[0].Path, nil
}

// OllamaName returns the name under which a store has or gets a model: of names that differ
// in case alone it has one. It fails where it has the model, and this may not be replaced.
func OllamaName(dir string, n ollama.Name, force bool) (ollama.Name, error) {
	there, err := ollama.Find(os.DirFS(dir), n)
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
	blobs := filepath.Join(dir, "blobs")
	if err := makeDirs(blobs); err != nil {
		return nil, err
	}
	at := dir
	if !sameDisk(dir, blobs) { // blobs may be a link to another disk, where files have to be to get their names
		at = blobs
	}
	sum := sha256.Sum256([]byte(n.Path()))
	s, err := openStage(filepath.Join(at, ".tensorfs-"+hex.EncodeToString(sum[:8])), o)
	if err != nil {
		return nil, err
	}
	defer func() { s.close(err) }()
	if n, err = OllamaName(dir, n, o.Force); err != nil { // it may have come meanwhile
		return nil, err
	}
	store := ollamaStore{stage: s, dir: dir, blobs: blobs}
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
	manifests, temporary := filepath.Join(dir, "manifests"), filepath.Join(s.dir, "manifest")
	if err := makeDirs(manifests); err != nil {
		return nil, err
	}
	if !sameDisk(manifests, s.dir) { // no path with fewer parts is one of a manifest
		temporary = filepath.Join(manifests, ".tensorfs")
	}
	if err := s.publish(temporary, r.Path, created.Manifest, o.Force); err != nil {
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
	dir, blobs string
}

func (s *ollamaStore) path(f *file) string { return filepath.Join(s.blobs, "sha256-"+f.sum) }

func pointers(list []file) (all []*file) {
	for i := range list {
		all = append(all, &list[i])
	}
	return all
}

// there finds blobs: see stage.write.
func (s *ollamaStore) there(ctx context.Context) func(size int64, sum string) string {
	sizes := map[int64]bool{}
	entries, _ := os.ReadDir(s.blobs) // what cannot be read is not reused
	for _, e := range entries {
		if st, err := e.Info(); err == nil && st.Mode().IsRegular() {
			sizes[st.Size()] = true
		}
	}
	return func(size int64, sum string) string {
		f := file{size: size, sum: sum}
		switch path := s.path(&f); {
		case !sizes[size]:
			return ""
		case sum == "":
			return s.blobs
		default:
			if same, err := hasBytes(ctx, path, &f); err == nil && same {
				return path
			}
			return ""
		}
	}
}

// weights reads the headers of the files.
func (s *ollamaStore) weights(list []file, parent Parent) (all []ollama.Weights, err error) {
	for i := range list {
		f := &list[i]
		m, err := source.Map(f.path, f.name)
		if err != nil {
			return nil, err
		}
		defer m.Close()
		header, err := gguf.Parse(m)
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

// texts writes the other blobs to the stage.
func (s *ollamaStore) texts(list []ollama.Text) (all []*file, err error) {
	for _, t := range list {
		f := &file{name: t.Digest, size: int64(len(t.Bytes)), sum: t.Digest[len("sha256:"):], how: Written}
		f.path = filepath.Join(s.stage.dir, "text-"+f.sum)
		if old, err := os.ReadFile(f.path); err != nil || !bytes.Equal(old, t.Bytes) {
			if err := s.text(f.path, t.Bytes); err != nil {
				return nil, err
			}
		}
		all = append(all, f)
	}
	return all, nil
}

func (s *ollamaStore) placeAll(ctx context.Context, all []*file) error {
	for _, f := range all {
		if err := s.place(ctx, f, s.path(f)); err != nil {
			return err
		}
	}
	return syncDir(s.blobs)
}

// sameDisk reports whether two directories are on one file system.
func sameDisk(a, b string) bool {
	var x, y unix.Stat_t
	return unix.Stat(a, &x) == nil && unix.Stat(b, &y) == nil && x.Dev == y.Dev
}
