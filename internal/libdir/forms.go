package libdir

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/library"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/views/tree"
)

// Forms has the files of models as a program wants to find them.
type Forms struct {
	Form      string // one of library.Forms
	Libraries []*library.Library
	Open      func(*library.Model) (*tree.Tree, error)
	Tower     func(*tensorfs.Model) (file tensorfs.Data, note string, err error) // returns the vision tower of a GGUF model
	Rewrites  bool                                                               // files of models are not shown as they are stored

	seen library.Seen

	mu     sync.Mutex
	lists  []*library.List // that dir shows
	models []library.Placed
	dir    tensorfs.Dir
	failed map[string]string // why models could not be opened, by their calls; may be nil
	about  tensorfs.Data     // tensorfs.json, nil after something changed
}

// Warnings returns what is wrong with the libraries.
func (s *Forms) Warnings() (all []string) {
	for _, l := range s.Libraries {
		all = append(all, l.Now().Warnings...)
	}
	return all
}

// AboutName is the file that lists the models of Forms, or the names that were looked up.
const AboutName = "tensorfs.json"

// Root returns the top directory as it is now.
func (s *Forms) Root() tensorfs.Dir {
	var now []*library.List
	for _, l := range s.Libraries {
		now = append(now, l.Now())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(now, s.lists) {
		s.lists, s.models, s.about = now, library.Place(s.Form, s.Libraries, &s.seen), nil
		s.dir = nil
	}
	if s.about == nil {
		s.about, s.dir = s.describe(), nil
	}
	if s.dir == nil {
		s.dir = s.layOut()
	}
	return s.dir
}

// layOut makes the directories. mu is held.
func (s *Forms) layOut() tensorfs.Dir {
	var modified time.Time
	for _, l := range s.lists {
		if l.Modified.After(modified) {
			modified = l.Modified
		}
	}
	entries := []tensorfs.Entry{{Name: AboutName, Data: s.about}}
	for i := range s.models {
		m := &s.models[i]
		switch {
		case m.Reason != "":
		case slices.Contains(library.Directories, s.Form):
			entries = append(entries, tensorfs.Entry{Name: m.At, Lazy: s.lazy(m, "", func(t *tree.Tree) (tensorfs.Dir, error) { return wholeDir(t, s.Form) })})
		default:
			file := s.lazy(m, m.At, func(t *tree.Tree) (tensorfs.Dir, error) { return directoryOfFile(m.At, t, languageOf) })
			file.File, file.Bytes = true, s.sizeOf(m.Model)
			entries = append(entries, tensorfs.Entry{Name: m.At, Lazy: file})
			if m.Tower != "" {
				file := s.lazy(m, m.Tower, func(t *tree.Tree) (tensorfs.Dir, error) { return directoryOfFile(m.Tower, t, s.towerOf) })
				file.File = true
				entries = append(entries, tensorfs.Entry{Name: m.Tower, Lazy: file})
			}
		}
	}
	return tensorfs.Nest(entries, func(e tensorfs.Entries) tensorfs.Dir { return tensorfs.Dated{Entries: e, Modified: modified} })
}

// lazy opens a model on first access, and remembers why it cannot be opened.
func (s *Forms) lazy(m *library.Placed, what string, show func(*tree.Tree) (tensorfs.Dir, error)) *tensorfs.Lazy {
	return &tensorfs.Lazy{
		Identity: m.Identity,
		Open: func() (tensorfs.Dir, io.Closer, error) {
			t, err := s.Open(m.Model)
			if err != nil {
				s.note(m.Call, what, err)
				return nil, nil, err
			}
			dir, err := show(t)
			if s.note(m.Call, what, err); err != nil {
				return nil, nil, errors.Join(err, t.Model.Close())
			}
			return dir, t.Model, nil
		},
	}
}

// note remembers why a file of a model is not to be had, or that it is.
func (s *Forms) note(call, what string, err error) {
	why := ""
	if err != nil {
		why = tensorfs.OneLine(err.Error())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if key := call + "\x00" + what; s.failed[key] != why {
		if s.failed == nil {
			s.failed = map[string]string{}
		}
		s.failed[key], s.about = why, nil
	}
}

// sizeOf returns the size of a model's file if it is one GGUF file that is shown unchanged;
// otherwise nil.
func (s *Forms) sizeOf(m *library.Model) func() (int64, bool) {
	if s.Rewrites {
		return nil
	}
	return m.StoredBytes
}

// describe makes tensorfs.json. mu is held.
func (s *Forms) describe() tensorfs.Data {
	type model struct {
		Path      string `json:"path,omitempty"` // below the mount point
		Model     string `json:"model"`          // as other commands take it
		Available bool   `json:"available"`
		Reason    string `json:"reason,omitempty"`
	}
	models := []model{}
	for i := range s.models {
		m := &s.models[i]
		x := model{Path: m.At, Model: m.Call, Reason: m.Reason}
		for _, what := range []string{"", m.At, m.Tower} {
			if why := s.failed[m.Call+"\x00"+what]; why != "" && x.Reason == "" {
				x.Reason = why
			}
		}
		if m.Reason != "" {
			x.Path = ""
		}
		x.Available = x.Reason == ""
		models = append(models, x)
	}
	text, err := json.MarshalIndent(struct {
		As     string  `json:"as"`
		Models []model `json:"models"`
	}{s.Form, models}, "", "  ")
	if err != nil { // strings and bools cannot fail
		panic(err)
	}
	return tensorfs.Bytes(append(text, '\n'))
}

// directoryOfFile returns the directory of a single file.
func directoryOfFile(at string, t *tree.Tree, find func(*tree.Tree) (tensorfs.Data, error)) (tensorfs.Dir, error) {
	d, err := find(t)
	if err != nil {
		return nil, err
	}
	return tensorfs.Entries{{Name: path.Base(at), Data: d}}, nil
}

// languageOf is gguf/model.gguf.
func languageOf(t *tree.Tree) (tensorfs.Data, error) { return fileOf(t, convert.LanguageFile) }

func fileOf(t *tree.Tree, name string) (tensorfs.Data, error) {
	f, err := t.WholeModel("gguf")
	if err != nil {
		return nil, err
	}
	for _, x := range f.List {
		if x.Path == name {
			return x.Data, nil
		}
	}
	return nil, fmt.Errorf("gguf/ has no %s", name)
}

// towerOf is the file of a model's vision tower.
func (s *Forms) towerOf(t *tree.Tree) (tensorfs.Data, error) {
	if t.Model.Layout != "gguf" {
		return fileOf(t, convert.TowerFile)
	}
	d, note, err := s.Tower(t.Model)
	if err == nil && d == nil {
		err = errors.New(cmp.Or(note, "it has no vision tower"))
	}
	return d, err
}

// wholeDir is a directory of whole models.
func wholeDir(t *tree.Tree, kind string) (tensorfs.Dir, error) {
	f, err := t.WholeModel(kind)
	if err != nil {
		return nil, err
	}
	var list []tensorfs.Entry
	for _, x := range f.List {
		list = append(list, tensorfs.Entry{Name: x.Path, Data: x.Data})
	}
	return tensorfs.Nest(list, nil), nil
}
