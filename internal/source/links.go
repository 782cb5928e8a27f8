package source

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/tensorfs/tensorfs"
	"golang.org/x/sys/unix"
)

// Links selects which symbolic links among a model's files are followed.
type Links bool

const (
	// Anywhere follows links to anything that the process may read, and so does what the
	// user names.
	Anywhere Links = false
	// Inside follows links that stay inside the model's directory. For a snapshot in
	// the Hugging Face cache that is the repository's folder models--ORG--NAME,
	// because its files are links into the folder's blobs. Others are refused with
	// ErrLink: through them, anyone who can write to a model's directory could show
	// files that only the user of this process may read.
	//
	// A path that the user names is followed wherever it leads. But a link in it that
	// belongs neither to root nor to this user leads only to files that belong to its
	// owner, or that all users may read: its owner may exchange it at any time.
	Inside Links = true
)

// ErrLink marks a symbolic link that is not followed.
var ErrLink = fmt.Errorf("%w: a symbolic link that leaves the model's directory", tensorfs.ErrUnsupported)

// inner is the area that a directory's links may lead to. Files are opened below the handle
// of root, so that a link that changes in the meantime is not followed out of it either.
type inner struct {
	root   *os.Root
	path   string // of root, without links
	below  string // the directory in root
	public bool   // all users may search it, and what is above it
	by     strangers
	named  *target // the file in it that the user named; nil if it is not known yet
}

func (in *inner) close() error { return errors.Join(in.root.Close(), in.named.close()) }

// openInner finds out how far the links of d may lead.
func openInner(d *Directory) (*inner, error) {
	w := &walker{}
	defer w.close()
	s, err := w.resolve(d.path)
	if err != nil {
		return nil, err
	}
	return d.innerOf(w, s)
}

// innerOf is openInner for a directory that is found already.
func (d *Directory) innerOf(w *walker, s spot) (*inner, error) {
	if !s.isDir() {
		return nil, unix.ENOTDIR
	}
	if d.anyOwner {
		s.by = nil
	}
	if err := s.by.check(d.path, &s.last().st, s.isPublic(len(s.parts))); err != nil {
		return nil, err
	}
	area := s
	if n, ok := repository(s.path()); ok {
		area.parts = s.parts[:n]
	} else if n, ok := repository(d.path); ok {
		// The folder's own name may be a link to a disk with more room.
		folder := strings.Join(strings.Split(d.path, "/")[:n], "/")
		if repo, err := w.resolve(folder); err == nil && repo.isDir() && holds(repo.path(), s.path()) {
			area = repo
		}
	}
	below, err := filepath.Rel(area.path(), s.path())
	if err != nil {
		return nil, err
	}
	root, err := area.openRoot()
	if err != nil {
		return nil, err
	}
	return &inner{root: root, path: area.path(), below: below, public: s.isPublic(len(s.parts)), by: s.by}, nil
}

// repository returns how many parts of a path lead to the folder of the Hugging Face cache
// that a snapshot's directory belongs to. The first part is the top's.
func repository(dir string) (parts int, ok bool) {
	p := strings.Split(dir, "/")
	for n := len(p); n > 2; n-- {
		if p[n-2] == "snapshots" && strings.HasPrefix(p[n-3], "models--") {
			return n - 2, true
		}
	}
	return 0, false
}

// holds reports whether path is dir or below it. Neither has links.
func holds(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// open opens a name of d.
func (in *inner) open(d *Directory, name string, flags int) (*os.File, error) {
	f, err := in.root.OpenFile(filepath.Join(in.below, name), flags, 0)
	if err == nil {
		return in.check(d, name, f)
	}
	if _, ok := errors.AsType[syscall.Errno](err); ok {
		return nil, err
	}
	// os.Root also refuses absolute links that lead inside. The path that they lead
	// to has no links and is opened below the same handle.
	_, rel, err := in.rel(d, name)
	if err == nil {
		if f, err = in.root.OpenFile(rel, flags, 0); err != nil {
			return nil, err
		}
		return in.check(d, name, f)
	}
	if t := in.twin(d, name); t != nil {
		defer t.close()
		return t.open(flags)
	}
	return nil, err
}

// check holds an open file against the links that lead to the directory.
func (in *inner) check(d *Directory, name string, f *os.File) (*os.File, error) {
	return in.by.checkFile(f, d.Location(name), func() bool {
		if !in.public {
			return false
		}
		for at := filepath.Dir(name); at != "."; at = filepath.Dir(at) {
			if st, err := in.root.Stat(filepath.Join(in.below, at)); err != nil || st.Mode()&1 == 0 {
				return false
			}
		}
		return true
	})
}

// rel returns what a name of d leads to, and its name below the root, which has no links. The
// name is what counts, and is opened below the root: something else may be there by then.
func (in *inner) rel(d *Directory, name string) (s spot, rel string, err error) {
	w := &walker{}
	defer w.close()
	if s, err = w.resolve(d.Location(name)); err != nil {
		return s, "", err
	}
	if !holds(in.path, s.path()) {
		path := d.Location(name)
		return s, "", &tensorfs.FormatError{File: path, Offset: -1, Kind: ErrLink,
			Problem: fmt.Sprintf("it is a symbolic link that leaves %s, to %s", tensorfs.Printable(in.path), tensorfs.Printable(s.path())),
			Advice:  "put the file itself there, or allow such links with --follow-links"}
	}
	rel, err = filepath.Rel(in.path, s.path())
	return s, rel, err
}

// hold returns the area of a directory below the root.
func (in *inner) hold(rel string) (*inner, error) {
	path := filepath.Join(in.path, rel)
	held := &inner{path: path, public: in.public, by: in.by}
	if n, ok := repository(path); ok {
		if folder := strings.Join(strings.Split(path, "/")[:n], "/"); holds(in.path, folder) {
			held.path = folder
		}
	}
	var err error
	if held.below, err = filepath.Rel(held.path, path); err != nil {
		return nil, err
	}
	if rel, err = filepath.Rel(in.path, held.path); err != nil {
		return nil, err
	}
	held.root, err = in.root.OpenRoot(rel)
	return held, err
}

// twin returns a link's target if it has the link's own name and is beside the
// target of the file that the user named, which is a link too, as in
//
//	ln -s /models/m-0000?-of-00002.gguf .
func (in *inner) twin(d *Directory, name string) *target {
	if in.named == nil || holds(in.path, in.named.path) {
		return nil
	}
	w := &walker{}
	defer w.close()
	s, err := w.resolve(d.Location(name))
	if err != nil || s.last().name != filepath.Base(name) {
		return nil
	}
	var dir unix.Stat_t
	above := s.above()
	if unix.Fstat(int(in.named.dir.Fd()), &dir) != nil || dir.Ino != above.last().st.Ino || dir.Dev != above.last().st.Dev {
		return nil
	}
	t, err := w.hold(&s)
	if err != nil {
		return nil
	}
	return t
}
