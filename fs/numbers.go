package fs

import "github.com/tensorfs/tensorfs"

// Numbers numbers the nodes of a tree as [Mount] does, for other servers of it: the
// number of a node is the same in each of them, and in each process that has the
// same tree. They are safe for concurrent use.
type Numbers struct{ nodes *nodes }

// Number walks the directories of a tree once and checks that it can be served: names are
// unique and fit for files. A [tensorfs.Later] is walked on first access; a [tensorfs.Lazy]
// is refused, because its tree comes and goes.
func Number(root tensorfs.Dir) (*Numbers, error) {
	n, err := newNodes(root)
	if err != nil {
		return nil, err
	}
	return &Numbers{n}, nil
}

// NumberedDir is a directory of a tree. Its entry i has the number First + i.
type NumberedDir struct {
	tensorfs.Dir
	Number, Parent, First uint64
}

// Entry returns the node with a number; the root has no name.
func (n *Numbers) Entry(number uint64) (tensorfs.Entry, bool) { return n.nodes.get(number) }

// Dir returns the directory with a number. A [tensorfs.Later] is made now.
func (n *Numbers) Dir(number uint64) (NumberedDir, bool) {
	d := n.nodes.dir(number)
	if d == nil {
		return NumberedDir{}, false
	}
	return NumberedDir{d.Dir, d.id, d.parent, d.base}, true
}

// Path returns the path of a node below the root, for messages.
func (n *Numbers) Path(number uint64) string { return n.nodes.path(number) }

// Links returns the link count of a node, whose entry e is.
func (n *Numbers) Links(number uint64, e *tensorfs.Entry) uint32 { return n.nodes.links(number, e) }

// Total returns how many nodes the tree has, and how many bytes of disk a copy of
// its files would take. Directories that are made later do not count, made or not.
func (n *Numbers) Total() (nodes, bytes uint64) { return n.nodes.count, n.nodes.blocks() * block }
