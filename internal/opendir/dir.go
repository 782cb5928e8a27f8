package opendir

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tensorfs/tensorfs"
	"golang.org/x/sys/unix"
)

// Dir is an open directory. Names of its methods are names of entries, without slashes.
type Dir struct {
	path string // as it was reached, for messages
	root *os.Root
	f    *os.File
	made []entry // directories that were made on the way
}

// Open opens a directory. Links in the path are followed, except that a link that another
// user than root may have made leads only to a directory of that user.
func Open(path string) (*Dir, error) { return open(path, 0, false) }

// Make is [Open] for a directory that is made if it is missing, with those above. give gives
// what root makes to the owner of the directory above.
func Make(path string, perm fs.FileMode, give bool) (*Dir, error) { return open(path, perm, give) }

func open(path string, perm fs.FileMode, give bool) (*Dir, error) {
	for range 10 {
		fd, made, err := reach(path, perm, give)
		if err != nil {
			return nil, err
		}
		d, err := rooted(path, fd, func() (*os.Root, error) { return os.OpenRoot(path) })
		unix.Close(fd)
		if d != nil {
			d.made = made
			return d, nil
		}
		undo(made)
		if err != nil {
			return nil, err
		}
	}
	return nil, changing(path)
}

// rooted opens a directory again, for all that is done in it; nil if it is another one now.
func rooted(path string, fd int, open func() (*os.Root, error)) (*Dir, error) {
	root, err := open()
	if err != nil {
		return nil, err
	}
	f, err := root.Open(".")
	if err != nil {
		root.Close()
		return nil, err
	}
	d := &Dir{path: path, root: root, f: f}
	var want, have unix.Stat_t
	err = errors.Join(unix.Fstat(fd, &want), unix.Fstat(int(f.Fd()), &have))
	if err != nil || want.Dev != have.Dev || want.Ino != have.Ino {
		d.Close()
		return nil, err
	}
	return d, nil
}

// Close closes the directory.
func (d *Dir) Close() error {
	for _, e := range d.made {
		unix.Close(e.dir)
	}
	d.made = nil
	return errors.Join(d.root.Close(), d.f.Close())
}

// Undo closes the directory, and removes it and those above it that were made to open it, as
// far as they are empty.
func (d *Dir) Undo() {
	made := d.made
	d.made = nil
	d.Close()
	undo(made)
}

// Path is the path by which the directory was reached, for messages.
func (d *Dir) Path() string { return d.path }

// File is the open directory, to be locked or asked about.
func (d *Dir) File() *os.File { return d.f }

// Join is the path of an entry, for messages.
func (d *Dir) Join(name string) string { return filepath.Join(d.path, name) }

// failed adds the path of an entry to an error.
func (d *Dir) failed(op, name string, err error) error {
	if err == nil {
		return nil
	}
	if inner, ok := errors.AsType[*fs.PathError](err); ok {
		err = inner.Err
	}
	if inner, ok := errors.AsType[*os.LinkError](err); ok {
		err = inner.Err
	}
	return &fs.PathError{Op: op, Path: d.Join(name), Err: err}
}

// check holds that a name is one of an entry.
func check(names ...string) error {
	for _, name := range names {
		if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
			return unix.EINVAL
		}
	}
	return nil
}

// Sub opens a directory that is not a link.
func (d *Dir) Sub(name string) (*Dir, error) {
	if err := check(name); err != nil {
		return nil, d.failed("open", name, err)
	}
	for range 10 {
		fd, err := unix.Openat(int(d.f.Fd()), name, searchFlags|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, d.failed("open", name, err)
		}
		sub, err := rooted(d.Join(name), fd, func() (*os.Root, error) { return d.root.OpenRoot(name) })
		unix.Close(fd)
		if sub != nil || err != nil {
			return sub, d.failed("open", name, err)
		}
	}
	return nil, changing(d.Join(name))
}

