package metal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/tensorfs/tensorfs"
	"golang.org/x/sys/unix"
)

// descriptor is Data that is all of an open file of this machine.
type descriptor interface {
	tensorfs.Data
	Path() string
	Descriptor() int
}

// modelFile is a file of the model.
type modelFile struct{ descriptor }

// file returns the file of that name below source/, nil if it cannot be mapped.
func (t *tree) file(name string) *modelFile {
	t.mu.Lock()
	defer t.mu.Unlock()
	f, ok := t.files[name]
	if !ok {
		if d, err := t.model.File(name); err == nil {
			if d, ok := d.(descriptor); ok {
				f = &modelFile{d}
			}
		}
		t.files[name] = f
	}
	return f
}

func (f *modelFile) Name() string { return f.Path() }

// Open returns another descriptor of the file that the model has open, whatever is
// at its path by now.
func (f *modelFile) Open() (*os.File, error) {
	if err := tensorfs.Check(f.descriptor); err != nil {
		return nil, err
	}
	return another(f.descriptor)
}

// another returns another descriptor of an open file.
func another(d descriptor) (*os.File, error) {
	fd, err := unix.FcntlInt(uintptr(d.Descriptor()), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", tensorfs.Printable(d.Path()), err)
	}
	return os.NewFile(uintptr(fd), d.Path()), nil
}

// shownFile is a file of a mounted or exported tree.
type shownFile struct {
	tree *tree
	ref  Ref
	path string
	size int64
}

func (f shownFile) Name() string { return f.path }
func (f shownFile) Size() int64  { return f.size }

func (f shownFile) Open() (*os.File, error) {
	found, _ := f.tree.model.Shown(f.ref.View, f.ref.Name)
	file, err := found.Open()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: the tree named it and lacks it now; is the model still mounted? (tensorfs status)", err)
	case slices.ContainsFunc(lost, func(e error) bool { return errors.Is(err, e) }):
		return nil, fmt.Errorf("%w: the mount is gone or its model changed; mount it again and open it again", err)
	case err != nil:
		return nil, err
	}
	defer file.Close()
	d, ok := file.(descriptor)
	if n := file.Size(); !ok || n != f.size {
		return nil, fmt.Errorf("%s has %d bytes and should have %d; open the tree again", tensorfs.Printable(f.path), n, f.size)
	}
	return another(d)
}

// lost are the errors of a mount that is gone.
var lost = []error{unix.ENOTCONN, unix.EIO, unix.ESTALE, unix.ECONNABORTED}

// keptFile is a file of the cache.
type keptFile struct {
	kept *kept
	ref  Ref
	size int64
}

func (f keptFile) Name() string { return f.kept.path(f.ref) }
func (f keptFile) Size() int64  { return f.size }

func (f keptFile) Open() (*os.File, error) {
	root := f.kept.files()
	if root == nil {
		return nil, os.ErrClosed
	}
	file, err := root.OpenFile(f.ref.String(), os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, tensorfs.PathError(f.Name(), err)
	}
	st, err := file.Stat()
	named, nerr := root.Lstat(f.ref.String()) // not what a link leads to
	if err != nil || nerr != nil || !f.kept.wrote(st, f.size) || !os.SameFile(st, named) {
		file.Close()
		return nil, f.changed()
	}
	if !f.kept.compare(f.ref, root, file) {
		file.Close()
		return nil, f.changed()
	}
	return file, nil
}

func (f keptFile) changed() error {
	return fmt.Errorf("%s was changed since it was converted; remove it, or the model from the cache (tensorfs cache prune), and open the model again", tensorfs.Printable(f.Name()))
}

// wrote reports whether a file of the cache is as it was written: regular, of the
// tensor's size, and with the mtime that it was given last.
func (k *kept) wrote(st os.FileInfo, size int64) bool {
	return st.Mode().IsRegular() && st.Size() == size && st.ModTime().Equal(k.stamp)
}

var (
	_ file = (*modelFile)(nil)
	_ file = shownFile{}
	_ file = keptFile{}
)
