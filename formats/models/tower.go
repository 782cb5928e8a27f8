package models

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/ollama"
	"github.com/tensorfs/tensorfs/formats/pick"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/source"
)

// NoTower is the value of Mmproj that leaves the vision tower out.
const NoTower = "none"

// towers finds the vision tower of a model when it is needed, and closes it with the model.
type towers struct {
	options *Options
	listed  bool // the model is one of a library
	mu      sync.Mutex
	opened  []*tensorfs.Model
	closed  bool
}

// openTower opens the vision tower of a model, which stays t's.
func (t *towers) openTower(m *tensorfs.Model) (tower *tensorfs.Model, note string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, "", fs.ErrClosed
	}
	if file := t.options.Mmproj; t.listed && file != "" && file != NoTower {
		return nil, "", fmt.Errorf("--mmproj %s is for a single model, and this is one of several", file)
	}
	tower, note, err = t.options.tower(m)
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

// tower opens the file that Mmproj names, or else the one in the folder of the model. It returns
// nil without one.
func (o *Options) tower(m *tensorfs.Model) (tower *tensorfs.Model, note string, err error) {
	keepInside := o.Files.KeepInside
	switch file := o.Mmproj; file {
	case NoTower:
		return nil, "", convert.ErrNoTower
	case "":
		return towerBeside(m, keepInside)
	default:
		tower, err = formats.Options{KeepInside: keepInside}.Open(file)
		return tower, tensorfs.Printable(filepath.Base(file)) + " (--mmproj)", err
	}
}

// Tower opens the vision tower that hf/ of a GGUF model has, a file of its own. The caller closes
// it. It is nil without one.
func (c *Checked) Tower(m *tensorfs.Model) (*tensorfs.Model, error) {
	tower, _, err := c.options.tower(m)
	return tower, err
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

// TowerFile returns the file of the vision tower that a model in GGUF's layout has, or that is in
// the same folder, which the model owns. It is nil without one; the note is then about one that
// belongs to another model.
func (c *Checked) TowerFile(m *tensorfs.Model) (_ tensorfs.Data, note string, err error) {
	if d, err := m.File(ollama.Projector); err == nil && m.Format == "ollama" && c.options.Mmproj == "" {
		return d, "", nil
	}
	t := &towers{options: &c.options}
	m.Own(t)
	tower, _, err := t.openTower(m)
	switch {
	case errors.Is(err, convert.ErrNoTower):
		return nil, "", nil
	case err != nil || tower == nil:
		return nil, "", err
	case c.options.Mmproj == "" && !towerFits(m, tower):
		return nil, fmt.Sprintf("without %s, whose width is not the model's (--mmproj takes it all the same)", tensorfs.Printable(filepath.Base(tower.Path))), nil
	}
	d, err := tower.File(tower.Sources[0].Name)
	return d, "", err
}

// towerFits reports whether a vision tower found beside a model may be the model's: its
// output is as wide as the embeddings.
func towerFits(m, tower *tensorfs.Model) bool {
	width := int64(-1)
	for _, meta := range m.Metadata {
		if n, ok := meta.Value.(uint32); ok && strings.HasSuffix(meta.Key, ".embedding_length") {
			width = int64(n)
			break
		}
	}
	for _, meta := range tower.Metadata {
		if n, ok := meta.Value.(uint32); ok && strings.HasSuffix(meta.Key, ".projection_dim") && int64(n) == width {
			return true
		}
	}
	return slices.ContainsFunc(tower.Tensors, func(t tensorfs.Tensor) bool { // old files say another width
		return (strings.HasPrefix(t.Source, "mm.") || strings.HasPrefix(t.Source, "resampler.")) && slices.Contains(t.Shape, width)
	})
}