// MakeSub is [Dir.Sub] for a directory that is made if it is missing. It belongs to this user.
func (d *Dir) MakeSub(name string, perm fs.FileMode) (*Dir, error) {
	if err := check(name); err != nil {
		return nil, d.failed("mkdir", name, err)
	}
	const tries = 10_000 // others may remove the directory as often as it is made; a busy machine has seen 100 in a row
	for i := 1; ; i++ {
		made := unix.Mkdirat(int(d.f.Fd()), name, uint32(perm))
		if made != nil && !errors.Is(made, fs.ErrExist) {
			return nil, d.failed("mkdir", name, made)
		}
		sub, err := d.Sub(name)
		if i == tries || !errors.Is(err, fs.ErrNotExist) {
			return sub, err
		}
	}
}

// Follow opens a directory below this one, by a path with slashes. Links in it are followed
// as by [Open]. If perm is not 0, missing directories are made as [Make] does, with give.
func (d *Dir) Follow(path string, perm fs.FileMode) (*Dir, error) {
	at := d
	for name := range strings.SplitSeq(path, "/") {
		next, err := at.follow(name, perm)
		if at != d {
			if err == nil {
				next.made, at.made = append(at.made, next.made...), nil
				at.Close()
			} else {
				at.Undo()
			}
		}
		if err != nil {
			return nil, err
		}
		at = next
	}
	return at, nil
}

func (d *Dir) follow(name string, perm fs.FileMode) (*Dir, error) {
	if err := check(name); err != nil {
		return nil, d.failed("open", name, err)
	}
	var made []entry
	if perm != 0 {
		switch err := makeDir(int(d.f.Fd()), name, perm, true); {
		case err == nil:
			fd, err := unix.FcntlInt(d.f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
			if err != nil {
				return nil, err
			}
			made = []entry{{fd, name}}
		case !errors.Is(err, fs.ErrExist):
			return nil, d.failed("mkdir", name, err)
		}
	}
	st, err := d.Lstat(name)
	if err != nil {
		undo(made)
		return nil, err
	}
	if st.Mode()&fs.ModeSymlink == 0 {
		sub, err := d.Sub(name)
		if err == nil && perm != 0 {
			if err = heal(int(d.f.Fd()), int(sub.f.Fd()), name, perm); err != nil {
				sub.Close()
				err = d.failed("mkdir", name, err)
			}
		}
		if err != nil {
			undo(made)
			return nil, err
		}
		sub.made = made
		return sub, nil
	}
	return d.linked(name)
}

// target returns where a link leads, and who must own that.
func (d *Dir) target(name string) (to string, l *limit, err error) {
	if to, err = d.root.Readlink(name); err == nil {
		l, err = limitOf(int(d.f.Fd()), name)
	}
	if err != nil {
		return "", nil, d.failed("open", name, err)
	}
	if l != nil {
		l.path = d.Join(name)
	}
	if !strings.HasPrefix(to, "/") {
		to = d.path + "/" + to // not cleaned: .. is above where links lead
	}
	return to, l, nil
}

// linked opens the directory to which a link leads.
func (d *Dir) linked(name string) (*Dir, error) {
	to, l, err := d.target(name)
	if err != nil {
		return nil, err
	}
	sub, err := Open(to)
	if err != nil {
		return nil, err
	}
	if err := l.holds(sub.f); err != nil {
		sub.Close()
		return nil, err
	}
	sub.path = d.Join(name)
	return sub, nil
}

// Private opens a directory that only this user and root can change, and makes it if it is
// missing.
func (d *Dir) Private(name string) (*Dir, error) {
	sub, err := d.MakeSub(name, 0o700)
	if err != nil {
		return nil, err
	}
	if err := sub.private(); err != nil {
		sub.Close()
		return nil, err
	}
	return sub, nil
}

const foreign = 0o022 // the permissions of others to change a directory

func (d *Dir) private() error {
	var st unix.Stat_t
	if err := unix.Fstat(int(d.f.Fd()), &st); err != nil {
		return err
	}
	mine := int(st.Uid) == os.Geteuid()
	if mine && st.Mode&foreign != 0 && d.f.Chmod(0o700) == nil {
		if err := unix.Fstat(int(d.f.Fd()), &st); err != nil {
			return err
		}
	}
	if mine && st.Mode&foreign == 0 {
		return nil
	}
	// Some file systems give all files one owner, or one mode: a file that this user makes
	// looks the same there as another user's.
	name := fmt.Sprintf(".probe-%016x", rand.Uint64())
	f, err := d.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer d.Remove(name)
	defer f.Close()
	var probe unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &probe); err != nil {
		return err
	}
	if probe.Uid != st.Uid || st.Mode&foreign&^probe.Mode != 0 {
		return &tensorfs.FormatError{File: d.path, Offset: -1, Problem: "other users could change what is in it", Advice: "remove it, or run the command as its owner"}
	}
	return nil
}

