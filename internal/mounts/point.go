package mounts

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/tensorfs/tensorfs"
	"golang.org/x/sys/unix"
)

// madeAttr is the attribute of a directory that Take made, below the mount.
// Its value is the identity of the directory, so that a copy is not taken for it.
// It outlives a server that was killed.
const madeAttr = "user.tensorfs.made"

// Point is a mount point while a server takes it or leaves it. It holds the directory
// above open and locked: of two servers at one path, one makes the mount point, and
// neither removes what the other is about to use.
type Point struct {
	Path string // without links
	Made string // identity of the directory, if Take made it; else ""
	// Cleaned reports that the mount of a server that is gone was removed.
	Cleaned bool

	dir  int    // descriptor of the directory above
	name string // in the directory above
}

// lockTime is how long Take waits for the lock. Mounting takes milliseconds; any process
// that can read a directory can hold its lock.
const lockTime = 2 * time.Second

// openPoint opens and locks the directory above a path without links.
func openPoint(path string) (*Point, error) {
	dir, err := openParent(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	p := &Point{Path: path, dir: dir, name: filepath.Base(path)}
	for end := time.Now().Add(lockTime); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		// A file system without locks is used without one.
		if err := unix.Flock(dir, unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
			break
		}
	}
	return p, nil
}

// Close unlocks the directory above.
func (p *Point) Close() { unix.Close(p.dir) }

// Take checks that a path can be a mount point, after it has removed the mount of a
// server that is gone. With create it makes the last directory of the path if that is
// missing. With hide something may be in the directory. The caller closes the Point once
// the file system is mounted there.
func Take(mountpoint string, create, hide bool) (*Point, error) {
	cleaned, err := removeStale(mountpoint)
	if err != nil {
		return nil, err
	}
	path, err := resolve(mountpoint)
	switch {
	case errors.Is(err, iofs.ErrNotExist) && create: // it is some directory above
		return nil, noDirectory{filepath.Dir(path)}
	case errors.Is(err, iofs.ErrNotExist):
		return nil, noDirectory{path}
	case err != nil:
		return nil, mountpointError(path, err)
	}
	if why := needed(path); why != "" {
		return nil, refusedPlace(path, why)
	}
	p, err := openPoint(path)
	if err != nil {
		return nil, mountpointError(path, err)
	}
	p.Cleaned = cleaned
	if err := p.check(mountpoint, create, hide); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// check checks the mount point that a path names. It does not touch a tensorfs that is
// mounted there, which may hang.
func (p *Point) check(mountpoint string, create, hide bool) error {
	m, err := Top(p.Path)
	if err != nil {
		return err
	}
	if m != nil && m.Ours() {
		return fmt.Errorf("%s: %w", tensorfs.Printable(p.Path), mountedThere{m.Source})
	}
	st, err := os.Stat(p.Path)
	switch {
	case errors.Is(err, iofs.ErrNotExist) && create && !isLink(mountpoint):
		return p.make()
	case errors.Is(err, iofs.ErrNotExist):
		return noDirectory{p.Path}
	case err != nil:
		return mountpointError(p.Path, err)
	case !st.IsDir():
		return fmt.Errorf("%s: not a directory; a mount point must be one", tensorfs.Printable(p.Path))
	}
	if err := unix.Access(p.Path, unix.W_OK); err != nil && os.Geteuid() != 0 {
		return Advised{tensorfs.Printable(p.Path) + ": only root can mount on a directory that you cannot write; choose a directory of your own", err}
	}
	if !hide {
		if err := p.isEmpty(m != nil && m.Type == autofs); err != nil {
			return fmt.Errorf("%s: %w; a mount hides what is in it: choose an empty directory, or give -o nonempty", tensorfs.Printable(p.Path), err)
		}
	}
	if m == nil {
		p.Made = p.marked() // left by a server that was killed
	}
	return nil
}

// isLink reports whether a path is a link. A dangling link is not followed to make a
// directory: its target may belong to another user.
func isLink(path string) bool {
	st, err := os.Lstat(path)
	return err == nil && st.Mode()&iofs.ModeSymlink != 0
}

// make makes the directory and marks it.
func (p *Point) make() error {
	err := unix.Mkdirat(p.dir, p.name, 0o755)
	switch {
	case errors.Is(err, unix.EEXIST): // another process was faster
		return nil
	case errors.Is(err, iofs.ErrPermission):
		return Advised{fmt.Sprintf("%s cannot be made: you may not write in %s; choose a directory of your own, such as ~/m",
			tensorfs.Printable(p.Path), tensorfs.Printable(filepath.Dir(p.Path))), err}
	case err != nil:
		return fmt.Errorf("%s cannot be made: %w; choose another directory", tensorfs.Printable(p.Path), err)
	}
	if p.Made, err = dirID(p.dir, p.name); err != nil {
		return fmt.Errorf("%s: %w", tensorfs.Printable(p.Path), err)
	}
	// Without the mark, as on NFS, the directory is left only by a server that is killed.
	_ = p.withDirectory(func(fd int) error { return unix.Fsetxattr(fd, madeAttr, []byte(p.Made), 0) })
	return nil
}

// marked returns the identity of a directory that Mount once made, "" for any other.
func (p *Point) marked() string {
	var value [128]byte
	n := 0
	err := p.withDirectory(func(fd int) (err error) {
		n, err = unix.Fgetxattr(fd, madeAttr, value[:])
		return err
	})
	if err != nil {
		return ""
	}
	if id, err := dirID(p.dir, p.name); err == nil && id == string(value[:n]) {
		return id
	}
	return ""
}

// withDirectory opens the directory, on which nothing must be mounted.
func (p *Point) withDirectory(do func(fd int) error) error {
	fd, err := unix.Openat(p.dir, p.name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return do(fd)
}

// Remove removes the directory if Take made it, if it is still the same, and if
// nothing is in it or mounted on it.
func (p *Point) Remove() {
	if m, err := Top(p.Path); p.Made == "" || err != nil || m != nil {
		return
	}
	if id, err := dirID(p.dir, p.name); err == nil && id == p.Made {
		_ = unix.Unlinkat(p.dir, p.name, unix.AT_REMOVEDIR) // it may be in use by now
	}
}

// Leave removes the directory of a mount that is gone, if Take made it. made
// is its identity as the server knows it; "" goes by the mark.
func Leave(path, made string) {
	p, err := openPoint(path)
	if err != nil {
		return
	}
	defer p.Close()
	if m, err := Top(path); err != nil || m != nil {
		return
	}
	if p.Made = made; made == "" {
		p.Made = p.marked()
	}
	p.Remove()
}
