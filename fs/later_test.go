package fs

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/tensorfs/tensorfs"
)

// laterTree has directories that are made later, first, in between and last, and
// counts how often each is made.
func laterTree(made *[3]atomic.Int32) tensorfs.Dir {
	later := func(n int, d tensorfs.Dir) tensorfs.Dir {
		return tensorfs.NewLater(func() tensorfs.Dir { made[n].Add(1); return d })
	}
	return tensorfs.Entries{
		{Name: "a", Dir: later(0, tensorfs.Entries{file("x", "xx"), {Name: "y", Dir: tensorfs.Entries{file("z", "zzz")}}})},
		{Name: "b", Dir: tensorfs.Entries{file("c", "c"), {Name: "d", Dir: later(1, tensorfs.Entries{})}, {Name: "e", Dir: tensorfs.Entries{file("f", "f")}}}},
		{Name: "g", Dir: later(2, wide(3000))},
	}
}

// TestLater holds that a directory is made by the first look inside, not by a
// mount or a listing of the directory above, and that its nodes are as good as
// any others.
func TestLater(t *testing.T) {
	var made [3]atomic.Int32
	f, err := newRawFS(laterTree(&made), Options{})
	if err != nil {
		t.Fatal(err)
	}
	counts := func(when string, want ...int32) {
		t.Helper()
		for i, n := range want {
			if made[i].Load() != n {
				t.Errorf("%s: directory %d was made %d times, want %d", when, i, made[i].Load(), n)
			}
		}
	}
	lookup := func(parent uint64, name string) *fuse.EntryOut {
		t.Helper()
		var out fuse.EntryOut
		if st := f.Lookup(nil, &fuse.InHeader{NodeId: parent}, name, &out); st != fuse.OK {
			t.Fatalf("%s: %v", name, st)
		}
		return &out
	}
	var fsOut fuse.StatfsOut
	f.StatFs(nil, &fuse.InHeader{NodeId: 1}, &fsOut)
	a, b, g := lookup(1, "a"), lookup(1, "b"), lookup(1, "g")
	d := lookup(b.NodeId, "d")
	for _, e := range []*fuse.EntryOut{a, d, g} {
		var attr fuse.AttrOut
		if st := f.GetAttr(nil, &fuse.GetAttrIn{InHeader: fuse.InHeader{NodeId: e.NodeId}}, &attr); st != fuse.OK || attr.Mode != dirMode || attr.Nlink != 1 {
			t.Errorf("%v %+v", st, attr.Attr)
		}
	}
	if f.tree.path(d.NodeId) != "b/d" {
		t.Errorf("path %s", f.tree.path(d.NodeId))
	}
	counts("after looking at them", 0, 0, 0)

	x := lookup(a.NodeId, "x")
	counts("after a look inside one", 1, 0, 0)
	y := lookup(a.NodeId, "y")
	z := lookup(y.NodeId, "z")
	if f.tree.path(z.NodeId) != "a/y/z" || x.Size != 2 || z.Size != 3 || y.Nlink != 2 {
		t.Errorf("%s, %d and %d bytes, %d links", f.tree.path(z.NodeId), x.Size, z.Size, y.Nlink)
	}
	if f.tree.dir(x.NodeId) != nil || f.tree.dir(y.NodeId) == nil {
		t.Error("a file is a directory, or a directory is none")
	}
	if out := lookup(d.NodeId, "x"); out.NodeId != 0 {
		t.Errorf("found %+v in an empty directory", out)
	}
	seen := map[uint64]string{}
	for _, e := range []*fuse.EntryOut{a, b, g, d, x, y, z, lookup(lookup(b.NodeId, "e").NodeId, "f")} {
		if other, taken := seen[e.NodeId]; taken {
			t.Errorf("%s and %s have the number %d", other, f.tree.path(e.NodeId), e.NodeId)
		}
		seen[e.NodeId] = f.tree.path(e.NodeId)
	}
	var wait sync.WaitGroup
	for i := range 16 {
		wait.Go(func() {
			name := wide(3000).Entry(i * 100).Name
			if out := lookup(g.NodeId, name); f.tree.path(out.NodeId) != "g/"+name {
				t.Errorf("%s is %s", name, f.tree.path(out.NodeId))
			}
		})
	}
	wait.Wait()
	counts("in the end", 1, 1, 1)
	for _, id := range []uint64{z.NodeId + 1, g.NodeId + 3*maxLater, 1 << 63} {
		if e, ok := f.tree.get(id); ok || f.tree.dir(id) != nil {
			t.Errorf("there is a node %d: %+v", id, e)
		}
	}
}

// TestLaterBroken holds that a directory that breaks a rule is empty when it is
// made: the mount is there by then.
func TestLaterBroken(t *testing.T) {
	for name, broken := range map[string]tensorfs.Dir{
		"unsorted":       unsorted{tensorfs.Entries{file("b", ""), file("a", "")}},
		"too many":       wide(maxLater + 1),
		"too many below": tensorfs.Entries{{Name: "a", Dir: tensorfs.NewLater(func() tensorfs.Dir { return tensorfs.Entries{} })}},
	} {
		n, err := newNodes(tensorfs.Entries{{Name: "a", Dir: tensorfs.NewLater(func() tensorfs.Dir { return broken })}})
		if err != nil {
			t.Fatal(err)
		}
		if d := n.dir(firstNode); d == nil || d.Len() != 0 {
			t.Errorf("%s: %v", name, d)
		}
	}
}

// Example makes a directory when it is first opened.
func ExampleNewLater() {
	root := tensorfs.Entries{{Name: "slow", Dir: tensorfs.NewLater(func() tensorfs.Dir {
		fmt.Println("made")
		return tensorfs.Entries{{Name: "link", Link: "target"}}
	})}}
	fmt.Println(root[0].Name)
	e, _ := tensorfs.Find(root, "slow/link")
	fmt.Println(e.Link)
	// Output:
	// slow
	// made
	// target
}