// OpenFile opens an entry that is not a link. It never blocks on a FIFO or a device.
func (d *Dir) OpenFile(name string, flags int, perm fs.FileMode) (*os.File, error) {
	err := check(name)
	fd := -1
	for err == nil {
		fd, err = unix.Openat(int(d.f.Fd()), name, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, uint32(perm))
		if err == nil {
			return os.NewFile(uintptr(fd), d.Join(name)), nil
		}
		if errors.Is(err, unix.EINTR) {
			err = nil
		}
	}
	return nil, d.failed("open", name, err)
}

// OpenRegular opens a regular file to read it. A link is followed as by [Open].
func (d *Dir) OpenRegular(name string) (*os.File, fs.FileInfo, error) {
	return d.openRegular(name, maxLinks)
}

func (d *Dir) openRegular(name string, links int) (*os.File, fs.FileInfo, error) {
	// To open a device may do something, so that it is asked what it is first, and again.
	st, err := d.Lstat(name)
	switch {
	case err != nil:
		return nil, nil, err
	case st.Mode()&fs.ModeSymlink != 0:
		return d.linkedFile(name, links-1)
	case !st.Mode().IsRegular():
		return nil, nil, d.failed("open", name, errNotRegular)
	}
	f, err := d.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, nil, err
	}
	if st, err = f.Stat(); err == nil && !st.Mode().IsRegular() {
		err = d.failed("open", name, errNotRegular)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, st, nil
}

// linkedFile opens the file to which a link leads.
func (d *Dir) linkedFile(name string, links int) (*os.File, fs.FileInfo, error) {
	to, l, err := d.target(name)
	if err == nil && links == 0 {
		err = d.failed("open", name, unix.ELOOP)
	}
	if err != nil {
		return nil, nil, err
	}
	at, base := to[:strings.LastIndexByte(to, '/')+1], to[strings.LastIndexByte(to, '/')+1:]
	sub, err := Open(at)
	if err != nil {
		return nil, nil, err
	}
	defer sub.Close()
	f, st, err := sub.openRegular(base, links)
	if err != nil {
		return nil, nil, err
	}
	if err := l.holds(f); err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, st, nil
}

var errNotRegular = errors.New("it is not a regular file")

// Lstat describes an entry.
func (d *Dir) Lstat(name string) (fs.FileInfo, error) {
	if err := check(name); err != nil {
		return nil, d.failed("stat", name, err)
	}
	st, err := d.root.Lstat(name)
	return st, d.failed("stat", name, err)
}

// Names lists the entries.
func (d *Dir) Names() ([]string, error) {
	f, err := d.root.Open(".")
	if err != nil {
		return nil, d.failed("open", "", err)
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	return names, d.failed("read", "", err)
}

// Link gives a file another name, here or in another directory. The new name must be free.
func (d *Dir) Link(name string, to *Dir, as string) error {
	err := check(name, as)
	if err == nil {
		err = unix.Linkat(int(d.f.Fd()), name, int(to.f.Fd()), as, 0)
	}
	return to.failed("link", as, err)
}

// LinkOpen gives an open file another name. Some systems need path, its present place: by
// then it may be the name of another file, so the caller compares.
func (d *Dir) LinkOpen(fd int, path, name string) error {
	err := check(name)
	if err == nil {
		err = linkOpen(fd, int(d.f.Fd()), name)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			err = unix.Linkat(unix.AT_FDCWD, path, int(d.f.Fd()), name, unix.AT_SYMLINK_FOLLOW)
		}
	}
	return d.failed("link", name, err)
}

// Symlink makes a link.
func (d *Dir) Symlink(target, name string) error {
	err := check(name)
	if err == nil {
		err = unix.Symlinkat(target, int(d.f.Fd()), name)
	}
	return d.failed("symlink", name, err)
}

