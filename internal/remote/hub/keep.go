package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/opendir"
	"github.com/tensorfs/tensorfs/internal/remote"
	"github.com/tensorfs/tensorfs/internal/web"
	"golang.org/x/sys/unix"
)

// Keep shares the files of a commit with Hugging Face's own programs: it fetches missing
// files into the listing's cache, verified, and makes a snapshot of all of them in the
// programs' cache, as the Python package huggingface_hub lays it out:
//
//	.locks/models--ORG--NAME/<id>.lock     held while a blob is made
//	models--ORG--NAME/blobs/<id>           the id is the SHA-256, or git's id, of the bytes
//	                  snapshots/<commit>/FILE -> ../../blobs/<id>
//	                  refs/<revision>      the commit; written last
//
// An existing blob stays. A new one gets its name when it is complete and its bytes were
// compared with the id. If both caches are on one file system and no other user can write
// to theirs, it is a hard link to the file in our cache, which only its user can read; else
// it is a copy. Incomplete files are named *.incomplete, like the programs' own. A revision
// that is the commit itself, or "", gets only the ref main.
func Keep(ctx context.Context, cache, repository, revision string, l *remote.Listing) error {
	_, commit, ok := strings.Cut(l.Name, "@")
	if err := check(repository, revision); err != nil || !ok || !isHex(commit, commitSize) {
		return errors.Join(err, fmt.Errorf("%s: it is not a commit of the Hub", l.Name))
	}
	if revision == "" {
		revision = mainBranch
	}
	store, err := opendir.Make(cache, 0o777, true)
	if err != nil {
		return err
	}
	defer store.Close()
	k, err := openKeeping(store, repository, commit)
	if err != nil {
		return err
	}
	defer k.close()
	for _, x := range l.Items() {
		_, id, _ := strings.Cut(x.ID.Digest, ":")
		if !isHex(id, 64) && !isHex(id, commitSize) {
			return fmt.Errorf("%s: the Hub states no digest", l.Location(x.Name))
		}
		b := Blob{Name: x.Name, ID: id, Size: x.ID.Size}
		fetch := func() error {
			from, err := fetchWhole(ctx, l, x.Name)
			if err != nil {
				return err
			}
			defer from.Close()
			if k.ours && k.link(from, id) {
				return nil
			}
			return k.copy(ctx, from, &b)
		}
		if _, err := k.file(ctx, &b, fetch); err != nil {
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
	Dir  *opendir.Dir // their place: a directory that only this user can change
	Base string       // their name there
}

// Folder returns the name of a repository's folder in the cache.
func Folder(repository string) (string, error) {
	return folderName(repository), check(repository, "")
}

func folderName(repository string) string {
	return "models--" + strings.ReplaceAll(repository, "/", "--")
}

// Main returns the commit that refs/main of a repository's folder names, "" for none.
func Main(folder *opendir.Dir) (commit string, err error) {
	refs, err := folder.Follow("refs", 0)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer refs.Close()
	b, err := readRef(refs, mainBranch)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(b)), err
}

func readRef(refs *opendir.Dir, name string) ([]byte, error) {
	f, _, err := refs.OpenRegular(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxRef))
}

// maxRef bounds a ref, which has 40 bytes.
const maxRef = 1 << 16

// KeepBlobs makes a snapshot of blobs that are whole and verified in the cache, as [Keep]
// does, and points refs/main to it. It returns the blobs that existed.
func KeepBlobs(ctx context.Context, cache *opendir.Dir, repository, commit string, blobs []Blob) (there map[string]bool, err error) {
	if err := check(repository, ""); err != nil {
		return nil, err
	}
	k, err := openKeeping(cache, repository, commit)
	if err != nil {
		return nil, err
	}
	defer k.close()
	there = map[string]bool{}
	for i := range blobs {
		b := &blobs[i]
		place := func() error {
			if b.Dir.Link(b.Base, k.blobs, b.ID) == nil {
				return nil
			}
			from, _, err := b.Dir.OpenRegular(b.Base)
			if err != nil {
				return err
			}
			defer from.Close()
			return k.copy(ctx, from, b)
		}
		was, err := k.file(ctx, b, place)
		if err != nil {
			return nil, err
		}
		there[b.Name] = was
	}
	return there, k.ref(mainBranch, commit)
}

// Complete reports whether all files of a commit that have more than most bytes are local:
// whole in the listing's cache, or in the cache of Hugging Face's own programs.
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
	locks, blobs, refs, snapshot *opendir.Dir
	ours                         bool // only this user can write there
}

// openKeeping makes the directories of a snapshot.
func openKeeping(cache *opendir.Dir, repository, commit string) (_ *keeping, err error) {
	folder := folderName(repository)
	k := &keeping{}
	for _, d := range []struct {
		dir  **opendir.Dir
		path string
	}{{&k.locks, ".locks/" + folder}, {&k.blobs, folder + "/blobs"}, {&k.refs, folder + "/refs"}, {&k.snapshot, folder + "/snapshots/" + commit}} {
		if *d.dir, err = cache.Follow(d.path, 0o777); err != nil {
			k.close()
			return nil, err
		}
	}
	st, err := cache.File().Stat()
	if err != nil {
		k.close()
		return nil, err
	}
	k.ours = st.Mode()&0o022 == 0 && cache.Mine()
	return k, nil
}

