package merged

import (
	"cmp"
	"io/fs"
	"slices"
	"syscall"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/source"
)

// directory is a directory of files that are not on a disk, as a source.
type directory struct {
	at    string // for messages; no path
	files map[string]tensorfs.Data
	time  time.Time
}

func directoryOf(at string, list []convert.File, when time.Time) directory {
	d := directory{at, map[string]tensorfs.Data{}, when}
	for _, f := range list {
		d.files[f.Path] = f.Data
	}
	return d
}

// Location is where a file is, for messages: it has no path.
func (d directory) Location(name string) string {
	if name == "." {
		return d.at
	}
	return d.at + ": " + name
}

// OpenFile opens a file.
func (d directory) OpenFile(name string) (source.File, error) {
	data, ok := d.files[name]
	if !ok {
		return nil, tensorfs.PathError(d.Location(name), syscall.ENOENT)
	}
	return source.FileOf(shared{data}, d.Location(name), name, d.time), nil
}

// Open is OpenFile for users of package fs.
func (d directory) Open(name string) (fs.File, error) { return source.Plain(d.OpenFile(name)) }

// ReadDir lists the files. There are no directories in it: what is in one belongs to no merge.
func (d directory) ReadDir(name string) ([]fs.DirEntry, error) {
	if name != "." {
		return nil, tensorfs.PathError(d.Location(name), syscall.ENOENT)
	}
	var list []fs.DirEntry
	for name, data := range d.files {
		list = append(list, fs.FileInfoToDirEntry(source.Info{Base: name, Bytes: data.Size(), Time: d.time}))
	}
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	return list, nil
}

// shared is data that a file does not close: it belongs to one of the models.
type shared struct{ tensorfs.Data }

// Check asks the data whether it can still be read.
func (s shared) Check() error { return tensorfs.Check(s.Data) }

// CheckPart is Check for some of the bytes.
func (s shared) CheckPart(off, n int64) error { return tensorfs.CheckPart(s.Data, off, n) }
