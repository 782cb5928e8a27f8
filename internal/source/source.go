package source

import (
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/tensorfs/tensorfs"
)

// FS is where the files of a model are. Names are relative paths with slashes and
// without "..", of any bytes; "." is the directory itself. Errors are worded for
// users and match the system's error in errors.Is.
//
// It is an fs.FS whose files can do more. [Of] makes one of any fs.FS.
type FS interface {
	fs.ReadDirFS
	// OpenFile opens the regular file of that name and never waits for anything else. An
	// error that is fs.ErrNotExist means that nothing has the name.
	OpenFile(name string) (File, error)
	// Location returns where a file of that name is, for messages and for the
	// links below source/: an absolute path, or an address.
	Location(name string) string
}

// File is an open file of a model. It is immutable: reading one that changed is
// an error that wraps tensorfs.ErrChanged.
//
// It may be a tensorfs.Viewer and a tensorfs.Slicer too. One that is named by
// the hash of its content, and touched by its owner, has IgnoreModTime().
type File interface {
	tensorfs.Data
	// Section returns the bytes [off, off+n), with all abilities that the file has, as a
	// tensorfs.Extenter. It panics if they are not inside the file: parsers check first.
	Section(off, n int64) tensorfs.Data
	// Path is the file's location, as returned by FS.Location.
	Path() string
	// Label is the file's name below source/, at first the last part of its name.
	Label() string
	// SetLabel gives it another one. Call it before the file is shared.
	SetLabel(label string)
	// ModTime is when the file was modified last, as known when it was opened.
	ModTime() time.Time
	// Check returns an error that wraps tensorfs.ErrChanged once the file is no
	// longer the one that was opened.
	Check() error
	io.Closer
}

// Section returns [off, off+n) of a File whose bytes are not in memory. It panics if they
// are not inside the file.
func Section(f File, off, n int64) tensorfs.Data {
	if err := tensorfs.CheckRange(f, off, n); err != nil {
		panic(err)
	}
	if n == 0 {
		return empty{tensorfs.Bytes(nil), f, off}
	}
	return tensorfs.Section(f, off, n)
}

// empty is a section without bytes, which has a place all the same.
type empty struct {
	tensorfs.Data
	file File
	off  int64
}

// Extents returns the section's place in its file.
func (e empty) Extents() []tensorfs.Extent {
	return []tensorfs.Extent{{File: e.file.Label(), Offset: e.off}}
}

// Extents returns a File as its own extent, for [Section].
func Extents(f File) []tensorfs.Extent {
	return []tensorfs.Extent{{File: f.Label(), Bytes: f.Size()}}
}

// ReadAll reads the whole of a file of at most limit bytes. A larger one is an error that
// names it by path.
func ReadAll(d tensorfs.Data, path string, limit int64) ([]byte, error) {
	if d.Size() > limit {
		return nil, &tensorfs.FormatError{File: path, Offset: -1, Problem: fmt.Sprintf("it has %d bytes, but such a file may have at most %d", d.Size(), limit)}
	}
	b := make([]byte, d.Size())
	if err := tensorfs.ReadFull(d, b, 0); err != nil {
		return nil, err
	}
	return b, nil
}

// ReadSmall reads the whole file of that name, which may have at most limit bytes.
func ReadSmall(src FS, name string, limit int64) ([]byte, error) {
	f, err := src.OpenFile(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadAll(f, f.Path(), limit)
}

// IsDir reports whether src has a directory of that name.
func IsDir(src FS, name string) bool {
	_, err := src.ReadDir(name)
	return err == nil
}

// Opened is an FS with one file already open: the first Open of it returns that
// file. So a caller can look at a file before choosing a parser, and nothing is
// opened twice.
type Opened struct {
	FS
	name string
	file File // nil once it is taken
}

// With returns src with the file of that name already open. The Opened owns f
// until it is taken.
func With(src FS, name string, f File) *Opened { return &Opened{src, name, f} }

// Open is OpenFile for users of package fs.
func (o *Opened) Open(name string) (fs.File, error) { return Plain(o.OpenFile(name)) }

// OpenFile opens a file, or hands out the one already open.
func (o *Opened) OpenFile(name string) (File, error) {
	if f := o.file; f != nil && name == o.name {
		o.file = nil
		return f, nil
	}
	return o.FS.OpenFile(name)
}

// Close closes the file if it was not taken.
func (o *Opened) Close() error {
	if o.file == nil {
		return nil
	}
	return o.file.Close()
}

// Join is several directories seen as one: each is below its key, the first
// part of a name.
type Join map[string]FS

// sourceOf returns where a name belongs, or nil.
func (j Join) sourceOf(name string) (src FS, rest string) {
	first, rest, _ := strings.Cut(name, "/")
	if rest == "" {
		rest = "."
	}
	return j[first], rest
}

// Open is OpenFile for users of package fs.
func (j Join) Open(name string) (fs.File, error) { return Plain(j.OpenFile(name)) }

// OpenFile opens a file of one of the directories.
func (j Join) OpenFile(name string) (File, error) {
	src, rest := j.sourceOf(name)
	if src == nil {
		return nil, tensorfs.PathError(name, syscall.ENOENT)
	}
	return src.OpenFile(rest)
}

// ReadDir lists a directory in one of the directories.
func (j Join) ReadDir(name string) ([]fs.DirEntry, error) {
	src, rest := j.sourceOf(name)
	if src == nil {
		return nil, tensorfs.PathError(name, syscall.ENOENT)
	}
	return src.ReadDir(rest)
}

// Location returns where a file is. The directory above all is the one that the
// first of them is in.
func (j Join) Location(name string) string {
	if src, rest := j.sourceOf(name); src != nil {
		return src.Location(rest)
	}
	if len(j) == 0 {
		return name
	}
	first := slices.Min(slices.Collect(maps.Keys(j)))
	return path.Join(path.Dir(j[first].Location(".")), name)
}

var (
	_ FS = (*Opened)(nil)
	_ FS = Join(nil)
)
