package ollama

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/mmap"
)

// blobs opens the blobs of one model. Every blob is mapped once, however many
// layers it has, and stays open: Ollama may prune it while the model is in use.
type blobs struct {
	root  *os.Root
	dir   string // absolute
	files map[digest]*mmap.File
	order []io.Closer
}

func openBlobs(s store) (*blobs, error) {
	dir, err := filepath.Abs(filepath.Join(string(s), "blobs"))
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", tensorfs.Printable(dir), describe(err))
	}
	return &blobs{root: root, dir: dir, files: make(map[digest]*mmap.File)}, nil
}

// path returns where a digest's blob is.
func (b *blobs) path(d digest) string { return filepath.Join(b.dir, d.file()) }

// open opens a layer's blob and checks that it has the size that the manifest says.
func (b *blobs) open(l *layer) (*os.File, error) {
	f, err := openIn(b.root, l.digest.file())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l, err)
	}
	st, err := f.Stat()
	if err == nil {
		err = b.sized(l, st.Size())
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// sized returns an error unless a layer's blob has the size that the manifest says.
func (b *blobs) sized(l *layer, size int64) error {
	if size == l.size {
		return nil
	}
	return fmt.Errorf("%s: %w", l, &tensorfs.FormatError{File: b.path(l.digest), Offset: -1, Problem: fmt.Sprintf("it has %d bytes, the manifest says %d", size, l.size),
		Advice: "fetch the model again with 'ollama pull'"})
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
func (b *blobs) read(l *layer, max int64) ([]byte, error) {
	f, err := b.open(l)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := readSmall(f, max)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l, err)
	}
	return text, nil
}

// mapped returns a layer's blob, mapped. label is its name below source/ unless
// another layer with the same blob was first.
func (b *blobs) mapped(l *layer, label string) (*mmap.File, error) {
	if m := b.files[l.digest]; m != nil {
		return m, b.sized(l, m.Size())
	}
	f, err := b.open(l)
	if err != nil {
		return nil, err
	}
	m, err := mmap.New(f, b.path(l.digest), label)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l, err)
	}
	m.IgnoreModTime() // Ollama touches blobs that a second model has, too
	b.files[l.digest] = m
	b.order = append(b.order, m)
	return m, nil
}

// close closes the directory and, unless the model took them, the mappings.
func (b *blobs) close(files bool) error {
	errs := []error{b.root.Close()}
	if files {
		for _, m := range b.order {
			errs = append(errs, m.Close())
		}
	}
	return errors.Join(errs...)
}

// room returns an error when the process may not open n more files. Go raised
// the limit as far as it is allowed to when the program started.
func room(n int) error {
	const others = 64 // files that the process needs beside the blobs
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || uint64(n)+others <= uint64(limit.Cur) {
		return nil
	}
	return worded{fmt.Sprintf("the model has %d blobs, and each stays open, but this process may open %d files; raise the limit with 'ulimit -n %d'", n, limit.Cur, n+others), syscall.EMFILE}
}

// String names the layer for messages.
func (l *layer) String() string {
	s := l.kind.String() + " layer"
	if l.name != "" {
		s += " " + tensorfs.Quote(l.name)
	}
	return s + " (" + l.digest.String() + ")"
}
