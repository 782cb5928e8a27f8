package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/remote"
	"github.com/tensorfs/tensorfs/internal/source"
	"github.com/tensorfs/tensorfs/internal/web"
	"golang.org/x/sys/unix"
)

// Keep gives the files of a commit to Hugging Face's own programs: it brings those that
// are missing into the listing's cache, verified, and makes a snapshot of all of them in
// theirs, as the Python package huggingface_hub lays it out:
//
//	.locks/models--ORG--NAME/<id>.lock     held while a blob is made
//	models--ORG--NAME/blobs/<id>           the id is the SHA-256, or git's id, of the bytes
//	                  snapshots/<commit>/FILE -> ../../blobs/<id>
//	                  refs/<revision>      the commit; written last
//
// A blob that is there stays. One that is made gets its name when all of its bytes, which
// were compared with the id, are in it: it is another name of the file in our cache, which
// its user alone can read, where both are on one file system and nobody else writes to
// theirs; else it is a copy. What was half made is called *.incomplete, as
// theirs is. A revision that is the commit itself, or "",
// gets no ref but main's.
func Keep(ctx context.Context, cache, repository, revision string, l *remote.Listing) error {
	_, commit, ok := strings.Cut(l.Name, "@")
	if err := check(repository, revision); err != nil || !ok || !isHex(commit, commitSize) {
		return errors.Join(err, fmt.Errorf("%s: it is not a commit of the Hub", l.Name))
	}
	if revision == "" {
		revision = mainBranch
	}
	k, err := openKeeping(cache, repository, commit)
	if err != nil {
		return err
	}
	for _, x := range l.Items() {
		_, id, _ := strings.Cut(x.ID.Digest, ":")
		if !isHex(id, 64) && !isHex(id, commitSize) {
			return fmt.Errorf("%s: the Hub states no digest", l.Location(x.Name))
		}
		b := Blob{Name: x.Name, ID: id, Size: x.ID.Size}
		if _, err := k.file(ctx, &b, func() (*os.File, error) { return whole(ctx, l, x.Name) }); err != nil {
			return err
		}
	}
	return k.ref(revision, commit)
}

// Blob is a file of a snapshot that comes from nowhere but this machine.
type Blob struct {
	Name string // in the repository, with slashes
	ID   string // the SHA-256 of its bytes
	Size int64
	Path string // where they are
}

// Folder returns the folder of a repository in the cache.
func Folder(cache, repository string) (string, error) {
	return filepath.Join(cache, folderName(repository)), check(repository, "")
}

func folderName(repository string) string {
	return "models--" + strings.ReplaceAll(repository, "/", "--")
}

// Main returns the commit that refs/main of a repository's folder names, "" for none.
func Main(folder string) (commit string, err error) {
	b, err := source.ReadRegular(filepath.Join(folder, "refs", mainBranch), maxRef)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(b)), err
}

// maxRef bounds a ref, which has 40 bytes.
const maxRef = 1 << 16

// KeepBlobs makes a snapshot of blobs that are whole and verified in the cache, as [Keep] does, and refs/main
// of it. It says which were there.
func KeepBlobs(ctx context.Context, cache, repository, commit string, blobs []Blob) (there map[string]bool, err error) {
	if err := check(repository, ""); err != nil {
		return nil, err
	}
	k, err := openKeeping(cache, repository, commit)
	if err != nil {
		return nil, err
	}
	there = map[string]bool{}
	for i := range blobs {
		b := &blobs[i]
		was, err := k.file(ctx, b, func() (*os.File, error) { return os.Open(b.Path) })
		if err != nil {
			return nil, err
		}
		there[b.Name] = was
	}
	return there, k.ref(mainBranch, commit)
}

// Complete reports whether all files of a commit that have more than most bytes are here:
// whole in the listing's cache, or in that of Hugging Face's own programs.
func Complete(l *remote.Listing, most int64) bool {
	for _, x := range l.Items() {
		if x.ID.Size <= most || x.Local != "" {
			continue
		}
		f, err := l.OpenFile(x.Name)
		if err != nil {
			return false
		}
		w, here := f.(wholeFile)
		if here {
			var m *os.File
			if m, here = w.Whole(); here {
				m.Close()
			}
		}
		f.Close()
		if !here {
			return false
		}
	}
	return true
}

// keeping is a repository's folder in the cache.
type keeping struct {
	dir, locks, snapshot string
	ours                 bool // nobody but this user writes there
}

// openKeeping makes the directories of a snapshot.
func openKeeping(cache, repository, commit string) (*keeping, error) {
	folder := folderName(repository)
	k := &keeping{dir: filepath.Join(cache, folder), locks: filepath.Join(cache, ".locks", folder)}
	k.snapshot = filepath.Join(k.dir, "snapshots", commit)
	for _, dir := range []string{k.locks, filepath.Join(k.dir, "blobs"), filepath.Join(k.dir, "refs"), k.snapshot} {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return nil, err
		}
	}
	st, err := os.Stat(cache)
	if err != nil {
		return nil, err
	}
	k.ours = st.Mode()&0o022 == 0
	return k, nil
}

