package source

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/tensorfs/tensorfs"
	"golang.org/x/sys/unix"
)

// walker opens the parts of paths, each in the directory before it. So what a path leads to
// is known by a handle, and whose links it goes through. It owns what it opens.
type walker struct{ opened []int }

func (w *walker) close() {
	for _, fd := range w.opened {
		unix.Close(fd)
	}
	w.opened = nil
}

// spot is what a path leads to, below the directories that lead there. None is a link.
type spot struct {
	parts []part // from / on
	by    strangers
}

// part is a directory, or the file at the end.
type part struct {
	name  string
	fd    int
	st    unix.Stat_t
	magic bool // it was opened through a link of the kernel
}

func (s *spot) last() *part { return &s.parts[len(s.parts)-1] }

func (s *spot) isDir() bool { return s.last().st.Mode&unix.S_IFMT == unix.S_IFDIR }

// special returns what s is if it is neither a directory nor a regular file.
func (s *spot) special() fs.FileMode {
	switch s.last().st.Mode & unix.S_IFMT {
	case unix.S_IFREG, unix.S_IFDIR:
		return 0
	case unix.S_IFIFO:
		return fs.ModeNamedPipe
	case unix.S_IFSOCK:
		return fs.ModeSocket
	case unix.S_IFCHR:
		return fs.ModeDevice | fs.ModeCharDevice
	case unix.S_IFBLK:
		return fs.ModeDevice
	}
	return fs.ModeIrregular
}

// above is the directory of s.
func (s *spot) above() spot {
	return spot{s.parts[: len(s.parts)-1 : len(s.parts)-1], s.by}
}

// path is a label: what is there may be something else by now.
func (s *spot) path() string {
	p := "/"
	for _, x := range s.parts[1:] {
		p = filepath.Join(p, x.name)
	}
	return p
}

// isPublic reports whether all users may search the first n directories.
func (s *spot) isPublic(n int) bool {
	return !slices.ContainsFunc(s.parts[:n], func(p part) bool { return p.st.Mode&unix.S_IXOTH == 0 })
}

// resolve returns what an absolute path leads to.
func (w *walker) resolve(path string) (spot, error) {
	fd, err := openat(unix.AT_FDCWD, "/", handleOnly|unix.O_DIRECTORY)
	if err != nil {
		return spot{}, err
	}
	w.opened = append(w.opened, fd)
	top := part{name: "/", fd: fd}
	if err := unix.Fstat(fd, &top.st); err != nil {
		return spot{}, err
	}
	return w.follow(spot{parts: []part{top}}, path)
}

// maxLinks is how many links the kernel follows, and maxParts what they may add up to.
const (
	maxLinks = 40
	maxParts = 10_000
)

// follow returns what a path leads to from a directory on.
func (w *walker) follow(from spot, path string) (spot, error) {
	s := spot{slices.Clip(from.parts), slices.Clip(from.by)}
	todo := strings.Split(path, "/")
	for links := 0; len(todo) > 0; {
		name := todo[0]
		todo = todo[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			if len(s.parts) > 1 {
				s = s.above()
			}
			continue
		}
		p := part{name: name}
		var target string
		var err error
		if p.fd, p.st, target, err = openPart(s.last().fd, name); err != nil {
			return spot{}, err
		}
		if p.fd >= 0 {
			w.opened = append(w.opened, p.fd)
		}
		if p.st.Mode&unix.S_IFMT != unix.S_IFLNK {
			s.parts = append(s.parts, p)
			continue
		}
		if links++; links > maxLinks {
			return spot{}, unix.ELOOP
		}
		if int(p.st.Uid) != os.Geteuid() && p.st.Uid != 0 {
			s.by = append(s.by, stranger{filepath.Join(s.path(), name), p.st.Uid})
		}
		if isMagic(p.fd) {
			if p.fd, err = openat(s.last().fd, name, handleOnly); err != nil {
				return spot{}, err
			}
			w.opened = append(w.opened, p.fd)
			if err := unix.Fstat(p.fd, &p.st); err != nil {
				return spot{}, err
			}
			p.magic = true
			s.parts = append(s.parts, p)
			continue
		}
		if strings.HasPrefix(target, "/") {
			s.parts = s.parts[:1:1]
		}
		if todo = append(strings.Split(target, "/"), todo...); target == "" || len(todo) > maxParts {
			return spot{}, unix.ENOENT
		}
	}
	return s, nil
}

