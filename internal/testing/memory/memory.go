// Package memory is a source of files in memory, for tests of parsers. Its files can only
// be read, like files of a remote server, and it counts calls.
package memory

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/source"
)

// FS maps names, which are paths with slashes, to files.
type FS struct {
	Files map[string][]byte

	Reads  atomic.Int64 // calls of ReadAt
	Bytes  atomic.Int64 // that they returned
	Opens  atomic.Int64
	Closes atomic.Int64
	Lists  atomic.Int64 // calls of ReadDir

	// Opened counts how often each file was opened.
	Opened map[string]int
	// Changed makes all files report that they changed.
	Changed atomic.Bool
}

// New returns an FS of those files.
func New(files map[string][]byte) *FS { return &FS{Files: files, Opened: map[string]int{}} }

// Load returns an FS of the regular files below a directory, links followed.
func Load(dir string) (*FS, error) {
	m := New(map[string][]byte{})
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if st, err := os.Stat(p); err != nil || !st.Mode().IsRegular() {
			return nil
		}
		b, err := os.ReadFile(p)
		rel, rerr := filepath.Rel(dir, p)
		if err == nil {
			err = rerr
		}
		m.Files[filepath.ToSlash(rel)] = b
		return err
	})
	return m, err
}

// Location returns a path that does not exist.
func (m *FS) Location(name string) string { return path.Join("/memory", name) }

// Open is OpenFile for users of package fs.
func (m *FS) Open(name string) (fs.File, error) { return source.Plain(m.OpenFile(name)) }

// OpenFile opens a file.
func (m *FS) OpenFile(name string) (source.File, error) {
	b, ok := m.Files[name]
	if !ok {
		err := error(syscall.ENOENT)
		if _, dir := m.entries(name); dir {
			return nil, tensorfs.NotRegular(m.Location(name), fs.ModeDir)
		}
		return nil, tensorfs.PathError(m.Location(name), err)
	}
	m.Opens.Add(1)
	if m.Opened != nil {
		m.Opened[name]++
	}
	return &file{fs: m, name: name, label: path.Base(name), b: b}, nil
}

// ReadDir lists the files and directories below a name.
func (m *FS) ReadDir(name string) ([]fs.DirEntry, error) {
	m.Lists.Add(1)
	list, ok := m.entries(name)
	if !ok {
		err := error(syscall.ENOENT)
		if _, isFile := m.Files[name]; isFile {
			err = syscall.ENOTDIR
		}
		return nil, tensorfs.PathError(m.Location(name), err)
	}
	return list, nil
}

// entries returns what is in a directory; ok is false if it does not exist.
func (m *FS) entries(name string) (list []fs.DirEntry, ok bool) {
	seen := map[string]bool{}
	for p := range m.Files {
		rest, below := strings.CutPrefix(p, name+"/")
		if name == "." {
			rest, below = p, true
		}
		if !below {
			continue
		}
		first, _, isDir := strings.Cut(rest, "/")
		if !seen[first] {
			seen[first] = true
			list = append(list, fs.FileInfoToDirEntry(source.Info{Base: first, Dir: isDir}))
		}
	}
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return list, len(list) > 0 || name == "."
}

// file is an open file.
type file struct {
	fs          *FS
	name, label string
	b           []byte
}

func (f *file) Size() int64           { return int64(len(f.b)) }
func (f *file) Path() string          { return f.fs.Location(f.name) }
func (f *file) Label() string         { return f.label }
func (f *file) SetLabel(label string) { f.label = label }
func (f *file) ModTime() time.Time    { return time.Unix(1_700_000_000, 0) }

func (f *file) Section(off, n int64) tensorfs.Data { return source.Section(f, off, n) }
func (f *file) Extents() []tensorfs.Extent         { return source.Extents(f) }

func (f *file) ReadAt(p []byte, off int64) (int, error) {
	if err := f.Check(); err != nil {
		return 0, err
	}
	n, err := tensorfs.ClipRange(f.Size(), p, off)
	if n > 0 {
		copy(p[:n], f.b[off:])
	}
	f.fs.Reads.Add(1)
	f.fs.Bytes.Add(int64(n))
	return n, err
}

func (f *file) Check() error {
	if f.fs.Changed.Load() {
		return fmt.Errorf("%s: %w", f.Path(), tensorfs.ErrChanged)
	}
	return nil
}

func (f *file) Close() error {
	f.fs.Closes.Add(1)
	return nil
}

var (
	_ source.FS   = (*FS)(nil)
	_ source.File = (*file)(nil)
)
