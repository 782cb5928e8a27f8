package stores

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"syscall"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/opendir"
	"golang.org/x/sys/unix"
)

// dirMode is the mode of directories that are made in a store.
const dirMode = 0o755

// place gives a staged file its name in the store, and leaves it in the stage too. A file
// of the name with the same bytes is left; with others it is replaced if told to.
func (s *stage) place(ctx context.Context, f *file, to *opendir.Dir, name string) error {
	if f.moved || f.dir == to && f.base == name {
		return nil
	}
	if f.how != Linked && f.how != There { // what was there keeps its owner
		if err := s.give(f); err != nil {
			return err
		}
	}
	err := f.link(to, name)
	if err == nil || !errors.Is(err, fs.ErrExist) {
		return err
	}
	mine, err := f.dir.Lstat(f.base)
	if err != nil {
		return err
	}
	if st, err := to.Lstat(name); err == nil && os.SameFile(mine, st) {
		return nil
	}
	old, same, err := hasBytes(ctx, to, name, f)
	if old != nil {
		defer old.Close()
	}
	switch {
	case err != nil:
		return err
	case same && s.Copy && f.is(old): // an earlier command linked it
	case same:
		f.how, f.origin = There, ""
		return nil
	case !s.Force:
		return fmt.Errorf("%s %w, with other bytes", tensorfs.Printable(to.Join(name)), ErrExists)
	}
	other := fmt.Sprintf("other-%08x", rand.Uint32())
	if err := f.dir.Link(f.base, s.dir, other); err == nil {
		return s.dir.Rename(other, to, name)
	} else if !noLinks(err) {
		return err
	}
	f.moved = true
	return f.dir.Rename(f.base, to, name)
}

// give changes the owner of a file that root wrote into a user's store: a service that runs
// as its own user could not remove it otherwise.
func (s *stage) give(f *file) error {
	open, _, err := f.dir.OpenRegular(f.base)
	if err != nil {
		return err
	}
	return errors.Join(s.at.Give(open), open.Close())
}

// link gives a file another name, or, on a file system without that, a new one.
func (f *file) link(to *opendir.Dir, name string) error {
	err := f.dir.Link(f.base, to, name)
	if noLinks(err) {
		if err = f.dir.RenameNew(f.base, to, name); err == nil {
			f.moved = true
		}
	}
	return err
}

// noLinks reports whether an error means that a file system has no hard links.
func noLinks(err error) bool {
	return errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.ENOSYS)
}

// hasBytes opens a file of the store, and reports whether it has the bytes of f. The file
// is nil if it is missing.
func hasBytes(ctx context.Context, dir *opendir.Dir, name string, f *file) (*os.File, bool, error) {
	there, err := dir.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, false, nil
	case err != nil:
		return nil, false, err
	case there.IsDir():
		return nil, false, fmt.Errorf("%s: a directory of this name %w", tensorfs.Printable(dir.Join(name)), ErrExists)
	case !there.Mode().IsRegular() && there.Mode()&fs.ModeSymlink == 0:
		return nil, false, nil
	}
	open, st, err := dir.OpenRegular(name) // Ollama follows links, too
	switch {
	case there.Mode()&fs.ModeSymlink != 0 && err != nil: // it is dangling, or leads outside of the store
		return nil, false, nil
	case err != nil:
		return nil, false, err
	case st.Size() != f.size:
		open.Close()
		return nil, false, nil
	}
	sum, err := hashData(ctx, sized{open, f.size}, func(int64) {})
	if err != nil || sum != f.sum {
		open.Close()
		return nil, false, err
	}
	return open, true, nil
}

// publish gives a file of a stage the name that makes another program see the model: at once,
// and only where nothing is unless it may be replaced.
func publish(f *file, to *opendir.Dir, name string, replace bool) error {
	var err error
	if replace {
		err = f.dir.Rename(f.base, to, name)
	} else {
		err = f.link(to, name)
	}
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s %w", tensorfs.Printable(to.Join(name)), ErrExists)
	}
	if err != nil {
		return err
	}
	return to.Sync()
}

// text writes a small file to the stage, durably and for the store's owner.
func (s *stage) text(name string, text []byte) (*file, error) {
	if err := s.dir.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) { // it may have another name by now
		return nil, err
	}
	f, err := s.dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Sync(), s.at.Give(f), f.Close())
	return &file{dir: s.dir, base: name, size: int64(len(text)), how: Written}, err
}

func owner(st os.FileInfo) (uid uint32, ok bool) {
	s, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return s.Uid, true
}

// release closes a directory of a store after the work. If it failed, directories that were
// made on the way to it go.
func release(d *opendir.Dir, err *error) {
	if *err != nil {
		d.Undo()
		return
	}
	d.Close()
}
