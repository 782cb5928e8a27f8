package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/cache"
	"github.com/tensorfs/tensorfs/internal/source"
	"github.com/tensorfs/tensorfs/internal/web"
)

// Item is a file of a server.
type Item struct {
	Name   string   // relative, with slashes
	ID     cache.ID // its identity and size
	Host   string   // of the server, which limits the requests at a time
	Origin web.Origin
	Local  string // path of a copy on this machine, "" without one
	Bytes  []byte // all of it, where it came with the listing, else nil
	Part   *Part  // nil: all of it
}

// Part is the location of a file in the server's file, such as a member of an archive:
// [Off, Off+Size).
type Part struct{ Off, Size int64 }

// Size returns the file's length.
func (item *Item) Size() int64 {
	if item.Part != nil {
		return item.Part.Size
	}
	return item.ID.Size
}

// Listing is a snapshot of a server's directory. Its methods send no requests.
type Listing struct {
	Name    string    // for people, with what pins it: hf:ORG/NAME@COMMIT; no secrets
	ModTime time.Time // of directories
	Note    string    // what its user should know, "" for nothing
	Client  *web.Client
	Store   *cache.Store
	// Progress, if not nil, is told of long operations: a description and the number of
	// bytes, 0 if unknown. Of the returned functions, add counts bytes as they arrive, and
	// end runs at the end.
	Progress func(what string, total int64) (add func(n int64), end func())
	// Parsing ends the reads by which parsers open models in the listing. May be nil.
	Parsing context.Context

	items []Item // sorted by name

	mu   sync.Mutex
	kept []io.Closer
}

// Limits of listings. A name is as long as a path may be, and has more parts than
// any model's: what is done for each part of it stays little.
const (
	maxItems = 100_000 // files
	maxName  = 4096    // bytes of a name
	maxParts = 64      // of a name
)

// CheckName describes what is wrong with the name of a file in a listing, "" if it is
// valid: a relative path that leads only downwards. Code that works with names before the
// listing is made checks them first.
func CheckName(name string) string {
	switch {
	case len(name) > maxName:
		return fmt.Sprintf("is longer than %d bytes", maxName)
	case strings.Count(name, "/") >= maxParts:
		return fmt.Sprintf("has more than %d parts", maxParts)
	case !fs.ValidPath(name) || name == "." || strings.ContainsAny(name, "\\\x00"):
		return "is not the name of a file in a model"
	}
	return ""
}

// NewListing returns a listing of items. Names that are not relative paths, that
// leave the directory, or name a file that is also a directory, are errors.
func NewListing(name string, items []Item, client *web.Client, store *cache.Store) (*Listing, error) {
	l := &Listing{Name: name, Client: client, Store: store, ModTime: time.Now()}
	bad := func(name, problem string) error {
		return &tensorfs.FormatError{File: l.Name, Offset: -1, Problem: tensorfs.Quote(name) + " " + problem, Advice: "the server is at fault, or it is not a model"}
	}
	if len(items) > maxItems {
		return nil, bad("", "the listing has too many files")
	}
	for i := range items { // before they are sorted, which compares them
		if problem := CheckName(items[i].Name); problem != "" {
			return nil, bad(items[i].Name, problem)
		}
	}
	l.items = slices.Clone(items)
	slices.SortFunc(l.items, func(a, b Item) int { return strings.Compare(a.Name, b.Name) })
	for i, x := range l.items {
		switch {
		case i > 0 && l.items[i-1].Name == x.Name:
			return nil, bad(x.Name, "is there twice")
		case l.hasBelow(i):
			return nil, bad(x.Name, "is a file and also a directory")
		case x.ID.Size < 0:
			return nil, bad(x.Name, "has a negative size")
		case x.Part != nil && !inside(*x.Part, x.ID.Size):
			return nil, bad(x.Name, "is not inside its archive")
		}
	}
	return l, nil
}

// hasBelow reports whether there are files below the name of a file. Names with that prefix
// follow it, but a.b comes before a/b.
func (l *Listing) hasBelow(i int) bool {
	name := l.items[i].Name
	if i+1 == len(l.items) || !strings.HasPrefix(l.items[i+1].Name, name) {
		return false
	}
	at, _ := l.indexOf(name + "/")
	return at < len(l.items) && strings.HasPrefix(l.items[at].Name, name+"/")
}

// inside reports whether a part lies in a file of that size.
func inside(p Part, size int64) bool {
	return p.Off >= 0 && p.Size >= 0 && p.Off <= size && p.Size <= size-p.Off
}

// Items returns the files, sorted by name.
func (l *Listing) Items() []Item { return l.items }

// Location returns the name of a file for people.
func (l *Listing) Location(name string) string {
	if name == "." {
		return l.Name
	}
	return l.Name + "/" + name
}

// indexOf returns where a file is among the items, or would be.
func (l *Listing) indexOf(name string) (int, bool) {
	return slices.BinarySearchFunc(l.items, name, func(x Item, name string) int { return strings.Compare(x.Name, name) })
}

// Open is OpenFile for users of package fs.
func (l *Listing) Open(name string) (fs.File, error) { return source.Plain(l.OpenFile(name)) }

// OpenFile opens a file: its copy on this machine, or through the cache.
func (l *Listing) OpenFile(name string) (source.File, error) {
	i, ok := l.indexOf(name)
	if !ok {
		if _, err := l.ReadDir(name); err == nil {
			return nil, tensorfs.NotRegular(l.Location(name), fs.ModeDir)
		}
		return nil, tensorfs.PathError(l.Location(name), syscall.ENOENT)
	}
	x := &l.items[i]
	if x.Bytes != nil {
		return source.FileOf(tensorfs.Bytes(x.Bytes), l.Location(name), path.Base(name), x.ID.ModTime), nil
	}
	if f := x.local(); f != nil {
		return f, nil
	}
	f, err := l.far(x)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// local opens the copy on this machine. It returns nil if the copy does not exist
// any more, or has another size: then the server is asked.
func (item *Item) local() source.File {
	if item.Local == "" {
		return nil
	}
	m, err := source.Map(item.Local, path.Base(item.Name))
	if err != nil {
		return nil
	}
	if m.Size() != item.ID.Size {
		m.Close()
		return nil
	}
	return m
}

// Keep makes the listing close c when it is closed.
func (l *Listing) Keep(c io.Closer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = append(l.kept, c)
}

// Close closes what the listing keeps. Files that were opened stay open, and more
// can be.
func (l *Listing) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	for _, c := range l.kept {
		errs = append(errs, c.Close())
	}
	l.kept = nil
	return errors.Join(errs...)
}

// ReadDir lists a directory.
func (l *Listing) ReadDir(name string) ([]fs.DirEntry, error) {
	prefix := name + "/"
	if name == "." {
		prefix = ""
	}
	var out []fs.DirEntry
	last := ""
	from, _ := l.indexOf(prefix)
	for i := from; i < len(l.items); i++ {
		rest, ok := strings.CutPrefix(l.items[i].Name, prefix)
		if !ok {
			break
		}
		first, _, isDir := strings.Cut(rest, "/")
		if first == last {
			continue
		}
		last = first
		out = append(out, fs.FileInfoToDirEntry(source.Info{Base: first, Dir: isDir, Bytes: l.items[i].Size(), Time: l.ModTime}))
	}
	if out == nil && name != "." {
		return nil, tensorfs.PathError(l.Location(name), syscall.ENOENT)
	}
	// A directory's name with its slash sorts differently from its name.
	slices.SortFunc(out, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return out, nil
}

var _ source.FS = (*Listing)(nil)
