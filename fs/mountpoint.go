package fs

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

// ErrNoMountpoint says that there is no directory at the place.
var ErrNoMountpoint = errors.New("the mount point does not exist")

// ErrMounted says that a tensorfs is mounted at the place already.
var ErrMounted = errors.New("a tensorfs is mounted there already")

// noDirectory is the error for a directory that is not there.
type noDirectory struct{ path string }

func (e noDirectory) Error() string {
	p := tensorfs.Printable(e.path)
	return fmt.Sprintf("%s does not exist; mkdir -p %s makes it", p, p)
}

// Is makes it ErrNoMountpoint, and the system's error too.
func (e noDirectory) Is(target error) bool {
	return target == ErrNoMountpoint || target == iofs.ErrNotExist
}

// mountedThere is the error for a mount point that is in use.
type mountedThere struct{ source string }

func (e mountedThere) Error() string {
	return tensorfs.Printable(e.source) + " is mounted there already"
}

// Is makes it ErrMounted.
func (e mountedThere) Is(target error) bool { return target == ErrMounted }

// mountpointError says what is wrong with a path, for which the system gave err.
func mountpointError(path string, err error) error {
	p := tensorfs.Printable(path)
	var at *iofs.PathError
	if errors.As(err, &at) {
		err = at.Err
	}
	switch {
	case errors.Is(err, iofs.ErrPermission):
		closed := filepath.Dir(path)
		if at != nil {
			closed = filepath.Dir(at.Path)
		}
		return advised{fmt.Sprintf("%s: cannot enter %s; choose another directory, or let yourself in with chmod", p, tensorfs.Printable(closed)), iofs.ErrPermission}
	case errors.Is(err, iofs.ErrNotExist):
		return fmt.Errorf("%s %w", p, noSuch{})
	}
	return fmt.Errorf("%s: %w", p, err)
}

// noSuch is the system's error for a name that is not there, in other words.
type noSuch struct{}

func (noSuch) Error() string        { return "does not exist" }
func (noSuch) Is(target error) bool { return target == iofs.ErrNotExist }

// madeAttr is the attribute that a directory has below the mount if Mount made it.
// Its value is the identity of the directory, so that a copy is not taken for it.
// It outlives a server that was killed.
const madeAttr = "user.tensorfs.made"

// place is a mount point while it is taken or left. It holds the directory above
// open and locked, so that of two servers at a place one makes it, and none removes
// what the other is about to use.
type place struct {
	path string // without links
	made string // identity of the directory, if tensorfs made it
	dir  int    // descriptor of the directory above
	name string // there
}

// lockTime is how long a place is waited for. Mounting takes milliseconds; anybody
// who can read a directory can hold its lock.
const lockTime = 2 * time.Second

// openPlace opens the place at a path without links.
func openPlace(path string) (*place, error) {
	dir, err := openParent(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	p := &place{path: path, dir: dir, name: filepath.Base(path)}
	for end := time.Now().Add(lockTime); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		// Where there are no locks it goes without.
		if err := unix.Flock(dir, unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
			break
		}
	}
	return p, nil
}

func (p *place) close() { unix.Close(p.dir) }

// takePlace checks that a path can be a mount point, and with create makes its last
// directory if it is missing. With hide something may be in it. The caller closes the
// place when it is mounted.
func takePlace(mountpoint string, create, hide bool) (*place, error) {
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
	p, err := openPlace(path)
	if err != nil {
		return nil, mountpointError(path, err)
	}
	if err := p.check(mountpoint, create, hide); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// check checks the place that a path names. It does not touch a tensorfs that is
// mounted there, which may hang.
func (p *place) check(mountpoint string, create, hide bool) error {
	m, err := mountedAt(p.path)
	if err != nil {
		return err
	}
	if m != nil && m.ours() {
		return fmt.Errorf("%s: %w", tensorfs.Printable(p.path), mountedThere{m.Source})
	}
	st, err := os.Stat(p.path)
	switch {
	case errors.Is(err, iofs.ErrNotExist) && create && !isLink(mountpoint):
		return p.make()
	case errors.Is(err, iofs.ErrNotExist):
		return noDirectory{p.path}
	case err != nil:
		return mountpointError(p.path, err)
	case !st.IsDir():
		return fmt.Errorf("%s: not a directory; a mount point must be one", tensorfs.Printable(p.path))
	}
	if err := unix.Access(p.path, unix.W_OK); err != nil && os.Geteuid() != 0 {
		return advised{tensorfs.Printable(p.path) + ": only root can mount on a directory that you cannot write; choose a directory of your own", err}
	}
	if !hide {
		if err := p.isEmpty(m != nil && m.Type == autofs); err != nil {
			return fmt.Errorf("%s: %w; a mount hides what is in it: choose an empty directory, or give -o nonempty", tensorfs.Printable(p.path), err)
		}
	}
	if m == nil {
		p.made = p.marked() // left by a server that was killed
	}
	return nil
}

// isLink reports whether a path is a link. One to nowhere is not followed to make a
// directory: it may be somebody else's.
func isLink(path string) bool {
	st, err := os.Lstat(path)
	return err == nil && st.Mode()&iofs.ModeSymlink != 0
}

// make makes the directory and marks it.
func (p *place) make() error {
	err := unix.Mkdirat(p.dir, p.name, 0o755)
	switch {
	case errors.Is(err, unix.EEXIST): // somebody was faster
		return nil
	case errors.Is(err, iofs.ErrPermission):
		return advised{fmt.Sprintf("%s cannot be made: you may not write in %s; choose a directory of your own, such as ~/m",
			tensorfs.Printable(p.path), tensorfs.Printable(filepath.Dir(p.path))), err}
	case err != nil:
		return fmt.Errorf("%s cannot be made: %w; choose another directory", tensorfs.Printable(p.path), err)
	}
	if p.made, err = dirID(p.dir, p.name); err != nil {
		return fmt.Errorf("%s: %w", tensorfs.Printable(p.path), err)
	}
	// Without the mark, as on NFS, the directory is left only by a server that is killed.
	_ = p.withDirectory(func(fd int) error { return unix.Fsetxattr(fd, madeAttr, []byte(p.made), 0) })
	return nil
}

// marked returns the identity of a directory that Mount once made, "" for any other.
func (p *place) marked() string {
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
func (p *place) withDirectory(do func(fd int) error) error {
	fd, err := unix.Openat(p.dir, p.name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return do(fd)
}

// remove removes the directory if Mount made it, if it is still the same, and if
// nothing is in it or mounted on it.
func (p *place) remove() {
	if m, err := mountedAt(p.path); p.made == "" || err != nil || m != nil {
		return
	}
	if id, err := dirID(p.dir, p.name); err == nil && id == p.made {
		_ = unix.Unlinkat(p.dir, p.name, unix.AT_REMOVEDIR) // it may have become somebody's
	}
}

// leavePlace removes the directory of a mount that is gone, if Mount made it. made
// is its identity as the server knows it; "" goes by the mark.
func leavePlace(path, made string) {
	p, err := openPlace(path)
	if err != nil {
		return
	}
	defer p.close()
	if m, err := mountedAt(path); err != nil || m != nil {
		return
	}
	if p.made = made; made == "" {
		p.made = p.marked()
	}
	p.remove()
}