// Readlink returns where a link leads.
func (d *Dir) Readlink(name string) (string, error) {
	if err := check(name); err != nil {
		return "", d.failed("readlink", name, err)
	}
	to, err := d.root.Readlink(name)
	return to, d.failed("readlink", name, err)
}

// Rename renames an entry, and replaces a file that has the new name.
func (d *Dir) Rename(name string, to *Dir, as string) error {
	err := check(name, as)
	if err == nil {
		err = unix.Renameat(int(d.f.Fd()), name, int(to.f.Fd()), as)
	}
	return to.failed("rename", as, err)
}

// RenameNew is [Dir.Rename] if the new name is free.
func (d *Dir) RenameNew(name string, to *Dir, as string) error {
	err := check(name, as)
	if err == nil {
		err = renameNew(int(d.f.Fd()), name, int(to.f.Fd()), as)
	}
	if errors.Is(err, unix.ENOSYS) {
		if _, err = to.Lstat(as); err == nil {
			err = fs.ErrExist
		} else if errors.Is(err, fs.ErrNotExist) {
			return d.Rename(name, to, as)
		}
	}
	return to.failed("rename", as, err)
}

// Remove removes an entry that is not a directory.
func (d *Dir) Remove(name string) error {
	err := check(name)
	if err == nil {
		err = unix.Unlinkat(int(d.f.Fd()), name, 0)
	}
	return d.failed("remove", name, err)
}

// RemoveDir removes an empty directory.
func (d *Dir) RemoveDir(name string) error {
	err := check(name)
	if err == nil {
		err = unix.Unlinkat(int(d.f.Fd()), name, unix.AT_REMOVEDIR)
	}
	return d.failed("remove", name, err)
}

// Clear removes all that is in a directory of [Dir.Private].
func (d *Dir) Clear() error {
	names, err := d.Names()
	for _, name := range names {
		err = errors.Join(err, d.failed("remove", name, d.root.RemoveAll(name)))
	}
	return err
}

// Chtimes sets the times of a file of a directory of [Dir.Private].
func (d *Dir) Chtimes(name string, t time.Time) error {
	return d.failed("chtimes", name, d.root.Chtimes(name, t, t))
}

// Give gives a file that root wrote to the owner of the directory. The file is in a directory
// of [Dir.Private] and has no other name.
func (d *Dir) Give(f *os.File) error {
	var to, st unix.Stat_t
	if err := errors.Join(unix.Fstat(int(d.f.Fd()), &to), unix.Fstat(int(f.Fd()), &st)); err != nil {
		return err
	}
	if os.Geteuid() != 0 || to.Uid == 0 || st.Uid == to.Uid {
		return nil
	}
	if st.Uid != 0 || st.Nlink > 1 || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return fmt.Errorf("%s: it is not the file that was written", tensorfs.Printable(f.Name()))
	}
	return f.Chown(int(to.Uid), int(to.Gid))
}

// SameDisk reports whether two directories are on one file system.
func SameDisk(a, b *Dir) bool {
	var x, y unix.Stat_t
	return unix.Fstat(int(a.f.Fd()), &x) == nil && unix.Fstat(int(b.f.Fd()), &y) == nil && x.Dev == y.Dev
}

// Chmod sets the mode of a file of a directory of [Dir.Private].
func (d *Dir) Chmod(name string, mode fs.FileMode) error {
	return d.failed("chmod", name, d.root.Chmod(name, mode))
}

// Sync makes names durable, where the file system can.
func (d *Dir) Sync() error {
	if err := d.f.Sync(); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOTSUP) {
		return d.failed("sync", "", err)
	}
	return nil
}

// ReadDir lists the entries with their kinds.
func (d *Dir) ReadDir() ([]fs.DirEntry, error) {
	f, err := d.root.Open(".")
	if err != nil {
		return nil, d.failed("open", "", err)
	}
	defer f.Close()
	entries, err := f.ReadDir(-1)
	return entries, d.failed("read", "", err)
}

// Mine reports whether the directory belongs to this user.
func (d *Dir) Mine() bool {
	var st unix.Stat_t
	return unix.Fstat(int(d.f.Fd()), &st) == nil && int(st.Uid) == os.Geteuid()
}
