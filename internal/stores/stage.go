package stores

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/export"
	"github.com/tensorfs/tensorfs/internal/opendir"
	"github.com/tensorfs/tensorfs/internal/source"
	"golang.org/x/sys/unix"
)

// Options say how a model is written.
type Options struct {
	Export export.Options // of the files; what is refused there is replaced here, because only this package's own files are
	Force  bool           // replace a model of the name, and files with other bytes
	Copy   bool           // no file of the model gets another name; clones are copies too
	// Confirm runs before another program may find what was written, with the digests of
	// the files (sha256:HEX). May be nil.
	Confirm func(ctx context.Context, digests []string) error
	// Wrong reports whether bytes of the model proved to be wrong, so that no written file
	// is kept. May be nil.
	Wrong func() bool
	least int64 // minimum size of a linked file, for tests; 0 means minLink
	// Hashing receives the number of bytes to be hashed, once known, and returns a function
	// that counts them. May be nil.
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

// Report lists what was written.
type Report struct {
	Path  string   // of what makes the other program see the model
	Files []Placed // of the model, in the order in which they were given
	Chat  string   // see ollama.Created
}

// ErrExists marks a store that has another model of the name.
var ErrExists = errors.New("exists already")

// stage is a directory of our own that holds files until they get their names. It stays
// this user's: other users cannot change what is in it, even in their own store.
type stage struct {
	Options
	at         *opendir.Dir // its directory
	name       string
	dir        *opendir.Dir
	below      map[string]*opendir.Dir // directories of the files, by their paths
	distrusted bool                    // the bytes are not what they should be
}

// stageMark is a file that marks a directory as a stage.
const stageMark = ".tensorfs-stage"

// openStage opens the directory of that name and locks it.
func openStage(at *opendir.Dir, name string, o Options) (*stage, error) {
	for {
		dir, err := at.Private(name)
		if err != nil {
			return nil, err
		}
		s := &stage{Options: o, at: at, name: name, dir: dir, below: map[string]*opendir.Dir{}}
		switch err := unix.Flock(int(dir.File().Fd()), unix.LOCK_EX|unix.LOCK_NB); {
		case errors.Is(err, unix.EWOULDBLOCK):
			dir.Close()
			return nil, fmt.Errorf("%s: %w", tensorfs.Printable(at.Join(name)), export.ErrBusy)
		case errors.Is(err, unix.EINTR):
			dir.Close()
			continue
		} // others: a file system without locks
		there, err := at.Lstat(name)
		if err == nil {
			var mine os.FileInfo
			if mine, err = dir.File().Stat(); err == nil && os.SameFile(mine, there) {
				if err = s.mark(); err == nil {
					return s, nil
				}
			}
		}
		dir.Close()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		} // who had the lock removed it
	}
}

