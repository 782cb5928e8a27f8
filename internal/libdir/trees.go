package libdir

import (
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/library"
	"github.com/tensorfs/tensorfs/views/tree"
)

// Trees has a tree for each model of a library.
type Trees struct {
	Library *library.Library
	Open    func(*library.Model) (*tree.Tree, error)
	Readme  string // the text of README

	mu   sync.Mutex
	list *library.List // that dir shows
	dir  tensorfs.Dir
}

// ReadmeName is the file that tells what a library is.
const ReadmeName = "README"

// Root returns the top directory as it is now.
func (s *Trees) Root() tensorfs.Dir {
	_, dir := s.now()
	return dir
}

// now returns the models of the library, and the directory that shows them.
func (s *Trees) now() (*library.List, tensorfs.Dir) {
	list := s.Library.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if list != s.list {
		s.list, s.dir = list, s.layOut(list)
	}
	return s.list, s.dir
}

// layOut makes the directories of a list.
func (s *Trees) layOut(list *library.List) tensorfs.Dir {
	readme := tensorfs.Entry{Name: ReadmeName, Data: tensorfs.Bytes(s.Readme)}
	var models []tensorfs.Entry
	for _, m := range list.Models {
		models = append(models, tensorfs.Entry{Name: m.Name, Lazy: s.lazy(m)})
	}
	isTaken := func(e tensorfs.Entry) bool { name, _, _ := strings.Cut(e.Name, "/"); return name == readme.Name }
	if !slices.ContainsFunc(models, isTaken) {
		models = append(models, readme)
	}
	return tensorfs.Nest(models, func(e tensorfs.Entries) tensorfs.Dir {
		return tensorfs.Dated{Entries: e, Modified: list.Modified}
	})
}

// lazy returns a model as a tree that is opened when it is needed.
func (s *Trees) lazy(m *library.Model) *tensorfs.Lazy {
	return &tensorfs.Lazy{
		Identity: m.Identity,
		Open: func() (tensorfs.Dir, io.Closer, error) {
			t, err := s.Open(m)
			if err != nil {
				return nil, nil, err
			}
			return t.Root, t.Model, nil
		},
	}
}
