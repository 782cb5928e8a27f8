package tensorfs

import (
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"
)

// Entry is one name in a directory: exactly one of Data, Dir, Link and Lazy is set.
type Entry struct {
	Name  string
	Data  Data          // a regular file
	Dir   Dir           // a directory
	Link  string        // a symbolic link's target
	Lazy  *Lazy         // a tree that is opened when it is needed; in libraries only
	Attrs func() []Attr // extended attributes of the file; may be nil
}

// Attr is an extended attribute.
type Attr struct {
	Name  string // with its namespace: user.tensorfs.dtype
	Value []byte
}

// Dir is a directory that never changes: entries sorted by name, by index. It
// may build an Entry on demand, so a large directory costs no memory per file.
// Implementations are safe for concurrent use.
type Dir interface {
	Len() int
	Entry(i int) Entry
}

// Files is a Dir of only regular files that knows a name without making the
// Entry, so that a large directory is mounted and searched quickly.
type Files interface {
	Dir
	Name(i int) string
}

// Entries is a Dir in memory. [Lookup], [Find] and [Walk] want it sorted by name;
// package fs sorts what it mounts.
type Entries []Entry

// Len returns the number of entries.
func (e Entries) Len() int { return len(e) }

// Entry returns entry i.
func (e Entries) Entry(i int) Entry { return e[i] }

// Nest turns entries whose names are paths with slashes into nested directories, sorted by
// name. dir makes a directory of its entries; nil means [Entries].
func Nest(list []Entry, dir func(Entries) Dir) Dir {
	var out Entries
	below := map[string][]Entry{}
	for _, e := range list {
		name, rest, nested := strings.Cut(e.Name, "/")
		if !nested {
			out = append(out, e)
			continue
		}
		e.Name = rest
		below[name] = append(below[name], e)
	}
	for name, list := range below {
		out = append(out, Entry{Name: name, Dir: Nest(list, dir)})
	}
	slices.SortFunc(out, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	if dir == nil {
		return out
	}
	return dir(out)
}

// Lookup finds a name by binary search.
func Lookup(d Dir, name string) (int, bool) {
	at := func(i int) string { return d.Entry(i).Name }
	if f, ok := d.(Files); ok {
		at = f.Name
	}
	i := sort.Search(d.Len(), func(i int) bool { return at(i) >= name })
	return i, i < d.Len() && at(i) == name
}

// Dated are Entries with the time of their last change.
type Dated struct {
	Entries
	Modified time.Time
}

// ModTime returns the time of the last change.
func (d Dated) ModTime() time.Time { return d.Modified }

// WithEntry returns a directory of [Dated] ones with an entry at a path in it. d may be nil. The
// directories that change get a time, unless theirs is later.
func WithEntry(d Dir, at string, e Entry, modified time.Time) Dir {
	old, _ := d.(Dated)
	name, rest, nested := strings.Cut(at, "/")
	i, found := Lookup(old.Entries, name)
	if nested {
		var below Dir
		if found {
			below = old.Entries[i].Dir
		}
		e = Entry{Dir: WithEntry(below, rest, e, modified)}
	}
	e.Name = name
	if old.Modified.After(modified) {
		modified = old.Modified
	}
	if found {
		list := slices.Clone(old.Entries)
		list[i] = e
		return Dated{list, modified}
	}
	return Dated{slices.Insert(slices.Clone(old.Entries), i, e), modified}
}

// Find returns the entry at a path with slashes, below d.
func Find(d Dir, path string) (Entry, error) {
	e := Entry{Dir: d}
	for name := range strings.SplitSeq(path, "/") {
		if e.Dir == nil {
			return Entry{}, fmt.Errorf("%s: %w", Printable(path), fs.ErrNotExist)
		}
		i, ok := Lookup(e.Dir, name)
		if !ok {
			return Entry{}, fmt.Errorf("%s: %w", Printable(path), fs.ErrNotExist)
		}
		e = e.Dir.Entry(i)
	}
	return e, nil
}

// Walk calls fn for every entry below d, directories before their contents, in
// the order of the names. Where fn returns [fs.SkipDir] for a directory, what is
// below it is left out and not even made.
func Walk(d Dir, fn func(path string, e Entry) error) error { return walk(d, "", fn) }

func walk(d Dir, prefix string, fn func(path string, e Entry) error) error {
	for i := range d.Len() {
		e := d.Entry(i)
		switch err := fn(prefix+e.Name, e); {
		case err == fs.SkipDir && e.Dir != nil:
			continue
		case err != nil:
			return err
		}
		if e.Dir != nil {
			if err := walk(e.Dir, prefix+e.Name+"/", fn); err != nil {
				return err
			}
		}
	}
	return nil
}

// Later is a directory that is made when it is first read, because making it takes time.
// Mounting the tree and listing the parent directory do not make it.
type Later struct {
	build func() Dir
	mu    sync.Mutex
	made  Dir
}

// NewLater returns a directory that build makes, once.
func NewLater(build func() Dir) *Later { return &Later{build: build} }

// Made returns the directory, and makes it on the first call.
func (l *Later) Made() Dir {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.made == nil {
		l.made = l.build()
	}
	return l.made
}

// Len returns the number of entries.
func (l *Later) Len() int { return l.Made().Len() }

// Entry returns entry i.
func (l *Later) Entry(i int) Entry { return l.Made().Entry(i) }

// Lazy is a tree that is opened when it is first read. It may be closed and opened again as
// often as needed while its Identity is the same; opening it must then return the same
// tree.
type Lazy struct {
	// Identity returns a text that is another one after the tree has changed, and when
	// it changed last. It opens nothing. An error means that the tree is gone.
	Identity func() (id string, modified time.Time, err error)
	// Open opens the tree. Nothing of it is used after the Closer was called.
	Open func() (Dir, io.Closer, error)
	// File reports that the tree is shown as a single file. The tree is then a directory
	// with only that file in it. Opening it may take as long as opening a tree.
	File bool
	// Bytes returns the size of the File if it is known without opening it. If Bytes is nil
	// or returns false, the file is opened when its size is first asked for.
	Bytes func() (int64, bool)
}