// mark marks the stage. In the store of another user it may be another directory that this
// user has there, under the name of a stage.
func (s *stage) mark() error {
	names, err := s.dir.Names()
	if err != nil {
		return err
	}
	if len(names) > 0 && !slices.Contains(names, stageMark) && !s.at.Mine() {
		return fmt.Errorf("%s: it is not what an export left; remove it", tensorfs.Printable(s.at.Join(s.name)))
	}
	f, err := s.dir.OpenFile(stageMark, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// close ends the work. What was done is left to the same command, unless that is refused.
func (s *stage) close(err error) {
	for _, d := range s.below {
		d.Close()
	}
	refused := errors.Is(err, ErrExists) || s.distrusted || err != nil && s.Wrong != nil && s.Wrong()
	if names, err := s.dir.Names(); refused || err == nil && len(names) <= 1 { // only the mark
		_ = s.done()
	}
	s.dir.Close()
}

// done removes the directory.
func (s *stage) done() error {
	if err := s.dir.Clear(); err != nil {
		return err
	}
	if err := s.at.RemoveDir(s.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// locate returns the directory in the stage, and the name there, of a file that is written.
func (s *stage) locate(name string) (*opendir.Dir, string, error) {
	at, start := s.dir, 0
	for i := range len(name) {
		if name[i] != '/' {
			continue
		}
		next := s.below[name[:i]]
		if next == nil {
			var err error
			if next, err = at.MakeSub(name[start:i], 0o700); err != nil {
				return nil, "", err
			}
			s.below[name[:i]] = next
		}
		at, start = next, i+1
	}
	return at, name[start:], nil
}

// file is one that is written, or was in its place.
type file struct {
	name   string       // as it was given
	dir    *opendir.Dir // where its bytes are
	base   string       // its name there
	size   int64
	sum    string // 64 hexadecimal digits of its SHA-256
	how    string
	origin string
	moved  bool        // it has its name in the store, and has none in the stage
	own    string      // the file of the model that has just these bytes, or ""
	ownIs  os.FileInfo // of that file; may be nil
}

// is reports whether an open file is the file of the model that has just these bytes.
func (f *file) is(open *os.File) bool {
	st, err := open.Stat()
	return err == nil && f.ownIs != nil && os.SameFile(st, f.ownIs)
}

func (f *file) digest() string { return "sha256:" + f.sum }

// known finds a file that is in the store already, by its size and digest: its directory
// and name, and the file itself, open; nil if the store does not have it. Without a digest
// it only reports whether the store may have it, which is asked before a file is written.
type known func(size int64, sum string) (dir *opendir.Dir, name string, open *os.File)

// write writes files, and hashes them. there is nil if none is looked for.
func (s *stage) write(ctx context.Context, files []export.File, there known) ([]file, error) {
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
		dir, base, err := s.locate(f.Path)
		if err != nil {
			return nil, err
		}
		list[i] = file{name: f.Path, dir: dir, base: base, size: f.Data.Size(), how: Written}
		list[i].own, list[i].ownIs = stored(f.Data)
		found, err := s.found(ctx, &list[i], f.Data, there, hash)
		if err != nil {
			return nil, err
		}
		if !found {
			missing = append(missing, f)
		}
	}
	if err := s.unlink(missing); err != nil {
		return nil, err
	}
	if _, err := export.RunIn(ctx, s.dir, missing, o); err != nil {
		return nil, err
	}
	for i := range list {
		f := &list[i]
		if f.sum != "" {
			continue
		}
		open, err := f.open()
		if err != nil {
			return nil, err
		}
		if f.sum, err = hashData(ctx, sized{open, f.size}, hash); err != nil {
			open.Close()
			return nil, err
		}
		if linked, ok := shared[f.name]; ok {
			f.how = Cloned
			if linked {
				f.how = Linked
			}
		}
		if f.how == Written && f.is(open) { // an earlier run may have linked it
			f.how = Linked
		}
		open.Close()
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

// found looks for a file in the store, and links it into the stage, to have it even if it
// is removed from the store.
func (s *stage) found(ctx context.Context, f *file, d tensorfs.Data, there known, hash func(int64)) (bool, error) {
	if f.own == "" || there == nil {
		return false, nil
	}
	if dir, _, _ := there(f.size, ""); dir == nil {
		return false, nil
	}
	sum, err := hashData(ctx, d, hash) // to know before it is copied
	if err != nil {
		return false, err
	}
	dir, name, open := there(f.size, sum)
	if dir == nil {
		return false, nil
	}
	defer open.Close()
	if s.Copy && f.is(open) {
		return false, nil
	}
	st, err := open.Stat()
	if err != nil {
		return false, err
	}
	if err := f.dir.Remove(f.base); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	// The name may be another file's by now.
	if f.dir.LinkOpen(int(open.Fd()), open.Name(), f.base) != nil {
		if noLinks(dir.Link(name, f.dir, f.base)) {
			f.dir, f.base, f.sum, f.how = dir, name, sum, There
			return true, nil
		}
	}
	made, err := f.dir.Lstat(f.base)
	if err != nil || !os.SameFile(made, st) {
		_ = f.dir.Remove(f.base)
		return false, nil // as if there were none: it is placed again, or found to be there
	}
	f.sum, f.how = sum, There
	return true, nil
}

// open opens a staged file.
func (f *file) open() (*os.File, error) {
	open, st, err := f.dir.OpenRegular(f.base)
	if err == nil && st.Size() != f.size {
		open.Close()
		err = fmt.Errorf("%s: it was changed while it was written; run the command again", tensorfs.Printable(f.dir.Join(f.base)))
	}
	return open, err
}

// unlink removes links of the model's own files that an earlier run left: package export
// replaces no such file, and may be told now to write other bytes or a copy.
func (s *stage) unlink(files []export.File) error {
	for _, f := range files {
		dir, base, err := s.locate(f.Path)
		if err != nil {
			return err
		}
		st, err := dir.Lstat(base)
		if err != nil || !slices.ContainsFunc(s.Export.Never, func(own os.FileInfo) bool { return os.SameFile(own, st) }) {
			continue
		}
		if err := dir.Remove(base); err != nil {
			return err
		}
	}
	return nil
}

// minLink is the size of files from which on a copy costs more than it protects: smaller
// ones are what people edit, such as config.json.
const minLink = 4 << 20

// mayLink reports whether a file of the model may also become the store's: it has the
// store's owner, and the store's readers may read it.
func (s *stage) mayLink(st os.FileInfo) bool {
	if st.Size() < cmp.Or(s.least, minLink) {
		return false
	}
	dir, err := s.at.File().Stat()
	if err != nil {
		return false
	}
	a, okA := owner(st)
	b, okB := owner(dir)
	const readable = 0o444
	return okA && okB && a == b && st.Mode()&readable == readable
}

// stored returns the path of Data that is all of a file of this machine, and which file it is.
func stored(d tensorfs.Data) (path string, st os.FileInfo) {
	f, ok := d.(interface {
		Descriptor() int
		Path() string
	})
	if !ok {
		return "", nil
	}
	fd, err := unix.FcntlInt(uintptr(f.Descriptor()), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return "", nil
	}
	open := os.NewFile(uintptr(fd), f.Path())
	defer open.Close()
	if st, err = open.Stat(); err != nil {
		return "", nil
	}
	return f.Path(), st
}

// hashData returns the SHA-256 of Data.
func hashData(ctx context.Context, d tensorfs.Data, add func(n int64)) (string, error) {
	h := sha256.New()
	err := source.Hash(ctx, h, d, add)
	return hex.EncodeToString(h.Sum(nil)), err
}

// sized is an open file as Data.
type sized struct {
	*os.File
	size int64
}

func (s sized) Size() int64 { return s.size }
