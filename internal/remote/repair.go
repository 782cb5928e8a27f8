package remote

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/cache"
	"github.com/tensorfs/tensorfs/internal/opendir"
	"github.com/tensorfs/tensorfs/internal/source"
	"github.com/tensorfs/tensorfs/internal/web"
)

// Repaired is the result of [Listing.Repair].
type Repaired struct {
	Compared int      // copies on this machine that were compared with their digests
	Broken   []string // names of the files whose copies were fetched again
	Bytes    int64    // the size of these files
}

// Repair compares the copies that this machine has of the files with the digests that their server states, and replaces
// copies that differ. copyOf returns the path of an item's copy, "" without one. Only broken files
// are fetched. A copy is replaced when all of its new bytes are on the disk and have the digest: who has the old one open
// keeps it.
func (l *Listing) Repair(ctx context.Context, copyOf func(x *Item) string) (r Repaired, err error) {
	type copied struct {
		item *Item
		path string
	}
	var copies, broken []copied
	total := int64(0)
	for i := range l.items {
		if x := &l.items[i]; x.Part == nil && x.ID.Digest != "" {
			if path := copyOf(x); path != "" {
				copies = append(copies, copied{x, path})
				total += x.ID.Size
			}
		}
	}
	add, end := l.tell("compare", total)
	for _, c := range copies {
		sound, err := hasDigest(ctx, c.path, c.item.ID, add)
		if err != nil {
			end()
			return r, err
		}
		r.Compared++
		if !sound {
			broken = append(broken, c)
			r.Bytes += c.item.ID.Size
		}
	}
	end()
	if len(broken) == 0 {
		return r, nil
	}
	add, end = l.tell("fetch", r.Bytes)
	defer end()
	for _, c := range broken {
		if err := l.replace(ctx, c.item, c.path, add); err != nil {
			return r, err
		}
		r.Broken = append(r.Broken, c.item.Name)
	}
	return r, nil
}

func (l *Listing) tell(what string, total int64) (add func(n int64), end func()) {
	if l.Progress == nil {
		return func(int64) {}, func() {}
	}
	return l.Progress(what, total)
}

// hasDigest reports whether a file has the size and the digest of an identity.
func hasDigest(ctx context.Context, path string, id cache.ID, add func(n int64)) (bool, error) {
	m, err := source.Map(path, filepath.Base(path))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer m.Close()
	if m.Size() != id.Size {
		return false, nil
	}
	h, err := cache.NewHash(id.Digest, id.Size)
	if err != nil {
		return false, err
	}
	if err := source.Hash(ctx, h, m, add); err != nil {
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		return false, nil // a disk that cannot read it does not have it
	}
	kind, _, _ := strings.Cut(id.Digest, ":")
	return kind+":"+hex.EncodeToString(h.Sum(nil)) == id.Digest, nil
}

// replace fetches an item and renames it over its copy.
func (l *Listing) replace(ctx context.Context, x *Item, at string, add func(n int64)) error {
	f, err := l.far(x)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Verify(ctx, add); err != nil {
		return err
	}
	from, ok := f.Whole()
	if !ok {
		return &tensorfs.FormatError{File: l.Location(x.Name), Offset: -1, Problem: "the cache cannot keep it as a whole", Advice: "make room on its disk, or give it more with --cache-size", Kind: tensorfs.ErrUnsupported}
	}
	defer from.Close()
	real, err := filepath.EvalSymlinks(at)
	if err != nil {
		real = at
	}
	dir, err := opendir.Open(filepath.Dir(real))
	if err != nil {
		return tensorfs.NoDirectory(filepath.Dir(real), err)
	}
	defer dir.Close()
	name := filepath.Base(real)
	half := fmt.Sprintf("%s.%08x.incomplete", name, rand.Uint32())
	mode := fs.FileMode(0o666)
	was, err := dir.Lstat(name)
	there := err == nil && was.Mode().IsRegular()
	if there {
		mode = was.Mode().Perm()
	}
	to, err := dir.OpenFile(half, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return tensorfs.NoDirectory(dir.Path(), err)
	}
	n, cerr := io.Copy(to, from)
	if err = cerr; err == nil && n != x.ID.Size {
		err = io.ErrUnexpectedEOF
	}
	if err = errors.Join(err, to.Sync(), dir.Give(to), to.Close()); err == nil && there { // hf takes a later time for a change by hand
		err = dir.Chtimes(half, was.ModTime())
	}
	if err == nil {
		err = dir.Rename(half, dir, name)
	}
	if err != nil {
		_ = dir.Remove(half) // the copy stays as it is
	}
	return err
}

// parsing is the context of parsers' reads.
func (l *Listing) parsing() context.Context {
	if l.Parsing == nil {
		return context.Background()
	}
	return l.Parsing
}

// far opens an item on its server, through the cache, whatever this machine has.
func (l *Listing) far(x *Item) (*web.File, error) {
	entry, err := l.Store.Entry(x.ID)
	if err != nil {
		return nil, err
	}
	f := l.Client.File(x.Origin, entry, x.Host, l.Location(x.Name), path.Base(x.Name))
	f.SetDigest(x.ID.Digest)
	f.ParseWithin(l.parsing())
	if x.Part != nil {
		f.Only(x.Part.Off, x.Part.Size)
	}
	return f, nil
}
