package fs

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/tensorfs/tensorfs"
)

// Root is the number of a tree's root.
const Root = fuse.FUSE_ROOT_ID

// firstNode is the node id of the first entry.
const firstNode = Root + 1

// nodes numbers a tree. Every directory owns a run of consecutive node ids, one
// for each entry, so that a file costs no memory and its number is the same in
// every mount of the same tree:
//
//	1      the root
//	2..    the entries of the root, then the entries of each directory below it,
//	       level by level
//
// The node id is the inode number. A directory that is made later owns a run of
// maxLater ids for all that is below it.
type nodes struct {
	dirs  []dirNode // ascending by base and by id
	next  uint64    // the first number that is free
	count uint64    // of the nodes that exist
	total total
}

// dirNode is a directory of the tree.
type dirNode struct {
	tensorfs.Dir
	id, parent uint64
	base       uint64 // node id of entry 0
	n          uint64 // entries, or the numbers kept for them
	subdirs    uint32
	later      *laterNodes // nil if the entries are numbered
	path       string      // below the mount point, with a slash after it; "" for the root
}

// newNodes walks the directories of a tree once and checks that it can be
// served: names are unique and fit for files, and a directory that is not
// [tensorfs.Entries] gives them in order.
func newNodes(root tensorfs.Dir) (*nodes, error) {
	return numberTree(dirNode{Dir: root, id: Root, parent: Root}, firstNode)
}

// numberTree numbers what is below a directory, from first on.
func numberTree(root dirNode, first uint64) (*nodes, error) {
	t := &nodes{dirs: []dirNode{root}, next: first}
	for k := 0; k < len(t.dirs); k++ {
		d := t.dirs[k]
		if e, ok := d.Dir.(tensorfs.Entries); ok {
			d.Dir = sorted(e)
		}
		if l, ok := d.Dir.(*tensorfs.Later); ok {
			d.base, d.n = t.next, maxLater
			d.later = &laterNodes{later: l, as: d}
			t.next += d.n
			t.dirs[k] = d
			continue
		}
		d.base, d.n = t.next, uint64(d.Len())
		t.next += d.n
		t.count += d.n
		files, flat := d.Dir.(tensorfs.Files)
		last := ""
		for i := range d.n {
			var e tensorfs.Entry
			if flat {
				e.Name = files.Name(int(i))
			} else if e = d.Entry(int(i)); btoi(e.Data != nil)+btoi(e.Dir != nil)+btoi(e.Link != "") != 1 {
				return nil, fmt.Errorf("%s%s: neither one file, one directory nor one link", d.path, tensorfs.Quote(e.Name))
			}
			if !tensorfs.ValidName(e.Name) && (e.Link == "" || !linkName(e.Name)) {
				return nil, fmt.Errorf("%s%s: not a file name", d.path, tensorfs.Quote(e.Name))
			}
			switch {
			case i > 0 && e.Name == last:
				return nil, fmt.Errorf("%s%s: two entries have this name", d.path, tensorfs.Quote(e.Name))
			case i > 0 && e.Name < last:
				return nil, fmt.Errorf("%s%s: not in the order of the names", d.path, tensorfs.Quote(e.Name))
			}
			last = e.Name
			if e.Dir != nil {
				d.subdirs++
				t.dirs = append(t.dirs, dirNode{Dir: e.Dir, id: d.base + i, parent: d.id, path: d.path + e.Name + "/"})
			}
		}
		t.dirs[k] = d
	}
	t.count++ // the root
	return t, nil
}

// sorted returns entries in the order of their names. It leaves the caller's slice as it
// is.
func sorted(e tensorfs.Entries) tensorfs.Entries {
	order := func(a, b tensorfs.Entry) int { return strings.Compare(a.Name, b.Name) }
	if slices.IsSortedFunc(e, order) {
		return e
	}
	return slices.SortedStableFunc(slices.Values(e), order)
}

// linkName reports whether a link may have that name. It is the name of a file in
// another file system, so it may have any bytes that file names can.
func linkName(s string) bool {
	return s != "" && s != "." && s != ".." && len(s) <= maxName && !strings.ContainsAny(s, "/\x00")
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// dir returns the directory with that node id, nil without one. One that is made
// later is made now.
func (t *nodes) dir(id uint64) *dirNode {
	if d := t.listed(id); d != nil {
		if d.later != nil {
			return &d.later.nodes().dirs[0]
		}
		return d
	}
	if d := t.owner(id); d != nil && d.later != nil {
		return d.later.nodes().dir(id)
	}
	return nil
}

// listed returns the directory with that node id where it was there from the
// beginning. It makes nothing.
func (t *nodes) listed(id uint64) *dirNode {
	k := sort.Search(len(t.dirs), func(k int) bool { return t.dirs[k].id >= id })
	if k == len(t.dirs) || t.dirs[k].id != id {
		return nil
	}
	return &t.dirs[k]
}

// owner returns the directory whose run of numbers has the node, nil without one.
func (t *nodes) owner(id uint64) *dirNode {
	k := sort.Search(len(t.dirs), func(k int) bool { return t.dirs[k].base > id }) - 1
	if k < 0 || id-t.dirs[k].base >= t.dirs[k].n {
		return nil
	}
	return &t.dirs[k]
}

// directoryOf returns the directory that holds the node and its index there.
func (t *nodes) directoryOf(id uint64) (d *dirNode, i int, ok bool) {
	d = t.owner(id)
	switch {
	case d == nil:
		return nil, 0, false
	case d.later != nil:
		return d.later.nodes().directoryOf(id)
	}
	return d, int(id - d.base), true
}

// entry returns the entry of a node other than the root.
func (t *nodes) entry(id uint64) (tensorfs.Entry, bool) {
	d, i, ok := t.directoryOf(id)
	if !ok {
		return tensorfs.Entry{}, false
	}
	return d.Entry(i), true
}

// get returns any node's entry.
func (t *nodes) get(id uint64) (tensorfs.Entry, bool) {
	if id == Root {
		return tensorfs.Entry{Dir: t.dirs[0].Dir}, true
	}
	return t.entry(id)
}

// links returns the link count of a node. A directory has one for each directory in
// it and two of its own; one that is made later has 1, as of other file systems that
// do not count.
func (t *nodes) links(id uint64, e *tensorfs.Entry) uint32 {
	if _, ok := e.Dir.(*tensorfs.Later); ok || e.Dir == nil {
		return 1
	}
	if d := t.dir(id); d != nil {
		return 2 + d.subdirs
	}
	return 2
}

// total is the size that df shows, found when first asked for.
type total struct {
	once   sync.Once
	blocks uint64
}

// blocks returns how many blocks all files take. Directories that are made later do
// not count, made or not.
func (t *nodes) blocks() uint64 {
	t.total.once.Do(func() {
		for k := range t.dirs {
			d := &t.dirs[k]
			if d.later != nil {
				continue
			}
			for i := range d.Len() {
				if e := d.Entry(i); e.Data != nil {
					t.total.blocks += blocks(uint64(e.Data.Size()))
				}
			}
		}
	})
	return t.total.blocks
}

// path returns a node's path below the mount point, for messages.
func (t *nodes) path(id uint64) string {
	if d, i, ok := t.directoryOf(id); ok {
		return d.path + d.Entry(i).Name
	}
	return "/"
}
