package hf

import (
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs/internal/source"
)

// folder is the directory with a model's files.
type folder struct {
	src     source.FS
	path    string        // in src
	entries []fs.DirEntry // sorted by name
	opened  map[string]source.File
}

// openFolder lists a directory. The caller closes the folder when the model has
// taken its files.
func openFolder(src source.FS, path string) (*folder, error) {
	d := newFolder(src, path)
	var err error
	d.entries, err = src.ReadDir(path)
	return d, err
}

// newFolder returns a directory without listing it.
func newFolder(src source.FS, path string) *folder {
	return &folder{src: src, path: path, opened: map[string]source.File{}}
}

// close closes the files that were opened but not taken.
func (d *folder) close() {
	for _, f := range d.opened {
		f.Close()
	}
	clear(d.opened)
}

// name returns the path of a file of the folder in src.
func (d *folder) name(file string) string { return path.Join(d.path, file) }

// location returns where a file is, for messages.
func (d *folder) location(file string) string { return d.src.Location(d.name(file)) }

// entry returns the entry of a name, nil without one.
func (d *folder) entry(file string) fs.DirEntry {
	i, ok := slices.BinarySearchFunc(d.entries, file, func(e fs.DirEntry, name string) int { return strings.Compare(e.Name(), name) })
	if !ok {
		return nil
	}
	return d.entries[i]
}

// has reports whether a name exists, even as a dangling link.
func (d *folder) has(file string) bool { return d.entry(file) != nil }

// exists reports whether a file exists. A link's target is opened to check this, and kept for take.
func (d *folder) exists(file string) (bool, error) {
	e := d.entry(file)
	if e == nil || e.Type()&fs.ModeSymlink == 0 || d.opened[file] != nil {
		return e != nil, nil
	}
	f, err := d.src.OpenFile(d.name(file))
	if err != nil {
		return false, err
	}
	d.opened[file] = f
	return true, nil
}

// take opens a file. The caller closes it.
func (d *folder) take(file string) (source.File, error) {
	if f := d.opened[file]; f != nil {
		delete(d.opened, file)
		return f, nil
	}
	return d.src.OpenFile(d.name(file))
}
