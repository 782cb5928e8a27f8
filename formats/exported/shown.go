package exported

import (
	"errors"
	"io/fs"
	"path"
	"sync"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
	"github.com/tensorfs/tensorfs/internal/source"
)

// exportState is the file of an export that identifies its model, as internal/export names
// it. It is replaced before the first file of another export comes.
const exportState = ".tensorfs-export/state.json"

// shown are the files of the views of a tree.
type shown struct {
	dir   *source.Directory
	state source.File // of an export; nil if missing

	mu    sync.Mutex
	all   jsonobj.Object             // the views of index.json
	names map[string]map[string]bool // of files, by view
}

// show gives a model the files of the tree's views, if they are of this machine.
func (t *tree) show(m *tensorfs.Model, all jsonobj.Object) error {
	d, ok := t.src.(*source.Directory)
	if !ok {
		return nil
	}
	held, err := d.Hold(t.dir)
	if err != nil {
		return err
	}
	s := &shown{dir: held, all: all, names: map[string]map[string]bool{}}
	m.Own(held)
	// It stays open, so that no other file gets its inode.
	if s.state, err = held.OpenFile(exportState); err == nil {
		m.Own(s.state)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	m.Shown = s.find
	return nil
}

// find is [tensorfs.Model.Shown].
func (s *shown) find(view, name string) (tensorfs.ShownFile, bool) {
	at := path.Join(view, name)
	if view+"/"+name != at || !fs.ValidPath(at) {
		return tensorfs.ShownFile{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.names[view] == nil {
		entries, err := s.dir.ReadDir(view)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // opening it reports why
			entries, s.names[view] = nil, map[string]bool{name: true}
		} else {
			s.names[view] = map[string]bool{}
		}
		for _, e := range entries {
			s.names[view][e.Name()] = true
		}
	}
	bytes := nonNegative(s.all.Object(view).Raw(name).Member("bytes"))
	return tensorfs.ShownFile{Path: s.dir.Location(at), Bytes: bytes, Open: func() (tensorfs.File, error) { return s.open(at) }}, s.names[view][name] && bytes >= 0
}

func (s *shown) open(name string) (tensorfs.File, error) {
	f, err := s.dir.OpenFile(name)
	if err == nil && !s.unchanged() {
		f.Close()
		err = &tensorfs.ChangedError{File: s.dir.Location(name), Why: "another export took the place of the one that was opened"}
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

// unchanged reports whether the tree is of the export that was opened. One whose state
// was removed since is.
func (s *shown) unchanged() bool {
	now, err := s.dir.OpenFile(exportState)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	defer now.Close()
	return s.state != nil && inode(now) == inode(s.state)
}

func inode(f source.File) uint64 {
	if s, ok := f.(tensorfs.Stated); ok {
		return s.State().Inode
	}
	return 0
}
