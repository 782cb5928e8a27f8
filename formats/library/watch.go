package library

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/tensorfs/tensorfs/internal/source"
)

const (
	// maxDirs bounds the directories that are looked into, and maxNames the names in
	// them: no library has as many, but any directory may be named as one.
	maxDirs  = 50_000
	maxNames = 2_000_000
	// settled is how old an mtime has to be for another change to move it: the clocks
	// of file systems tick up to every two seconds.
	settled = 2 * time.Second
	// maxText bounds the small files that are read.
	maxText = 1 << 16
)

// stamp is what a file or directory is known by: another one after it was replaced
// or written to. The zero stamp means that there is no such file.
type stamp struct {
	dev, ino uint64
	size     int64
	mode     fs.FileMode // of a directory: it may become readable
	modified time.Time
}

// stampOf returns the stamp of what is at a path, links followed.
func stampOf(path string) (stamp, error) {
	st, err := os.Stat(path)
	if err != nil {
		return stamp{}, err
	}
	s := stamp{size: st.Size(), modified: st.ModTime()}
	if st.IsDir() {
		s.mode = st.Mode()
	}
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		s.dev, s.ino = uint64(sys.Dev), uint64(sys.Ino)
	}
	return s, nil
}

// entry is a name in a directory.
type entry struct {
	name string
	kind fs.FileMode // its type: 0 for a regular file
}

func (e entry) isDir() bool { return e.kind == fs.ModeDir }

// isFile reports whether the entry is a file, or a link, which may be one.
func (e entry) isFile() bool { return e.kind == 0 || e.kind == fs.ModeSymlink }

// seen is a directory or a small file that was read.
type seen struct {
	stamp   stamp
	at      time.Time // when it was read
	unsure  bool      // it has a link that leads to no file yet, or could not be read
	foreign bool      // it was skipped
	entries []entry   // of a directory, sorted by name
	text    []byte    // of a file
	err     error
}

// watch reads directories and small files, and remembers them until they change.
type watch struct {
	skip   func(device string) bool // reports the devices to skip
	before map[string]*seen         // when it was looked through last
	now    map[string]*seen
	device string // of the library
	names  int
	full   bool // there was more than may be looked at
}

// moved reports whether anything that was read has changed, and forgets what has.
func (w *watch) moved() bool {
	moved := false
	for path, s := range w.now {
		if s.foreign && w.foreign(path) {
			continue
		}
		if s.unsure || s.foreign || s.at.Sub(s.stamp.modified).Abs() < settled || w.foreign(path) || w.stampOf(path) != s.stamp {
			delete(w.now, path)
			moved = true
		}
	}
	return moved
}

// begin starts another look through.
func (w *watch) begin() {
	w.before, w.now, w.names, w.full = w.now, map[string]*seen{}, 0, false
}

func (w *watch) stampOf(path string) stamp {
	s, _ := stampOf(path) // nothing there is a stamp, too
	return s
}

// foreign reports whether a path is on a device to skip.
func (w *watch) foreign(path string) bool {
	if w.skip == nil {
		return false
	}
	dev, err := device(path)
	return err == nil && dev != w.device && w.skip(dev)
}

// read returns what is known of a path, or what read finds out.
func (w *watch) read(path string, read func(s *seen)) *seen {
	if s := w.now[path]; s != nil {
		return s
	}
	s := w.before[path]
	switch {
	case s != nil:
	case len(w.now) >= maxDirs || w.names >= maxNames:
		w.full = true
		return &seen{}
	case w.foreign(path):
		s = &seen{foreign: true}
	default:
		s = &seen{at: time.Now(), stamp: w.stampOf(path)}
		read(s)
		s.unsure = s.err != nil && !errors.Is(s.err, fs.ErrNotExist) && !errors.Is(s.err, fs.ErrPermission)
	}
	w.now[path] = s
	w.names += len(s.entries)
	return s
}

// dir lists the entries of a directory, or only the ones that matter reports.
func (w *watch) dir(path string, matters func(e entry) bool) ([]entry, error) {
	s := w.read(path, func(s *seen) { s.entries, s.err = readDirectory(path, matters) })
	return s.entries, s.err
}

// readDirectory reads a directory in parts: most of its names may not matter.
func readDirectory(path string, matters func(e entry) bool) ([]entry, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if err := source.CheckConfined(f, path); err != nil {
		return nil, err
	}
	defer f.Close()
	var all []entry
	for range maxNames / 1000 {
		part, err := f.ReadDir(1000)
		for _, d := range part {
			if e := (entry{d.Name(), d.Type()}); matters == nil || matters(e) {
				all = append(all, e)
			}
		}
		if err != nil {
			break // the end
		}
	}
	slices.SortFunc(all, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	return all, nil
}

// text reads a small regular file.
func (w *watch) text(path string) []byte {
	return w.read(path, func(s *seen) { s.text, s.err = readText(path, maxText) }).text
}

// errLongText is the error about a file that is too long for readText.
var errLongText = errors.New("not a small file")

// readText reads a regular file of at most limit bytes. It never waits for a FIFO.
func readText(path string, limit int64) ([]byte, error) {
	b, err := source.ReadRegular(path, limit+1)
	if err == nil && int64(len(b)) > limit {
		return nil, errLongText
	}
	return b, err
}

// regular reports whether an entry of a directory is a regular file, or a link to
// one. A link to nothing may become one without a trace in the directory.
func (w *watch) regular(dir string, e entry) bool {
	if e.kind == 0 {
		return true
	}
	at := filepath.Join(dir, e.name)
	if e.kind != fs.ModeSymlink || w.foreign(at) {
		return false
	}
	if st, err := os.Stat(at); err == nil {
		return st.Mode().IsRegular()
	}
	if s := w.now[dir]; s != nil {
		s.unsure = true
	}
	return false
}
