package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/library"
	"github.com/tensorfs/tensorfs/fs"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/mounts"
	"github.com/tensorfs/tensorfs/internal/server"
	"github.com/tensorfs/tensorfs/views/tree"
)

// openAs looks through libraries that are to be shown in the form of --as.
func (o *mountOptions) openAs(names []string, mountpoint string) (*server.Content, error) {
	if err := o.modelFlags.check(); err != nil { // no model is opened here
		return nil, err
	}
	switch {
	case o.spec.Backend != mounts.BackendFUSE:
		return nil, cli.UsageError{Err: errors.New("over NFS only a single model is served, and --as shows libraries; --backend fuse mounts them")}
	case len(o.LoRA) > 0:
		return nil, errManyAdapted
	case o.warm != "":
		return nil, cli.UsageError{Err: errors.New("--warm is for one model, and --as shows libraries")}
	}
	s := &stock{form: o.library.as, flags: &o.modelFlags, failed: map[string]string{}}
	var modified time.Time
	for _, name := range names {
		l, err := library.Open(name, library.Options{Skip: isOurs, Missing: true})
		if err != nil {
			return nil, err
		}
		for _, place := range l.Places {
			if inside(place, mountpoint) {
				return nil, fmt.Errorf("%s is inside %s, a library that is to be mounted there; choose another directory", tensorfs.Printable(mountpoint), tensorfs.Printable(place))
			}
		}
		if l.Now().Modified.After(modified) {
			modified = l.Now().Modified
		}
		s.libraries = append(s.libraries, l)
	}
	return &server.Content{
		Library:  &fs.Library{Root: s.root, Idle: o.library.idle, MaxOpen: o.library.maxOpen},
		Options:  fs.Options{FsName: strings.Join(names, ","), ModTime: modified},
		Warnings: s.warnings,
		Close:    func() error { return nil },
	}, nil
}

// stock lays out libraries as a program wants to find models.
type stock struct {
	form      string
	libraries []*library.Library
	flags     *modelFlags
	seen      library.Seen

	mu     sync.Mutex
	lists  []*library.List // that dir shows
	models []library.Placed
	dir    tensorfs.Dir
	failed map[string]string // why models could not be opened, by their calls
	about  tensorfs.Data     // tensorfs.json, nil after something changed
}

func (s *stock) warnings() (all []string) {
	for _, l := range s.libraries {
		all = append(all, l.Now().Warnings...)
	}
	return all
}

// aboutName is the file that lists the models.
const aboutName = "tensorfs.json"

// root returns the top directory as it is now.
func (s *stock) root() tensorfs.Dir {
	var now []*library.List
	for _, l := range s.libraries {
		now = append(now, l.Now())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(now, s.lists) {
		s.lists, s.models, s.about = now, library.Place(s.form, s.libraries, &s.seen), nil
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
func (s *stock) layOut() tensorfs.Dir {
	var modified time.Time
	for _, l := range s.lists {
		if l.Modified.After(modified) {
			modified = l.Modified
		}
	}
	entries := []tensorfs.Entry{{Name: aboutName, Data: s.about}}
	for i := range s.models {
		m := &s.models[i]
		switch {
		case m.Reason != "":
		case slices.Contains(library.Directories, s.form):
			entries = append(entries, tensorfs.Entry{Name: m.At, Lazy: s.lazy(m, "", func(t *tree.Tree) (tensorfs.Dir, error) { return wholeDir(t, s.form) })})
		default:
			file := s.lazy(m, m.At, func(t *tree.Tree) (tensorfs.Dir, error) { return directoryOfFile(m.At, t, languageOf) })
			file.File, file.Bytes = true, s.sizeOf(m.Model)
			entries = append(entries, tensorfs.Entry{Name: m.At, Lazy: file})
			if m.Tower != "" {
				file := s.lazy(m, m.Tower, func(t *tree.Tree) (tensorfs.Dir, error) { return directoryOfFile(m.Tower, t, s.flags.towerOf) })
				file.File = true
				entries = append(entries, tensorfs.Entry{Name: m.Tower, Lazy: file})
			}
		}
	}
	return tensorfs.Nest(entries, func(e tensorfs.Entries) tensorfs.Dir { return shelf{e, modified} })
}

// lazy opens a model on first access, and remembers why it cannot be opened.
func (s *stock) lazy(m *library.Placed, what string, show func(*tree.Tree) (tensorfs.Dir, error)) *tensorfs.Lazy {
	return &tensorfs.Lazy{
		Identity: m.Identity,
		Open: func() (tensorfs.Dir, io.Closer, error) {
			t, err := s.flags.openListed(m.Model)
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
func (s *stock) note(call, what string, err error) {
	why := ""
	if err != nil {
		why = tensorfs.OneLine(err.Error())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if key := call + "\x00" + what; s.failed[key] != why {
		s.failed[key], s.about = why, nil
	}
}

// sizeOf returns the size of a model's file if it is one GGUF file that is shown unchanged;
// otherwise nil.
func (s *stock) sizeOf(m *library.Model) func() (int64, bool) {
	if s.flags.checked.Tree.Whole.Rewrites() {
		return nil
	}
	return m.StoredBytes
}

// describe makes tensorfs.json. mu is held.
func (s *stock) describe() tensorfs.Data {
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
	}{s.form, models}, "", "  ")
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

// wholeFiles are the files of a directory of whole models.
func wholeFiles(t *tree.Tree, kind string) (*convert.Files, error) {
	switch f := t.WholeFiles(kind); {
	case f == nil:
		return nil, errors.New("there is no " + kind + "/")
	case f.Reason != "":
		return nil, errors.New(kind + "/ has no files: " + tensorfs.OneLine(f.Reason))
	default:
		return f, nil
	}
}

// languageOf is gguf/model.gguf.
func languageOf(t *tree.Tree) (tensorfs.Data, error) { return fileOf(t, languageFile) }

func fileOf(t *tree.Tree, name string) (tensorfs.Data, error) {
	f, err := wholeFiles(t, "gguf")
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
func (f *modelFlags) towerOf(t *tree.Tree) (tensorfs.Data, error) {
	if t.Model.Layout != "gguf" {
		return fileOf(t, towerFile)
	}
	d, note, err := f.checked.TowerFile(t.Model)
	if err == nil && d == nil {
		err = errors.New(cmp.Or(note, "it has no vision tower"))
	}
	return d, err
}

// wholeDir is a directory of whole models.
func wholeDir(t *tree.Tree, kind string) (tensorfs.Dir, error) {
	f, err := wholeFiles(t, kind)
	if err != nil {
		return nil, err
	}
	var list []tensorfs.Entry
	for _, x := range f.List {
		list = append(list, tensorfs.Entry{Name: x.Path, Data: x.Data})
	}
	return tensorfs.Nest(list, nil), nil
}
