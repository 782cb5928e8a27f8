package stores

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/export"
	"github.com/tensorfs/tensorfs/internal/source"
	"golang.org/x/sys/unix"
)

// Options say how a model is written.
type Options struct {
	Export export.Options // of the files; what is refused there is replaced here, because only this package's own files are
	Force  bool           // replace a model of the name, and files with other bytes
	Copy   bool           // no file of the model gets another name; clones are copies too
	// Confirm is asked before another program may find what was written, with the digests of the
	// files (sha256:HEX); nil for nothing to ask.
	Confirm func(ctx context.Context, digests []string) error
	// Wrong reports whether bytes of the model proved to be wrong, so that none that were
	// written are kept; nil for never.
	Wrong func() bool
	least int64 // how large a file is that may be linked, for tests; minLink where it is zero
	// Hashing is called when it is known how many bytes are to be hashed; nil for nobody who asks.
	Hashing func(total int64) func(n int64)
}

// How a file came to its place.
const (
	Written = "written" // its bytes were
	Cloned  = "cloned"  // it shares blocks with a file of the model until one of both is written to
	Linked  = "linked"  // it is another name of a file of the model
	There   = "there"   // it was there
)

// Placed is a file in a store.
type Placed struct {
	Path   string `json:"path"` // absolute
	Bytes  int64  `json:"bytes"`
	Digest string `json:"digest"` // sha256:HEX
	How    string `json:"how"`

	Origin string `json:"origin,omitempty"` // the file of the model that it is another name of
}

// Report says what was written.
type Report struct {
	Path  string   // of what makes the other program see the model
	Files []Placed // of the model, in the order in which they were given
	Chat  string   // see ollama.Created
}

// ErrExists marks a store that has another model of the name.
var ErrExists = errors.New("exists already")

// stage is a directory of our own where files are until they get their names.
type stage struct {
	Options
	dir        string
	lock       *os.File
	distrusted bool // the bytes are not what they should be
}

// openStage opens the directory of that name and locks it.
func openStage(dir string, o Options) (*stage, error) {
	for {
		if err := makeDirs(dir); err != nil {
			return nil, err
		}
		f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		if err != nil {
			return nil, err
		}
		switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
		case errors.Is(err, unix.EWOULDBLOCK):
			f.Close()
			return nil, fmt.Errorf("%s: %w", tensorfs.Printable(dir), export.ErrBusy)
		case errors.Is(err, unix.EINTR):
			f.Close()
			continue
		} // others: a file system without locks
		mine, err := f.Stat()
		if err != nil {
			f.Close()
			return nil, err
		}
		if st, err := os.Lstat(dir); err == nil && os.SameFile(st, mine) {
			return &stage{Options: o, dir: dir, lock: f}, nil
		}
		f.Close() // who had the lock removed it
	}
}

// close ends the work. What was done is left to the same command, unless that is refused.
func (s *stage) close(err error) {
	if errors.Is(err, ErrExists) || s.distrusted || err != nil && s.Wrong != nil && s.Wrong() {
		os.RemoveAll(s.dir)
	}
	os.Remove(s.dir) // where nothing is in it
	s.lock.Close()
}

// done removes the directory.
func (s *stage) done() error { return os.RemoveAll(s.dir) }

// file is one that is written, or was in its place.
type file struct {
	name   string // as it was given
	path   string // where its bytes are
	size   int64
	sum    string // 64 hexadecimal digits of its SHA-256
	how    string
	origin string
	own    string // the file of the model that has just these bytes, or ""
}

func (f *file) digest() string { return "sha256:" + f.sum }

