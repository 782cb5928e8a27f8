package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/ollama"
	"github.com/tensorfs/tensorfs/formats/pick"
	"github.com/tensorfs/tensorfs/internal/source"
	"github.com/tensorfs/tensorfs/views/tree"
	"github.com/tensorfs/tensorfs/views/tree/whole"
)

// noTower is the value of --mmproj that takes no file.
const noTower = "none"

// towers finds the vision tower of a model when somebody looks for it, and closes it with
// the model.
type towers struct {
	flags  *modelFlags
	listed bool // the model is one of a library
	mu     sync.Mutex
	opened []*tensorfs.Model
	closed bool
}

// withTower returns the options of a model's tree, which find its vision tower.
func (f *modelFlags) withTower(m *tensorfs.Model, listed bool) (opts tree.Options) {
	opts = f.tree
	if m.Layout != "gguf" {
		return opts
	}
	t := &towers{flags: f, listed: listed}
	m.Own(t)
	opts.Whole.Projector = t.find
	return opts
}

// find opens the file that --mmproj names, or else the one in the folder of the model.
func (t *towers) find(m *tensorfs.Model) (tower *tensorfs.Model, note string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, "", fs.ErrClosed
	}
	keepInside := bool(t.flags.links())
	switch file := t.flags.mmproj; {
	case file == noTower:
		return nil, "", whole.ErrNoTower
	case file != "" && t.listed:
		return nil, "", fmt.Errorf("--mmproj %s is for a single model, and this is one of several", file)
	case file != "":
		tower, err = formats.Options{KeepInside: keepInside}.Open(file)
		note = tensorfs.Printable(filepath.Base(file)) + " (--mmproj)"
	default:
		tower, note, err = towerBeside(m, keepInside)
	}
	if tower != nil {
		t.opened = append(t.opened, tower)
	}
	return tower, note, err
}

// Close closes what was opened.
func (t *towers) Close() (err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, m := range t.opened {
		if e := m.Close(); err == nil {
			err = e
		}
	}
	t.opened, t.closed = nil, true
	return err
}

// towerBeside opens the vision tower in the folder of a GGUF model, of this machine or of a
// server whose files are known; nil without one.
func towerBeside(m *tensorfs.Model, keepInside bool) (tower *tensorfs.Model, note string, err error) {
	if m.Format != "gguf" || len(m.Sources) == 0 {
		return nil, "", nil
	}
	files, folder, own := m.Server, ".", ""
	switch at := m.Sources[0].Path; {
	case files != nil:
		rel, ok := strings.CutPrefix(at, source.Of(files).Location(".")+"/")
		if !ok {
			return nil, "", nil
		}
		folder, own = path.Dir(rel), path.Base(rel)
	case m.Sources[0].Local():
		dir, err := source.Dir(filepath.Dir(at), source.Links(keepInside))
		if err != nil {
			return nil, "", err
		}
		defer dir.Close()
		files, own = dir, filepath.Base(at)
		if keepInside && !holdsFile(dir, own, m) {
			return nil, "", nil
		}
	default:
		return nil, "", nil
	}
	entries, err := fs.ReadDir(files, folder)
	if err != nil {
		return nil, "", err
	}
	var names []string
	for _, e := range entries {
		if !e.IsDir() && e.Name() != own {
			names = append(names, e.Name())
		}
	}
	name, err := pick.Projector(names)
	if err != nil {
		return nil, "", fmt.Errorf("%w; name one with --mmproj FILE", err)
	}
	if name == "" {
		return nil, "", nil
	}
	tower, err = formats.OpenFS(files, path.Join(folder, name))
	return tower, tensorfs.Printable(name) + ", which is in the same folder (--mmproj none leaves it out)", err
}

// holdsFile reports whether a directory that was found by the path of a model's first file has
// that very file. A path is a label: who may write to the model's directory may have made it
// lead elsewhere.
func holdsFile(dir *source.Directory, name string, m *tensorfs.Model) bool {
	first, err := m.File(m.Sources[0].Name)
	if err != nil {
		return false
	}
	f, err := dir.OpenFile(name)
	if err != nil {
		return false
	}
	defer f.Close()
	return source.Same(first, f)
}

// towerData returns the file of the vision tower that a model in GGUF's layout has, or that
// stands beside it, which the model owns; nil without one, and then perhaps a note about one
// that belongs to another model.
func (f *modelFlags) towerData(m *tensorfs.Model) (_ tensorfs.Data, note string, err error) {
	if d, err := m.File(ollama.Projector); err == nil && m.Format == "ollama" && f.mmproj == "" {
		return d, "", nil
	}
	t := &towers{flags: f}
	m.Own(t)
	tower, _, err := t.find(m)
	switch {
	case errors.Is(err, whole.ErrNoTower):
		return nil, "", nil
	case err != nil || tower == nil:
		return nil, "", err
	case f.mmproj == "" && !towerFits(m, tower):
		return nil, fmt.Sprintf("without %s, whose width is not the model's (--mmproj takes it all the same)", tensorfs.Printable(filepath.Base(tower.Path))), nil
	}
	d, err := tower.File(tower.Sources[0].Name)
	return d, "", err
}