func (k *keeping) close() {
	for _, d := range []*opendir.Dir{k.locks, k.blobs, k.refs, k.snapshot} {
		if d != nil {
			d.Close()
		}
	}
}

// file makes the blob of a file, unless it is there, and the file itself.
func (k *keeping) file(ctx context.Context, b *Blob, place func() error) (there bool, err error) {
	if there, err = k.blob(ctx, b, place); err != nil {
		return false, err
	}
	return there, k.point(b.Name, b.ID)
}

// ref makes a revision name a commit. A commit needs none.
func (k *keeping) ref(revision, commit string) error {
	if revision == commit {
		return nil
	}
	return below(k.refs, revision, func(dir *opendir.Dir, name string) error {
		if have, err := readRef(dir, name); err == nil && string(have) == commit {
			return nil
		}
		return atOnce(dir, name, func(half string) error {
			return create(dir, half, func(f *os.File) error {
				_, err := f.WriteString(commit)
				return err
			})
		})
	})
}

// below calls a function with the directory of a path below another, which is made if it is
// missing, and the name in it.
func below(dir *opendir.Dir, path string, do func(dir *opendir.Dir, name string) error) error {
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		sub, err := dir.Follow(path[:i], 0o777)
		if err != nil {
			return err
		}
		defer sub.Close()
		dir, path = sub, path[i+1:]
	}
	return do(dir, path)
}

// lockPoll is how often a lock is asked for that another program has.
const lockPoll = 50 * time.Millisecond

// lock waits until no other program makes a blob.
func (k *keeping) lock(ctx context.Context, id string) (unlock func(), err error) {
	name := id + ".lock"
	if err := create(k.locks, name, func(*os.File) error { return nil }); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	f, err := k.locks.OpenFile(name, os.O_RDWR, 0)
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
func (k *keeping) blob(ctx context.Context, b *Blob, place func() error) (there bool, err error) {
	unlock, err := k.lock(ctx, b.ID)
	if err != nil {
		return false, err
	}
	defer unlock()
	f, st, err := k.blobs.OpenRegular(b.ID) // it may be a link into a store that repositories share
	if err == nil {
		f.Close()
	}
	switch {
	case err == nil && st.Size() == b.Size:
		return true, nil
	case err == nil:
		return false, &tensorfs.FormatError{File: k.blobs.Join(b.ID), Offset: -1, Problem: fmt.Sprintf("it is not a file of %d bytes, as the Hub lists it", b.Size),
			Advice: "remove it, and fetch the model again"}
	case !errors.Is(err, fs.ErrNotExist):
		return false, err
	}
	return false, place()
}

// link gives a file of our cache the name of a blob, if it can have one.
func (k *keeping) link(from *os.File, id string) bool {
	st, err := from.Stat()
	if err != nil || k.blobs.LinkOpen(int(from.Fd()), from.Name(), id) != nil {
		return false
	}
	if made, err := k.blobs.Lstat(id); err == nil && os.SameFile(made, st) {
		return true
	}
	_ = k.blobs.Remove(id) // the name leads to another file by now
	return false
}

// copy makes a blob of a file.
func (k *keeping) copy(ctx context.Context, from *os.File, b *Blob) error {
	return atOnce(k.blobs, b.ID, func(half string) error {
		return create(k.blobs, half, func(to *os.File) error { return copyFile(ctx, to, from, b.Size) })
	})
}

// wholeFile is a file of a listing that may be all in our cache.
type wholeFile interface {
	Verify(ctx context.Context, came func(n int64)) error
	Whole() (*os.File, bool)
}

// fetchWhole returns a file that is verified, and brings in what is missing of it.
func fetchWhole(ctx context.Context, l *remote.Listing, name string) (*os.File, error) {
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

// copyFile copies a file of a size, in the kernel if possible, and makes it durable.
func copyFile(ctx context.Context, to, from *os.File, size int64) error {
	for size > 0 {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		n, err := io.CopyN(to, from, min(size, 256<<20))
		if err != nil {
			return err
		}
		size -= n
	}
	return to.Sync()
}

// create makes a file that is not there, for the owner of the directory.
func create(dir *opendir.Dir, name string, write func(f *os.File) error) error {
	f, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	return errors.Join(write(f), dir.Give(f), f.Close())
}

// point makes a file of the snapshot a relative link to a blob.
func (k *keeping) point(name, id string) error {
	return below(k.snapshot, name, func(dir *opendir.Dir, base string) error {
		to := strings.Repeat("../", strings.Count(name, "/")+2) + "blobs/" + id
		if have, err := dir.Readlink(base); err == nil && have == to {
			return nil
		}
		return atOnce(dir, base, func(half string) error { return dir.Symlink(to, half) })
	})
}

// atOnce makes a file under another name and gives it its own.
func atOnce(dir *opendir.Dir, name string, make func(half string) error) error {
	half := fmt.Sprintf("%s.%08x.incomplete", name, rand.Uint32())
	err := make(half)
	if err == nil {
		err = dir.Rename(half, dir, name)
	}
	if err != nil {
		_ = dir.Remove(half)
	}
	return err
}

var _ wholeFile = (*web.File)(nil)