// strangers are the links of a path that belong neither to root nor to the user of the
// process. Their owners can make them lead anywhere, so only what an owner could read without
// this process is opened through them.
type strangers []stranger

type stranger struct {
	link string
	uid  uint32
}

// check returns an error unless the owners of all links may read a file, which is reached by
// directories that are searched by all users if public is set.
func (s strangers) check(path string, st *unix.Stat_t, public bool) error {
	for _, x := range s {
		if st.Uid != x.uid && (!public || st.Mode&unix.S_IROTH == 0) {
			return &tensorfs.FormatError{File: path, Offset: -1, Kind: ErrLink,
				Problem: fmt.Sprintf("%s is a symbolic link of another user (uid %d), and leads to what belongs to uid %d and is not for all users to read", tensorfs.Printable(x.link), x.uid, st.Uid),
				Advice:  "name what it leads to, or allow such links with --follow-links"}
		}
	}
	return nil
}

// checkFile is check for an open file, which it closes on error.
func (s strangers) checkFile(f *os.File, path string, public func() bool) (*os.File, error) {
	if len(s) == 0 {
		return f, nil
	}
	var st unix.Stat_t
	err := unix.Fstat(int(f.Fd()), &st)
	if err == nil {
		err = s.check(path, &st, public())
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func openat(dir int, name string, flags int) (fd int, err error) {
	for {
		if fd, err = unix.Openat(dir, name, flags|unix.O_CLOEXEC, 0); err != unix.EINTR {
			return fd, err
		}
	}
}

// readLink returns the text of a link.
func readLink(dir int, name string) (string, error) {
	for size := 256; ; size *= 2 {
		b := make([]byte, size)
		n, err := unix.Readlinkat(dir, name, b)
		if err != nil {
			return "", err
		}
		if n < size {
			return string(b[:n]), nil
		}
	}
}

// openRoot opens a directory that was found as a root, which has no other way than its path.
func (s *spot) openRoot() (*os.Root, error) {
	root, err := os.OpenRoot(s.path())
	if err != nil {
		return nil, err
	}
	st, err := root.Stat(".")
	if err != nil {
		root.Close()
		return nil, err
	}
	want := &s.last().st
	if is, ok := st.Sys().(*syscall.Stat_t); !ok || is.Ino != want.Ino || uint64(is.Dev) != uint64(want.Dev) {
		root.Close()
		return nil, &tensorfs.FormatError{File: s.path(), Offset: -1, Problem: "it was replaced while it was opened", Advice: "try again", Kind: unix.ESTALE}
	}
	return root, nil
}

// target is a file by its directory's handle and its name there.
type target struct {
	dir    *os.File
	name   string
	path   string
	magic  bool
	public bool // all users may search the directories above
	by     strangers
}

// hold returns the file that a path leads to, which lasts longer than the walker.
func (w *walker) hold(s *spot) (*target, error) {
	above := s.above()
	fd, err := unix.FcntlInt(uintptr(above.last().fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return &target{dir: os.NewFile(uintptr(fd), above.path()), name: s.last().name, path: s.path(), magic: s.last().magic,
		public: s.isPublic(len(s.parts) - 1), by: s.by}, nil
}

func (t *target) close() error {
	if t == nil {
		return nil
	}
	return t.dir.Close()
}

// open opens the file for reading.
func (t *target) open(flags int) (*os.File, error) {
	if !t.magic {
		flags |= unix.O_NOFOLLOW
	}
	fd, err := openat(int(t.dir.Fd()), t.name, flags)
	if err != nil {
		return nil, err
	}
	return t.by.checkFile(os.NewFile(uintptr(fd), t.path), t.path, func() bool { return t.public })
}
