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

	anyOwner bool // links that lead to the directory are followed for every owner

	mu     sync.Mutex
	inner  *inner // where links may lead; nil if it is opened for each file
	closed bool   // inner is not kept
}

// Dir returns the directory at path. Its contents are examined later.
func Dir(path string, links Links) (*Directory, error) {
	d, name, err := openParent(path, links)
	if _, ok := err.(special); ok || err == nil && name != "." {
		if d != nil {
			d.Close()
		}
		return nil, &tensorfs.FormatError{File: location(path), Offset: -1, Problem: "it is not a directory", Advice: "name the model's directory"}
	}
	if err != nil {
		return nil, explain(location(path), err)
	}
	return d, nil
}

// Named returns the directory of the path that a user named, and the file's name there: "."
// for a directory, else a regular file's name. The user's path is followed wherever it
// leads; see Inside.
func Named(path string, links Links) (d *Directory, name string, err error) {
	d, name, err = openParent(path, links)
	if mode, ok := err.(special); ok {
		e := tensorfs.NotRegular(location(path), fs.FileMode(mode))
		e.Advice = "models are not read from a pipe or a device: write it to a file, and name that"
		return nil, "", e
	}
	if _, ok := errors.AsType[*tensorfs.FormatError](err); err != nil && !ok {
		err = notThere(location(path), err)
	}
	return d, name, err
}

// OpenNamed opens the regular file that a user named. See Named.
func OpenNamed(path string, links Links) (File, error) {
	d, name, err := Named(path, links)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.OpenFile(name)
}

// openParent is Named with the errors of the system.
func openParent(path string, links Links) (d *Directory, name string, err error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, "", err
	}
	if links == Inside {
		return findInside(abs)
	}
	st, err := os.Stat(abs)
	switch {
	case err != nil:
		return nil, "", err
	case st.IsDir():
		return &Directory{path: abs, links: links}, ".", nil
	case !st.Mode().IsRegular():
		return nil, "", special(st.Mode())
	}
	name = filepath.Base(abs)
	return &Directory{path: filepath.Dir(abs), links: links, named: name}, name, nil
}

// findInside is find for Inside: all that is opened later is opened below the handles of what
// is there now.
func findInside(abs string) (d *Directory, name string, err error) {
	w := &walker{}
	defer w.close()
	dir, err := w.resolve(filepath.Dir(abs))
	if err != nil {
		return nil, "", err
	}
	s, err := w.follow(dir, filepath.Base(abs))
	if err != nil {
		return nil, "", err
	}
	if s.isDir() {
		d = &Directory{path: abs, links: Inside}
		d.inner, err = d.innerOf(w, s)
		return d, ".", err
	}
	if mode := s.special(); mode != 0 {
		return nil, "", special(mode)
	}
	d = &Directory{path: filepath.Dir(abs), links: Inside, named: filepath.Base(abs)}
	if d.inner, err = d.innerOf(w, dir); err != nil {
		return nil, "", err
	}
	if d.inner.named, err = w.hold(&s); err != nil {
		d.Close()
		return nil, "", err
	}
	return d, d.named, nil
}

// location is the absolute path of a path, for messages.
func location(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// special is the error of a pipe or a device.
type special fs.FileMode

func (special) Error() string { return "neither a file nor a directory" }

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

// OpenTarget is OpenFile for a file whose link may go before the file does: its path is
// where the link leads.
func (d *Directory) OpenTarget(name string) (File, error) {
	f, err := d.OpenFile(name)
	if m, ok := f.(*Mapped); ok && err == nil {
		m.path = d.Target(name)
	}
	return f, err
}

// Target returns the path that a file's link leads to now, the file's own path if it is not a
// link. It is for people and for links, and nothing is opened by it: the link may lead
// elsewhere by then.
func (d *Directory) Target(name string) string {
	at := d.Location(name)
	if real, err := filepath.EvalSymlinks(at); err == nil {
		return real
	}
	return at
}

// ReadDir lists a directory.
func (d *Directory) ReadDir(name string) ([]fs.DirEntry, error) {
	f, err := d.open(name, readOnly|unix.O_DIRECTORY)
	if err != nil {
		return nil, explain(d.Location(name), err)
	}
	if err := CheckConfined(f, d.Location(name)); err != nil {
		return nil, err
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
// its path, until it is closed. Links are followed only inside of it.
func (d *Directory) Hold(name string) (*Directory, error) {
	h := &Directory{path: d.Location(name), links: Inside, anyOwner: d.links == Anywhere}
	in, err := d.hold(h, name)
	if err != nil {
		return nil, explain(h.path, err)
	}
	h.inner = in
	return h, nil
}

// HoldModel is Hold for a model below d, and its name there: "." for a directory, else a
// file's, which its directory holds. Links are followed inside of d up to the model.
func (d *Directory) HoldModel(name string) (h *Directory, file string, err error) {
	at := d.Location(name)
	err = d.within(func(in *inner) error {
		s, rel, err := in.rel(d, name)
		if err != nil {
			return err
		}
		if mode := s.special(); mode != 0 {
			return tensorfs.NotRegular(at, mode)
		}
		path := at
		if file = "."; !s.isDir() {
			file, rel, path = filepath.Base(rel), filepath.Dir(rel), filepath.Join(in.path, filepath.Dir(rel))
		}
		h = &Directory{path: path, links: Inside}
		h.inner, err = in.hold(rel)
		return err
	})
	if err != nil {
		return nil, "", explain(at, err)
	}
	return h, file, nil
}

func (d *Directory) hold(h *Directory, name string) (held *inner, err error) {
	if d.links == Anywhere {
		return openInner(h)
	}
	err = d.within(func(in *inner) error {
		_, rel, err := in.rel(d, name)
		if err == nil {
			held, err = in.hold(rel)
		}
		return err
	})
	return held, err
}

// within calls a function with the area of a directory that follows no link out of it.
func (d *Directory) within(do func(in *inner) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	in := d.inner
	if in == nil {
		var err error
		if in, err = openInner(d); err != nil {
			return err
		}
		if d.closed {
			defer in.close()
		} else {
			d.inner = in
		}
	}
	return do(in)
}

// open opens a file or directory, following links as allowed.
func (d *Directory) open(name string, flags int) (f *os.File, err error) {
	if d.links == Anywhere {
		return os.OpenFile(d.Location(name), flags, 0)
	}
	err = d.within(func(in *inner) error {
		if name != d.named {
			f, err = in.open(d, name, flags)
			return err
		}
		t := in.named
		if t == nil {
			if t, err = reach(d.Location(name)); err != nil {
				return err
			}
			defer t.close()
		}
		f, err = t.open(flags)
		return err
	})
	return f, err
}

// reach returns the file that a path leads to.
func reach(path string) (*target, error) {
	w := &walker{}
	defer w.close()
	s, err := w.resolve(path)
	if err != nil {
		return nil, err
	}
	return w.hold(&s)
}

// explain describes why a file of the model cannot be opened. A dangling link is an error
// of its own: the file was removed, or its download has not finished.
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
	return in.close()
}

var _ FS = (*Directory)(nil)
