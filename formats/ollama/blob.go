package ollama

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"syscall"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/source"
)

// blobs opens the blobs of one model. Every blob of tensors is opened once,
// however many layers it has, and stays open: Ollama may prune it while the model
// is in use.
type blobs struct {
	src   source.FS // the store
	files map[digest]source.File
	order []source.File

	colons map[digest]bool // blobs with the file name sha256:HEX
}

// name returns the path of a digest's blob in the store.
func (d digest) name() string { return path.Join(blobsDir, d.file()) }

// name returns the path of a digest's blob in this store: sha256-HEX, or sha256:HEX in a
// store that was last used before February 2024.
func (b *blobs) name(d digest) string {
	if b.colons[d] {
		return path.Join(blobsDir, d.String())
	}
	return d.name()
}

// path returns where a digest's blob is.
func (b *blobs) path(d digest) string { return b.src.Location(b.name(d)) }

// openBlob opens a digest's blob under either name.
func (b *blobs) openBlob(d digest) (source.File, error) {
	f, err := b.src.OpenFile(b.name(d))
	if !errors.Is(err, fs.ErrNotExist) || b.colons[d] {
		return f, err
	}
	if f, older := b.src.OpenFile(path.Join(blobsDir, d.String())); older == nil {
		if b.colons == nil {
			b.colons = map[digest]bool{}
		}
		b.colons[d] = true
		return f, nil
	}
	return nil, err
}

// What to do about a store that is not what Ollama wrote. It takes a blob that is there for
// one that it has fetched, whatever is in it.
const (
	pull  = "fetch the model again with 'ollama pull'"
	renew = "remove the file, since 'ollama pull' keeps a blob that is there, and fetch the model again"
)

// refetch adds what to do about a file of a store that is not what Ollama wrote.
func refetch(err error) error {
	e, ok := errors.AsType[*tensorfs.FormatError](err)
	if !ok {
		return err
	}
	isBlob := strings.HasPrefix(e.File, "/") && path.Base(path.Dir(e.File)) == blobsDir // of this machine
	switch {
	case errors.Is(e, fs.ErrNotExist):
		e.Advice = pull
	case isBlob && (errors.Is(e, tensorfs.ErrFormat) || strings.HasPrefix(e.Advice, "fetch the file again")):
		e.Advice = renew
	case errors.Is(e, tensorfs.ErrFormat), errors.Is(e, syscall.ELOOP), errors.Is(e, syscall.ENXIO):
		e.Advice = pull
	}
	return err
}

// open opens a layer's blob and checks that its size equals the manifest's.
func (b *blobs) open(l *layer) (source.File, error) {
	f, err := b.openBlob(l.digest)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l, refetch(err))
	}
	if err := b.sized(l, f.Size()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if t, ok := f.(interface{ IgnoreModTime() }); ok {
		t.IgnoreModTime() // Ollama touches blobs that a second model has, too
	}
	return f, nil
}

// sized returns an error unless the size of a layer's blob equals the manifest's.
func (b *blobs) sized(l *layer, size int64) error {
	if size == l.size {
		return nil
	}
	return fmt.Errorf("%s: %w", l, &tensorfs.FormatError{File: b.path(l.digest), Offset: -1, Problem: fmt.Sprintf("it has %d bytes instead of the %d in the manifest", size, l.size), Advice: renew})
}

// check opens a blob only to see that it is there and has the right size.
func (b *blobs) check(l *layer) error {
	f, err := b.open(l)
	if err != nil {
		return err
	}
	return f.Close()
}

// read returns the whole content of a small blob.
func (b *blobs) read(l *layer, limit int64) ([]byte, error) {
	f, err := b.open(l)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := source.ReadAll(f, f.Path(), limit)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l, err)
	}
	return text, nil
}

// mapped returns a layer's blob. label is its name below source/ unless another
// layer with the same blob was first.
func (b *blobs) mapped(l *layer, label string) (source.File, error) {
	if f := b.files[l.digest]; f != nil {
		return f, b.sized(l, f.Size())
	}
	f, err := b.open(l)
	if err != nil {
		return nil, err
	}
	f.SetLabel(label)
	b.files[l.digest] = f
	b.order = append(b.order, f)
	return f, nil
}

// close closes the blobs, unless the model took them.
func (b *blobs) close() error {
	var errs []error
	for _, f := range b.order {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// String names the layer for messages.
func (l *layer) String() string {
	s := l.kind.String() + " layer"
	if l.name != "" {
		s += " " + tensorfs.Quote(l.name)
	}
	return s + " (" + l.digest.String() + ")"
}
