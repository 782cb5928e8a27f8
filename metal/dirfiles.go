package metal

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// treeFile is a file of a view.
type treeFile struct {
	d    *directory
	ref  Ref
	size int64
}

func (f treeFile) Name() string { return filepath.Join(f.d.path, f.ref.View, f.ref.Name) }
func (f treeFile) Size() int64  { return f.size }

func (f treeFile) Open() (*os.File, error) {
	file, err := f.d.file(f.ref.String(), f.size, 0)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: the tree named it and lacks it now; is the model still mounted? (tensorfs status)", err)
	}
	return file, err
}

// sourceFile is a file of the model, below source/.
type sourceFile struct {
	d     *directory
	state fileEntry
	path  func() string
}

func (f *sourceFile) Name() string { return f.path() }
func (f *sourceFile) Size() int64  { return f.state.Bytes }

// source returns the path of a file below source/, which holds links that lead out
// of the tree.
func (d *directory) source(name string) string {
	link := filepath.Join("source", name)
	target, err := d.root.Readlink(link)
	if err != nil || filepath.IsAbs(target) {
		return cmp.Or(target, filepath.Join(d.path, link))
	}
	return filepath.Join(d.path, filepath.Dir(link), target)
}

// check returns an error unless the path leads to the file that the tree was made
// of, as it was then.
func (f *sourceFile) check() error {
	var st unix.Stat_t
	if err := unix.Stat(f.path(), &st); err != nil {
		return fmt.Errorf("%s: %w", f.path(), err)
	}
	return f.compare(&st)
}

func (f *sourceFile) compare(st *unix.Stat_t) error {
	same := st.Mode&unix.S_IFMT == unix.S_IFREG && st.Size == f.state.Bytes && uint64(st.Ino) == f.state.Inode &&
		(f.state.MTime == 0 || f.state.MTime == st.Mtim.Nano()) && (f.state.CTime == 0 || f.state.CTime == st.Ctim.Nano())
	if !same {
		return fmt.Errorf("%s is not the file that is mounted, or was modified since; mount the model again and open it anew", f.path())
	}
	return nil
}

func (f *sourceFile) Open() (*os.File, error) {
	file, err := os.OpenFile(f.path(), os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(int(file.Fd()), &st); err == nil {
		err = f.compare(&st)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// plainFile is a file of the tree as the bytes of a tensor.
type plainFile struct {
	*os.File
	size int64
}

func (f plainFile) Size() int64 { return f.size }

func (f plainFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	return n, reword(err)
}

// directFile is read past the page cache, until the file system refuses.
type directFile struct{ plainFile }

func (f directFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.plainFile.ReadAt(p, off)
	if n == 0 && errors.Is(err, unix.EINVAL) {
		if _, ferr := unix.FcntlInt(f.Fd(), unix.F_SETFL, unix.O_RDONLY); ferr == nil {
			n, err = f.plainFile.ReadAt(p, off)
		}
	}
	return n, err
}
