package source

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"syscall"

	"github.com/tensorfs/tensorfs"
)

// Of returns an fs.FS as an FS: itself if it is one. The files of another one are read
//
//   - as tensorfs.Data, with all abilities that they have as such, if they are that: an
//     io.ReaderAt with a method Size() int64;
//   - by their ReadAt, if they have only that;
//   - otherwise from the front into memory when they are opened, at most 1 GiB of each.
//
// If the fs.FS has a method Location(name string) string, it locates files.
func Of(fsys fs.FS) FS {
	if src, ok := fsys.(FS); ok {
		return src
	}
	return anyFS{fsys}
}

// maxInMemory bounds a file that can only be read from the front.
const maxInMemory = 1 << 30

// anyFS makes an FS of an fs.FS.
type anyFS struct{ fs.FS }

// Location returns the fs.FS's location, else the name.
func (a anyFS) Location(name string) string {
	if l, ok := a.FS.(interface{ Location(name string) string }); ok {
		return l.Location(name)
	}
	return name
}

// explain words an error for users.
func (a anyFS) explain(name string, err error) error {
	if _, ok := errors.AsType[*tensorfs.FormatError](err); ok {
		return err
	}
	if !fs.ValidPath(name) { // an fs.FS calls such a name invalid, which no file can have
		err = syscall.ENOENT
	}
	return tensorfs.PathError(a.Location(name), err)
}

// ReadDir lists a directory.
func (a anyFS) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(a.FS, name)
	if err != nil {
		return nil, a.explain(name, err)
	}
	return entries, nil
}

// OpenFile opens a regular file.
func (a anyFS) OpenFile(name string) (File, error) {
	f, err := a.FS.Open(name)
	if err != nil {
		return nil, a.explain(name, err)
	}
	at, label := a.Location(name), path.Base(name)
	st, err := f.Stat()
	switch {
	case err != nil:
	case !st.Mode().IsRegular():
		err = tensorfs.NotRegular(at, st.Mode())
	default:
		if d, ok := f.(tensorfs.Data); ok {
			return FileOf(d, at, label, st.ModTime()), nil
		}
		if r, ok := f.(io.ReaderAt); ok {
			return FileOf(readerAt{r, f, st.Size()}, at, label, st.ModTime()), nil
		}
		b, rerr := readFront(at, f, st.Size())
		if err = errors.Join(rerr, f.Close()); err == nil {
			return FileOf(tensorfs.Bytes(b), at, label, st.ModTime()), nil
		}
		return nil, a.explain(name, err)
	}
	return nil, errors.Join(a.explain(name, err), f.Close())
}

// readerAt is the Data of an open file.
type readerAt struct {
	io.ReaderAt
	io.Closer
	size int64
}

// Size returns the file's length.
func (r readerAt) Size() int64 { return r.size }

// readFront reads a file of a given size from the front.
func readFront(at string, r io.Reader, size int64) ([]byte, error) {
	b := []byte(nil)
	if size <= maxInMemory {
		var err error
		if b, err = io.ReadAll(io.LimitReader(r, maxInMemory+1)); err != nil {
			return nil, err
		}
		size = int64(len(b))
	}
	if size > maxInMemory {
		return nil, tensorfs.Unsupported(at, fmt.Sprintf("it can only be read from the front, and more than %d bytes are not kept in memory", maxInMemory), "give it a method ReadAt, or write it to a file and name that")
	}
	return b, nil
}
