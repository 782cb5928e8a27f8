package stores

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"

	"github.com/tensorfs/tensorfs"
	"golang.org/x/sys/unix"
)

// place gives a staged file its name in the store, and leaves it in the stage too. A file
// of the name with the same bytes is left; with others it is replaced if told to.
func (s *stage) place(ctx context.Context, f *file, path string) error {
	if f.path == path {
		return nil
	}
	if err := makeDirs(filepath.Dir(path)); err != nil {
		return err
	}
	if f.how != Linked && f.how != There { // what was there keeps its owner
		if err := s.own(f.path); err != nil {
			return err
		}
	}
	err := link(f.path, path)
	if err == nil || !errors.Is(err, fs.ErrExist) {
		return err
	}
	if sameFile(f.path, path) {
		return nil
	}
	switch same, err := hasBytes(ctx, path, f); {
	case err != nil:
		return err
	case same && s.Copy && sameFile(path, f.own): // an earlier command linked it
	case same:
		f.how, f.origin = There, ""
		return nil
	case !s.Force:
		return fmt.Errorf("%s %w, with other bytes", tensorfs.Printable(path), ErrExists)
	}
	other := fmt.Sprintf("%s.%08x.new", f.path, rand.Uint32())
	if err := link(f.path, other); err != nil {
		return err
	}
	return os.Rename(other, path)
}

// link gives a file another name, or, on a file system without that, a new one.
func link(from, to string) error {
	err := os.Link(from, to)
	if !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.ENOTSUP) && !errors.Is(err, unix.ENOSYS) {
		return err
	}
	if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
		return &os.LinkError{Op: "link", Old: from, New: to, Err: errors.Join(err, fs.ErrExist)}
	}
	return os.Rename(from, to)
}

// hasBytes reports whether the file at a path has the bytes of f.
func hasBytes(ctx context.Context, path string, f *file) (bool, error) {
	st, err := os.Stat(path) // Ollama follows links, too
	switch {
	case errors.Is(err, fs.ErrNotExist): // a link that leads nowhere
		return false, nil
	case err != nil:
		return false, err
	case st.IsDir():
		return false, fmt.Errorf("%s: a directory of this name %w", tensorfs.Printable(path), ErrExists)
	case !st.Mode().IsRegular() || st.Size() != f.size:
		return false, nil
	}
	sum, err := hashFile(ctx, path, f.size, func(int64) {})
	return sum == f.sum, err
}

// publish writes what makes another program see the model: at once, and only where nothing
// is unless it may be replaced. temporary is where it is written first.
func (s *stage) publish(temporary, path string, text []byte, replace bool) error {
	if err := makeDirs(filepath.Dir(path)); err != nil {
		return err
	}
	temporary = fmt.Sprintf("%s.%08x", temporary, rand.Uint32())
	err := s.text(temporary, text)
	defer os.Remove(temporary)
	if err != nil {
		return err
	}
	if replace {
		err = os.Rename(temporary, path)
	} else {
		err = link(temporary, path)
	}
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s %w", tensorfs.Printable(path), ErrExists)
	}
	if err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// text writes a small file, durably.
func (s *stage) text(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err := errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return err
	}
	return s.own(path)
}

// makeDirs makes directories that are missing, each for the owner of the one above.
func makeDirs(dir string) error {
	if st, err := os.Stat(dir); err == nil && st.IsDir() {
		return nil
	}
	above := filepath.Dir(dir)
	if above != dir {
		if err := makeDirs(above); err != nil {
			return err
		}
	}
	switch err := os.Mkdir(dir, 0o755); {
	case errors.Is(err, fs.ErrExist):
		if st, err := os.Stat(dir); err != nil || !st.IsDir() {
			return tensorfs.NoDirectory(dir, &fs.PathError{Op: "mkdir", Path: dir, Err: unix.ENOTDIR})
		}
		return nil
	case err != nil:
		return tensorfs.NoDirectory(dir, err)
	}
	return ownAs(dir, above)
}

// own gives a file that root made in somebody's store to them: a service that runs as its
// own user could not remove it otherwise.
func (s *stage) own(path string) error { return ownAs(path, filepath.Dir(s.dir)) }

func ownAs(path, dir string) error {
	st, err := os.Stat(dir)
	if err != nil || os.Geteuid() != 0 {
		return err
	}
	o, ok := st.Sys().(*syscall.Stat_t)
	if !ok || o.Uid == 0 {
		return nil
	}
	return os.Lchown(path, int(o.Uid), int(o.Gid))
}

func owner(st os.FileInfo) (uid uint32, ok bool) {
	s, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return s.Uid, true
}

// syncDir makes names durable, where the file system can.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOTSUP) {
		return err
	}
	return nil
}
