package fs

import (
	"bytes"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
)

func file(name, text string) tensorfs.Entry {
	return tensorfs.Entry{Name: name, Data: bytes.NewReader([]byte(text))}
}

// nested has empty directories first, in between and last.
func nested() tensorfs.Dir {
	return tensorfs.Entries{
		{Name: "a", Dir: tensorfs.Entries{}},
		{Name: "b", Dir: tensorfs.Entries{{Name: "c", Dir: tensorfs.Entries{}}, {Name: "d", Dir: tensorfs.Entries{file("e", "e")}}, file("f", "ff")}},
		{Name: "g", Link: "b/f"},
		{Name: "h", Dir: tensorfs.Entries{}},
	}
}

func TestNodes(t *testing.T) {
	n, err := newNodes(nested())
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"/", "a", "b", "g", "h", "b/c", "b/d", "b/f", "b/d/e"}
	if n.count != uint64(len(want)) {
		t.Errorf("%d nodes, want %d", n.count, len(want))
	}
	dirs := map[string]int{"/": 3, "a": 0, "b": 2, "h": 0, "b/c": 0, "b/d": 0}
	for i, path := range want {
		id := uint64(i) + 1
		if got := n.path(id); got != path {
			t.Errorf("node %d is %q, want %q", id, got, path)
		}
		d := n.dir(id)
		subdirs, isDir := dirs[path]
		if (d != nil) != isDir {
			t.Errorf("%s: is a directory: %v", path, d != nil)
		}
		if d != nil && (d.id != id || int(d.subdirs) != subdirs) {
			t.Errorf("%s: id %d, %d directories, want %d", path, d.id, d.subdirs, subdirs)
		}
		if id > 1 {
			e, ok := n.entry(id)
			if !ok || !strings.HasSuffix(path, e.Name) {
				t.Errorf("%s: entry %q, %v", path, e.Name, ok)
			}
		}
	}
	for _, id := range []uint64{0, uint64(len(want)) + 1, 1 << 63, ^uint64(0)} {
		if _, ok := n.entry(id); ok || n.dir(id) != nil {
			t.Errorf("there is a node %d", id)
		}
	}
}

func TestNodesOfManyFiles(t *testing.T) {
	n, err := newNodes(tensorfs.Entries{{Name: "w", Dir: wide(50000)}, file("z", "z")})
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{0, 1, 777, 49998, 49999} {
		e, ok := n.entry(uint64(4 + i))
		if !ok || e.Name != wide(50000).Entry(i).Name {
			t.Errorf("file %d: %q, %v", i, e.Name, ok)
		}
	}
	if len(n.dirs) != 2 {
		t.Errorf("%d directories in memory, want 2: files must take none", len(n.dirs))
	}
}

// unsorted is a Dir that breaks its promise.
type unsorted struct{ tensorfs.Dir }

// TestNodesSorts holds that entries may come in any order, at any depth, and that
// the caller's stay as they are.
func TestNodesSorts(t *testing.T) {
	below := tensorfs.Entries{file("z", "zz"), file("y", "y")}
	tree := tensorfs.Entries{{Name: "d", Dir: below}, file("a", "a"), {Name: "c", Dir: tensorfs.NewLater(func() tensorfs.Dir { return below })}}
	n, err := newNodes(tree)
	if err != nil {
		t.Fatal(err)
	}
	for number, want := range map[uint64]string{2: "a", 3: "c", 4: "d"} {
		if e, ok := n.entry(number); !ok || e.Name != want {
			t.Errorf("node %d is %q", number, e.Name)
		}
	}
	for _, dir := range []uint64{3, 4} {
		d := n.dir(dir)
		i, ok := tensorfs.Lookup(d, "y")
		if !ok || i != 0 || d.Entry(1).Data.Size() != 2 {
			t.Errorf("directory %d: y is entry %d, %v", dir, i, ok)
		}
	}
	if tree[0].Name != "d" || below[0].Name != "z" {
		t.Error("the caller's entries were moved")
	}
}

func TestNodesRefuses(t *testing.T) {
	for name, tree := range map[string]tensorfs.Dir{
		"unsorted":        unsorted{tensorfs.Entries{file("b", ""), file("a", "")}},
		"twice":           tensorfs.Entries{file("a", ""), file("a", "")},
		"slash":           tensorfs.Entries{file("a/b", "")},
		"dots":            tensorfs.Entries{file("..", "")},
		"control":         tensorfs.Entries{file("a\nb", "")},
		"a link's slash":  tensorfs.Entries{{Name: "a/b", Link: "x"}},
		"a link's dots":   tensorfs.Entries{{Name: "..", Link: "x"}},
		"a link's NUL":    tensorfs.Entries{{Name: "a\x00", Link: "x"}},
		"a long link":     tensorfs.Entries{{Name: strings.Repeat("a", 256), Link: "x"}},
		"nothing":         tensorfs.Entries{{Name: "a"}},
		"two things":      tensorfs.Entries{{Name: "a", Link: "x", Dir: tensorfs.Entries{}}},
		"deeper, as well": tensorfs.Entries{{Name: "a", Dir: tensorfs.Entries{file("", "")}}},
	} {
		if _, err := newNodes(tree); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := newNodes(tensorfs.Entries{{Name: "a\x1b\n\xff", Link: "x"}}); err != nil {
		t.Errorf("a link to a file with an odd name: %v", err)
	}
}

// TestNumbers holds that other servers see the numbers that the mount has.
func TestNumbers(t *testing.T) {
	tree := nested().(tensorfs.Entries)
	tree[3] = tensorfs.Entry{Name: "h", Dir: tensorfs.NewLater(func() tensorfs.Dir { return tensorfs.Entries{file("i", "i")} })}
	n, err := Number(tree)
	if err != nil {
		t.Fatal(err)
	}
	if nodes, bytes := n.Total(); nodes != 9 || bytes != 2*block {
		t.Errorf("%d nodes with %d bytes", nodes, bytes)
	}
	for number, want := range map[uint64]struct {
		path                string
		links               uint32
		parent, first, size uint64
	}{1: {"/", 5, 1, 2, 4}, 3: {"b", 4, 1, 6, 3}, 5: {"h", 1, 1, 0, 1}, 6: {"b/c", 2, 3, 0, 0}, 8: {path: "b/f", links: 1}} {
		e, ok := n.Entry(number)
		if !ok || n.Path(number) != want.path || n.Links(number, &e) != want.links {
			t.Errorf("node %d: %+v, %q, %d links", number, e, n.Path(number), n.Links(number, &e))
			continue
		}
		d, ok := n.Dir(number)
		if ok != (want.parent > 0) || !ok {
			continue
		}
		if d.Number != number || d.Parent != want.parent || uint64(d.Len()) != want.size {
			t.Errorf("directory %d: %+v", number, d)
		}
		for i := range d.Len() {
			if e, ok := n.Entry(d.First + uint64(i)); !ok || e.Name != d.Entry(i).Name || want.first > 0 && d.First != want.first {
				t.Errorf("directory %d: entry %d has the number of %+v", number, i, e)
			}
		}
	}
	for _, number := range []uint64{0, 1 << 40} {
		if _, ok := n.Entry(number); ok {
			t.Errorf("there is a node %d", number)
		}
		if _, ok := n.Dir(number); ok {
			t.Errorf("there is a directory %d", number)
		}
	}
	if _, err := Number(tensorfs.Entries{{Name: "a"}}); err == nil {
		t.Error("a tree that cannot be served has numbers")
	}
}
