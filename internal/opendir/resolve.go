package opendir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"golang.org/x/sys/unix"
)

// pathMax is above the longest path of a link.
const pathMax = 4096

// maxLinks bounds the links of a path, as the kernel does.
const maxLinks = 40

// foreignLink is the error about a link that is not followed.
func foreignLink(path string) error {
	return &tensorfs.FormatError{File: path, Offset: -1, Problem: "a link in a directory of another user leads to what does not belong to that user",
		Advice: "name the place itself"}
}

// limit restricts the owner of the directory that a link leads to.
type limit struct {
	rest int    // how many names of the path come after the link
	uid  uint32 // the owner
	path string
}

// walk is the way to a directory, from one open directory to the next.
type walk struct {
	at    int // the directory that was reached
	made  []entry
	perm  fs.FileMode // of missing directories, which are made if it is not 0
	give  bool        // to the owner of the directory above
	links int
}

// entry is a name in an open directory.
type entry struct {
	dir  int
	name string
}

// to goes to the directory of an absolute path.
func (w *walk) to(path string) error {
	if err := w.restart(); err != nil {
		return err
	}
	todo := strings.Split(path, "/")
	var limits []limit
	for {
		for n := len(limits) - 1; n >= 0 && len(todo) <= limits[n].rest; n-- {
			if err := limits[n].holdsFor(w.at); err != nil {
				return err
			}
			limits = limits[:n]
		}
		if len(todo) == 0 {
			return nil
		}
		name := todo[0]
		todo = todo[1:]
		if name == "" || name == "." {
			continue
		}
		link, l, err := w.enter(name)
		if err != nil {
			return &fs.PathError{Op: "open", Path: path, Err: err}
		}
		if link == "" {
			continue
		}
		if l != nil {
			l.rest, l.path = len(todo), path
			limits = append(limits, *l)
		}
		if w.links++; w.links > maxLinks {
			return &fs.PathError{Op: "open", Path: path, Err: unix.ELOOP}
		}
		if link[0] == '/' {
			if err := w.restart(); err != nil {
				return err
			}
		}
		todo = slices.Concat(strings.Split(link, "/"), todo)
	}
}

func (w *walk) restart() error {
	fd, err := unix.Open("/", searchFlags|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		w.move(fd)
	}
	return err
}

func (w *walk) move(fd int) {
	if w.at >= 0 {
		unix.Close(w.at)
	}
	w.at = fd
}

// enter goes into a directory. If the name is a link it stays, and returns the link's
// target and the owners allowed for that; nil allows all.
func (w *walk) enter(name string) (link string, l *limit, err error) {
	const flags = searchFlags | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(w.at, name, flags, 0)
	if errors.Is(err, fs.ErrNotExist) && w.perm != 0 {
		if err := w.make(name); err != nil {
			return "", nil, err
		}
		fd, err = unix.Openat(w.at, name, flags, 0)
	}
	if err == nil {
		err = w.heal(fd, name)
		w.move(fd)
		return "", nil, err
	}
	if !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, unix.ELOOP) {
		return "", nil, err
	}
	b := make([]byte, pathMax)
	n, lerr := unix.Readlinkat(w.at, name, b)
	if lerr != nil || n == 0 {
		return "", nil, err // another kind of file
	}
	l, err = limitOf(w.at, name)
	return string(b[:n]), l, err
}

// heal ends what a command that was killed began: see makeDir.
func (w *walk) heal(fd int, name string) error {
	if w.perm == 0 || !w.give {
		return nil
	}
	return heal(w.at, fd, name, w.perm)
}

func heal(dir, fd int, name string, perm fs.FileMode) error {
	var above, st unix.Stat_t
	if err := errors.Join(unix.Fstat(dir, &above), unix.Fstat(fd, &st)); err != nil {
		return err
	}
	if os.Geteuid() != 0 || st.Uid != 0 || st.Mode&0o777 != 0 || above.Uid == 0 {
		return nil
	}
	return handOver(dir, name, perm, &above)
}

// limitOf returns who may own a directory that a link leads to: the users who may have made
// the link. It is nil if only this user and root can make links there.
func limitOf(dir int, name string) (*limit, error) {
	var above, st unix.Stat_t
	if err := errors.Join(unix.Fstat(dir, &above), unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)); err != nil {
		return nil, err
	}
	uid := above.Uid
	if trusted(uid) && above.Mode&0o022 != 0 { // such as /tmp
		uid = st.Uid
	}
	if trusted(uid) {
		return nil, nil
	}
	return &limit{uid: uid}, nil
}

// holdsFor compares the owner of what a link leads to.
func (l *limit) holdsFor(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Uid != l.uid {
		return foreignLink(l.path)
	}
	return nil
}

// holds is holdsFor if there is a limit.
func (l *limit) holds(f *os.File) error {
	if l == nil {
		return nil
	}
	return l.holdsFor(int(f.Fd()))
}

func trusted(uid uint32) bool { return uid == 0 || int(uid) == os.Geteuid() }

// make makes a directory.
func (w *walk) make(name string) error {
	err := makeDir(w.at, name, w.perm, w.give)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	fd, err := unix.FcntlInt(uintptr(w.at), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		w.made = append(w.made, entry{fd, name})
	}
	return err
}

// makeDir makes a directory for the owner of the one above, if this is asked for and may be.
func makeDir(dir int, name string, perm fs.FileMode, give bool) error {
	var above unix.Stat_t
	if err := unix.Fstat(dir, &above); err != nil {
		return err
	}
	if !give || os.Geteuid() != 0 || above.Uid == 0 {
		return unix.Mkdirat(dir, name, uint32(perm))
	}
	// Others may exchange the directory before it is open. So the directory is made without
	// any permission: one without permissions that is empty may be given away, whichever it is.
	if err := unix.Mkdirat(dir, name, 0); err != nil {
		return err
	}
	return handOver(dir, name, perm, &above)
}

// handOver gives a directory that root made without permissions to the owner of the one above.
func handOver(dir int, name string, perm fs.FileMode, above *unix.Stat_t) error {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Uid != 0 || st.Mode&0o777 != 0 {
		return nil
	}
	if names, err := f.Readdirnames(1); len(names) > 0 {
		return err
	}
	if st.Mode&unix.S_ISGID != 0 {
		perm |= fs.ModeSetgid
	}
	return errors.Join(f.Chown(int(above.Uid), int(above.Gid)), f.Chmod(perm&^foreign))
}

// reach returns the open directory at a path, and the directories that were made.
func reach(path string, perm fs.FileMode, give bool) (fd int, made []entry, err error) {
	if !filepath.IsAbs(path) {
		wd, err := os.Getwd()
		if err != nil {
			return -1, nil, err
		}
		path = wd + "/" + path // not cleaned: .. is above where links lead
	}
	w := walk{at: -1, perm: perm, give: give}
	if err := w.to(path); err != nil {
		w.move(-1)
		undo(w.made)
		return -1, nil, err
	}
	return w.at, w.made, nil
}

// undo removes directories that were made, as far as they are empty.
func undo(made []entry) {
	for _, e := range slices.Backward(made) {
		_ = unix.Unlinkat(e.dir, e.name, unix.AT_REMOVEDIR)
		unix.Close(e.dir)
	}
}

// changing is the error about a path that leads elsewhere each time.
func changing(path string) error {
	return fmt.Errorf("%s: it was exchanged while it was opened; run the command again", tensorfs.Printable(path))
}
