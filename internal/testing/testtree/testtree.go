// Package testtree writes directories that look like a mounted model, for tests
// of its clients: index.json, source/ with links to the model's files, and a
// file for every tensor of every view.
package testtree

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Tree is a tree to be written.
type Tree struct {
	Sources map[string][]byte // files of the model, by their name below source/
	Tensors []Tensor
	Absent  map[string]map[string]string // view, name, reason
}

// Tensor is one file of one view.
type Tensor struct {
	View, Name string
	DType      string
	Shape      []int64
	Data       []byte // not needed where Extents say where the bytes are
	Extents    []Extent
	Sections   []Section
	Quant      *Quant
	Engine     *int
	Module     *Module // of codes in raw/
}

// Module locates the rest of a quantised module.
type Module struct {
	Weight string  `json:"weight"`
	Shape  []int64 `json:"shape"`
	Scales string  `json:"scales"`
	Biases string  `json:"biases"`
}

// Extent is a run of bytes in a file of the model.
type Extent struct {
	File   string `json:"file"`
	Offset int64  `json:"offset"`
	Bytes  int64  `json:"bytes"`
}

// Section is a part of a tensor's bytes.
type Section struct {
	Name   string `json:"name"`
	DType  string `json:"dtype"`
	Offset int64  `json:"offset"`
	Bytes  int64  `json:"bytes"`
}

// Quant describes how a tensor is quantised.
type Quant struct {
	Mode      string `json:"mode"`
	Bits      int    `json:"bits"`
	GroupSize int    `json:"group_size"`
}

type entry struct {
	DType      string    `json:"dtype"`
	Shape      []int64   `json:"shape"`
	Bytes      int64     `json:"bytes"`
	SourceName string    `json:"source_name"`
	Extents    []Extent  `json:"extents,omitempty"`
	Quant      *Quant    `json:"quant,omitempty"`
	Sections   []Section `json:"sections,omitempty"`
	Engine     *int      `json:"engine_dtype,omitempty"`
	Module     *Module   `json:"module,omitempty"`
}

// Bytes returns the tensor's bytes.
func (tree *Tree) Bytes(t Tensor) []byte {
	if t.Data != nil || len(t.Extents) == 0 {
		return t.Data
	}
	var b []byte
	for _, x := range t.Extents {
		b = append(b, tree.Sources[x.File][x.Offset:x.Offset+x.Bytes]...)
	}
	return b
}

// Write writes the tree into temporary directories and returns the directory that replaces
// the mount point and the one that holds the model's files.
func (tree *Tree) Write(tb testing.TB) (mount, model string) {
	tb.Helper()
	mount, model = tb.TempDir(), tb.TempDir()
	if err := tree.WriteTo(mount, model); err != nil {
		tb.Fatal(err)
	}
	return mount, model
}

// facts returns a tree's description of its model.
func (tree *Tree) facts(model string) (map[string]any, error) {
	files := []map[string]any{}
	for name := range tree.Sources {
		var st unix.Stat_t
		if err := unix.Stat(filepath.Join(model, name), &st); err != nil {
			return nil, err
		}
		files = append(files, map[string]any{"name": name, "bytes": st.Size, "inode": st.Ino, "mtime_ns": st.Mtim.Nano(), "ctime_ns": st.Ctim.Nano()})
	}
	return map[string]any{"format": "gguf", "path": model, "architecture": "llama", "layout": "gguf", "files": files}, nil
}

// entries returns index.json's entries of the tensors, by view and name.
func (tree *Tree) entries() map[string]map[string]entry {
	views := map[string]map[string]entry{}
	for _, t := range tree.Tensors {
		if views[t.View] == nil {
			views[t.View] = map[string]entry{}
		}
		shape := t.Shape
		if shape == nil {
			shape = []int64{}
		}
		views[t.View][t.Name] = entry{t.DType, shape, int64(len(tree.Bytes(t))), "source of " + t.Name, t.Extents, t.Quant, t.Sections, t.Engine, t.Module}
	}
	return views
}

// WriteTo is Write into directories that exist.
func (tree *Tree) WriteTo(mount, model string) error {
	// A mount's files carry the mtime of the model, which is older than now.
	then := time.Now().Add(-time.Hour).Truncate(time.Second)
	put := func(path string, b []byte) error {
		return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, b, 0o644), os.Chtimes(path, then, then))
	}
	for name, b := range tree.Sources {
		path, link := filepath.Join(model, name), filepath.Join(mount, "source", name)
		if err := errors.Join(put(path, b), os.MkdirAll(filepath.Dir(link), 0o755), os.Symlink(path, link)); err != nil {
			return err
		}
	}
	for _, t := range tree.Tensors {
		if err := put(filepath.Join(mount, t.View, t.Name), tree.Bytes(t)); err != nil {
			return err
		}
	}
	facts, err := tree.facts(model)
	if err != nil {
		return err
	}
	absent := tree.Absent
	if absent == nil {
		absent = map[string]map[string]string{}
	}
	text, err := json.Marshal(map[string]any{
		"version": 1,
		"model":   facts,
		"views":   tree.entries(),
		"absent":  absent,
	})
	if err != nil {
		return err
	}
	return errors.Join(
		put(filepath.Join(mount, "index.json"), text),
		put(filepath.Join(mount, "config.json"), []byte(`{"architecture": "llama", "dim": 64}`)),
		put(filepath.Join(mount, "metadata.json"), []byte(`{"general.name": "sample", "list": [1, 2.5, "x"], "big": 18446744073709551615, "yes": true}`)))
}
