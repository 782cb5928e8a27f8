package tree

import (
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/near"
)

// maxNear is how many near paths are offered.
const maxNear = 3

// Near returns paths of the tree that may be meant by one that is not there. A
// tensor's name in the source, or its canonical name without a view, gives its
// file in that view, or in every view that has it; anything else gives the up to
// three paths that differ least where the path first leaves the tree.
func (t *Tree) Near(path string) []string {
	view, name, below := strings.Cut(path, "/")
	if !t.isView(view) {
		view, name = "", path
	}
	if paths := t.files(view, name); len(paths) > 0 {
		return paths
	}
	if paths := nearBelow(t.Root, "", path); len(paths) > 0 || below && view != "" {
		return paths
	}
	if paths := t.filesOfWhole(path); len(paths) > 0 {
		return paths
	}
	var names []string
	for i := range t.Model.Tensors {
		names = append(names, t.Model.Tensors[i].Weight())
	}
	for _, name := range near.Names(path, names, 1) {
		return t.files("", name)
	}
	return nil
}

func (t *Tree) isView(name string) bool {
	for _, v := range t.Views {
		if v.Name == name {
			return true
		}
	}
	return false
}

// files returns the files of the tensor of that name, in the source or of the
// tree, in one view or, where view is "", in all.
func (t *Tree) files(view, name string) (paths []string) {
	name = strings.TrimSuffix(name, ".npy")
	names := []string{name}
	for i := range t.Model.Tensors {
		if p := &t.Model.Tensors[i]; p.Source == name {
			names = append(names, p.Name, p.Weight())
		}
	}
	for _, v := range t.Views {
		if view != "" && v.Name != view {
			continue
		}
	names:
		for _, name := range names {
			for _, file := range []string{name, name + ".npy"} {
				if path := v.Name + "/" + file; has(t.Root, path) {
					paths = append(paths, path)
					break names
				}
			}
		}
	}
	return paths
}

// filesOfWhole returns the files of whole models with that name, or that begin with it.
func (t *Tree) filesOfWhole(name string) (paths []string) {
	for _, w := range t.Whole {
		i, ok := tensorfs.Lookup(t.Root, w.Name)
		if !ok {
			continue
		}
		if strings.HasPrefix(name, w.Name+"/") {
			return nil
		}
		for _, path := range nearBelow(t.Root.Entry(i).Dir, w.Name+"/", name) {
			if base := path[len(w.Name)+1:]; base == name || strings.HasPrefix(base, name+".") {
				paths = append(paths, path)
			}
		}
		if path := w.Name + "/" + name; has(t.Root, path) {
			paths = append(paths, path)
		}
	}
	return paths[:min(len(paths), maxNear)]
}

func has(root tensorfs.Dir, path string) bool {
	_, err := tensorfs.Find(root, path)
	return err == nil
}

// nearBelow returns paths near one that is not below d, whose own path is prefix.
func nearBelow(d tensorfs.Dir, prefix, path string) []string {
	first, rest, more := strings.Cut(path, "/")
	if i, ok := tensorfs.Lookup(d, first); ok {
		if below := d.Entry(i).Dir; below != nil && more {
			return nearBelow(below, prefix+first+"/", rest)
		}
		return nil
	}
	names := make([]string, d.Len())
	for i := range names {
		if f, ok := d.(tensorfs.Files); ok {
			names[i] = f.Name(i)
		} else {
			names[i] = d.Entry(i).Name
		}
	}
	var paths []string
	for _, name := range near.Names(first, names, maxNear) {
		i, _ := tensorfs.Lookup(d, name)
		below := d.Entry(i).Dir
		if more && (below == nil || !has(below, rest)) {
			continue
		}
		if more {
			name += "/" + rest
		}
		paths = append(paths, prefix+name)
	}
	return paths
}