// write writes files, and hashes them. there returns the path of a file that is in the store
// already, by its size and digest, or ""; it may be asked before a file is written.
func (s *stage) write(ctx context.Context, files []export.File, there func(size int64, sum string) string) ([]file, error) {
	list := make([]file, len(files))
	shared := map[string]bool{}
	o := s.Export
	o.Force = true
	o.Shared = func(path string, linked bool) { shared[path] = linked }
	if !s.Copy {
		o.Link = s.mayLink
	}
	hash := func(int64) {}
	if s.Hashing != nil {
		total := int64(0)
		for _, f := range files {
			total += f.Data.Size()
		}
		hash = s.Hashing(total)
	}
	var missing []export.File
	for i, f := range files {
		list[i] = file{name: f.Path, path: filepath.Join(s.dir, filepath.FromSlash(f.Path)), size: f.Data.Size(), how: Written, own: stored(f.Data)}
		if list[i].own == "" || there(f.Data.Size(), "") == "" {
			missing = append(missing, f)
			continue
		}
		sum, err := hashData(ctx, f.Data, hash) // to know before it is copied
		if err != nil {
			return nil, err
		}
		if path := there(f.Data.Size(), sum); path != "" && !(s.Copy && sameFile(path, list[i].own)) {
			list[i].sum, list[i].how = sum, There
			if err := os.Link(path, list[i].path); err != nil && !sameFile(path, list[i].path) { // to have it even if it is removed meanwhile
				list[i].path = path
			}
		} else {
			missing = append(missing, f)
		}
	}
	if err := s.unlink(missing); err != nil {
		return nil, err
	}
	if _, err := export.Run(ctx, s.dir, missing, o); err != nil {
		return nil, err
	}
	for i := range list {
		f := &list[i]
		if f.sum != "" {
			continue
		}
		var err error
		if f.sum, err = hashFile(ctx, f.path, f.size, hash); err != nil {
			return nil, err
		}
		if linked, ok := shared[f.name]; ok {
			f.how = Cloned
			if linked {
				f.how = Linked
			}
		}
		if f.how == Written { // an earlier run may have linked it
			if f.own != "" && sameFile(f.own, f.path) {
				f.how = Linked
			}
		}
		if f.how == Linked {
			f.origin = f.own
		}
	}
	if s.Export.Check != nil {
		if err := s.Export.Check(); err != nil {
			return nil, err
		}
	}
	if s.Confirm != nil {
		digests := make([]string, len(list))
		for i := range list {
			digests[i] = list[i].digest()
		}
		if err := s.Confirm(ctx, digests); err != nil {
			s.distrusted = ctx.Err() == nil
			return nil, err
		}
	}
	return list, nil
}

// unlink removes links of the model's own files that an earlier run left: package export
// replaces no such file, and may be told now to write other bytes or a copy.
func (s *stage) unlink(files []export.File) error {
	for _, f := range files {
		path := filepath.Join(s.dir, filepath.FromSlash(f.Path))
		st, err := os.Lstat(path)
		if err != nil || !slices.ContainsFunc(s.Export.Never, func(own os.FileInfo) bool { return os.SameFile(own, st) }) {
			continue
		}
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	return nil
}

// minLink is the size of files from which on a copy costs more than it protects: smaller
// ones are what people edit, such as config.json.
const minLink = 4 << 20

// mayLink reports whether a file of the model may be the store's, too: its owner is the
// store's, and whoever may read files of the store may read it.
func (s *stage) mayLink(st os.FileInfo) bool {
	if st.Size() < cmp.Or(s.least, minLink) {
		return false
	}
	dir, err := s.lock.Stat()
	if err != nil {
		return false
	}
	a, okA := owner(st)
	b, okB := owner(dir)
	const readable = 0o444
	return okA && okB && a == b && st.Mode()&readable == readable
}

// stored returns the path of Data that is all of a file of this machine, or "".
func stored(d tensorfs.Data) string {
	f, ok := d.(interface {
		Descriptor() int
		Path() string
	})
	if !ok {
		return ""
	}
	path, err := filepath.EvalSymlinks(f.Path())
	if err != nil {
		return ""
	}
	return path
}

func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// hashData returns the SHA-256 of Data.
func hashData(ctx context.Context, d tensorfs.Data, add func(n int64)) (string, error) {
	h := sha256.New()
	err := source.Hash(ctx, h, d, add)
	return hex.EncodeToString(h.Sum(nil)), err
}

// hashFile returns the SHA-256 of a file of that size.
func hashFile(ctx context.Context, path string, size int64, add func(n int64)) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return "", err
	}
	if !st.Mode().IsRegular() || st.Size() != size {
		return "", fmt.Errorf("%s: it was changed while it was written; run the command again", tensorfs.Printable(path))
	}
	return hashData(ctx, sized{f, size}, add)
}

// sized is an open file as Data.
type sized struct {
	*os.File
	size int64
}

func (s sized) Size() int64 { return s.size }
