package source

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/tensorfs/tensorfs"
	"golang.org/x/sys/unix"
)

// Directory is a directory of this machine. Its files are mapped.
type Directory struct {
	path  string // absolute, as the user named it
	links Links
	named string // the file in it that the user named, followed wherever it leads

	mu     sync.Mutex
	inner  *inner // where links may lead; nil before it is needed
	closed bool   // inner is not kept
}

// Dir returns the directory at path. Its contents are examined later.
func Dir(path string, links Links) (*Directory, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	st, err := os.Stat(abs)
	switch {
	case err != nil:
		return nil, tensorfs.PathError(abs, err)
	case !st.IsDir():
		return nil, &tensorfs.FormatError{File: abs, Offset: -1, Problem: "it is not a directory", Advice: "name the model's directory"}
	}
	return &Directory{path: abs, links: links}, nil
}

// Named returns the directory of what a user named, and its name there: "." for
// a directory, else that of a regular file. What the user named is followed
// wherever it leads.
func Named(path string, links Links) (d *Directory, name string, err error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, "", err
	}
	st, err := os.Stat(abs)
	switch {
	case err != nil:
		return nil, "", notThere(abs, err)
	case st.IsDir():
		return &Directory{path: abs, links: links}, ".", nil
	case !st.Mode().IsRegular():
		e := tensorfs.NotRegular(abs, st.Mode())
		e.Advice = "models are not read from a pipe or a device: write it to a file, and name that"
		return nil, "", e
	}
	name = filepath.Base(abs)
	return &Directory{path: filepath.Dir(abs), links: links, named: name}, name, nil
}

// Follow names a file of the directory that is followed wherever it leads,
// because the user named it.
func (d *Directory) Follow(name string) { d.named = name }

// notThere explains why a path that a user named cannot be opened.
func notThere(path string, err error) error {
	e := tensorfs.PathError(path, err)
	if target, err := os.Readlink(path); err == nil && e.Kind == fs.ErrNotExist {
		e.Problem, e.Advice = fmt.Sprintf("it is a symbolic link to %s, which does not exist", tensorfs.Quote(target)), "fetch the file that it leads to"
	}
	return e
}

// Location returns the absolute path of a file.
func (d *Directory) Location(name string) string { return filepath.Join(d.path, name) }

// Open is OpenFile for users of package fs.
func (d *Directory) Open(name string) (fs.File, error) { return Plain(d.OpenFile(name)) }

// OpenFile maps a file.
func (d *Directory) OpenFile(name string) (File, error) {
	at := d.Location(name)
	f, err := d.open(name, readOnly)
	if err != nil {
		return nil, explain(at, err)
	}
	m, err := newMapped(f, at, filepath.Base(name))
	if err != nil {
		return nil, err
	}
	return m, nil
}

// ReadDir lists a directory.
func (d *Directory) ReadDir(name string) ([]fs.DirEntry, error) {
	f, err := d.open(name, readOnly|unix.O_DIRECTORY)
	if err != nil {
		return nil, explain(d.Location(name), err)
	}
	defer f.Close()
	entries, err := f.ReadDir(-1)
	if err != nil {
		return nil, tensorfs.PathError(d.Location(name), err)
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}

// Hold returns a directory below d that stays the one that it is now, whatever comes to
// its path, until it is closed. Links are followed inside of it alone.
func (d *Directory) Hold(name string) (*Directory, error) {
	h := &Directory{path: d.Location(name), links: Inside}
	in, err := openInner(h)
	if err != nil {
		return nil, explain(h.path, err)
	}
	h.inner = in
	return h, nil
}

// open opens a file or directory, following links as allowed.
func (d *Directory) open(name string, flags int) (*os.File, error) {
	if d.links == Anywhere || name == d.named || name == "." {
		return os.OpenFile(d.Location(name), flags, 0)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	in := d.inner
	if in == nil {
		var err error
		if in, err = openInner(d); err != nil {
			return nil, err
		}
		if d.closed {
			defer in.root.Close()
		} else {
			d.inner = in
		}
	}
	return in.open(d, name, flags)
}

// explain says why a file of the model cannot be opened. A link to nothing is an
// error of its own: the file was there, or its download has not finished.
func explain(path string, err error) error {
	if e, ok := errors.AsType[*tensorfs.FormatError](err); ok {
		return e
	}
	if target, rerr := os.Readlink(path); rerr == nil && errors.Is(err, fs.ErrNotExist) {
		return &tensorfs.FormatError{File: path, Offset: -1, Problem: fmt.Sprintf("it is a link to %s, which does not exist", tensorfs.Quote(target)),
			Advice: "finish the download, or fetch the model again", Kind: tensorfs.ErrMissing}
	}
	return tensorfs.PathError(path, err)
}

// Close closes the directory's own handles. Its files stay open, and more can be
// opened: a handle is then opened for each.
func (d *Directory) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	in := d.inner
	d.inner, d.closed = nil, true
	if in == nil {
		return nil
	}
	return in.root.Close()
}

var _ FS = (*Directory)(nil)