// file makes the blob of a file, unless it is there, and the file itself.
func (k *keeping) file(ctx context.Context, b *Blob, open func() (*os.File, error)) (there bool, err error) {
	if there, err = k.blob(ctx, b, open); err != nil {
		return false, err
	}
	return there, point(filepath.Join(k.snapshot, filepath.FromSlash(b.Name)), filepath.Join(k.dir, "blobs", b.ID))
}

// ref makes a revision name a commit. A commit needs none.
func (k *keeping) ref(revision, commit string) error {
	if revision == commit {
		return nil
	}
	ref := filepath.Join(k.dir, "refs", filepath.FromSlash(revision))
	if have, err := os.ReadFile(ref); err == nil && string(have) == commit {
		return nil
	}
	return atOnce(ref, func(path string) error { return os.WriteFile(path, []byte(commit), 0o666) })
}

// lockPoll is how often a lock is asked for that another program has.
const lockPoll = 50 * time.Millisecond

// lock waits until no other program makes a blob.
func (k *keeping) lock(ctx context.Context, id string) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(k.locks, id+".lock"), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o666)
	if err != nil {
		return nil, err
	}
	for {
		switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err {
		case nil:
			return func() { f.Close() }, nil
		case unix.EINTR:
			continue
		case unix.EWOULDBLOCK:
		default:
			f.Close()
			return nil, fmt.Errorf("%s: it cannot be locked: %w", f.Name(), err)
		}
		select {
		case <-time.After(lockPoll):
		case <-ctx.Done():
			f.Close()
			return nil, context.Cause(ctx)
		}
	}
}

// blob makes the blob of a file, unless it is there.
func (k *keeping) blob(ctx context.Context, b *Blob, open func() (*os.File, error)) (there bool, err error) {
	unlock, err := k.lock(ctx, b.ID)
	if err != nil {
		return false, err
	}
	defer unlock()
	path := filepath.Join(k.dir, "blobs", b.ID)
	switch st, err := os.Stat(path); { // it may be a link into a store that repositories share
	case err == nil && st.Mode().IsRegular() && st.Size() == b.Size:
		return true, nil
	case err == nil:
		return false, &tensorfs.FormatError{File: path, Offset: -1, Problem: fmt.Sprintf("it is not the file of %d bytes that its name says", b.Size),
			Advice: "remove it, and fetch the model again"}
	case !errors.Is(err, fs.ErrNotExist):
		return false, err
	}
	from, err := open()
	if err != nil {
		return false, err
	}
	defer from.Close()
	if k.ours && os.Link(from.Name(), path) == nil {
		return false, nil
	}
	return false, atOnce(path, func(path string) error { return copyFile(ctx, path, from, b.Size) })
}

// wholeFile is a file of a listing that may be all in our cache.
type wholeFile interface {
	Verify(ctx context.Context, came func(n int64)) error
	Whole() (*os.File, bool)
}

// whole returns a file that is verified, and brings in what is missing of it.
func whole(ctx context.Context, l *remote.Listing, name string) (*os.File, error) {
	f, err := l.OpenFile(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	w, ok := f.(wholeFile)
	if !ok {
		return os.Open(f.Path())
	}
	if m, ok := w.Whole(); ok {
		return m, nil
	}
	if err := w.Verify(ctx, nil); err != nil {
		return nil, err
	}
	m, ok := w.Whole()
	if !ok {
		return nil, fmt.Errorf("%s: the cache does not keep it: %w", f.Path(), unix.ENOSPC)
	}
	return m, nil
}

// copyFile copies a file of a size, by the kernel where it can, and makes it durable.
func copyFile(ctx context.Context, path string, from *os.File, size int64) error {
	to, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	for err == nil && size > 0 {
		var n int64
		if err = context.Cause(ctx); err == nil {
			n, err = io.CopyN(to, from, min(size, 256<<20))
			size -= n
		}
	}
	if err == nil {
		err = to.Sync()
	}
	return errors.Join(err, to.Close())
}

// point makes path a relative link to a blob.
func point(path, blob string) error {
	to, err := filepath.Rel(filepath.Dir(path), blob)
	if err != nil {
		return err
	}
	if have, err := os.Readlink(path); err == nil && have == to {
		return nil
	}
	return atOnce(path, func(path string) error { return os.Symlink(to, path) })
}

// atOnce makes a file under another name and gives it its own.
func atOnce(path string, make func(path string) error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	half := fmt.Sprintf("%s.%08x.incomplete", path, rand.Uint32())
	err := make(half)
	if err == nil {
		err = os.Rename(half, path)
	}
	if err != nil {
		os.Remove(half)
	}
	return err
}

var _ wholeFile = (*web.File)(nil)
