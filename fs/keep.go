package fs

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"

	"github.com/tensorfs/tensorfs"
)

// Keeper keeps descriptors while no server has them: with them a FUSE mount outlives its server, and the next one
// takes it over. See internal/keep.
type Keeper interface {
	// Get returns what is kept of the mount, by its names, and nothing where nothing is. The descriptors are the caller's.
	Get() (map[string]int, error)
	// Put keeps a descriptor under a name, replacing an earlier one.
	Put(name string, fd int) error
	// Clear has everything forgotten that was put.
	Clear() error
	// Drop is Clear for the last time: nothing is kept afterwards.
	Drop() error
}

// Names of what is kept.
const (
	keptDevice = "device" // of the mount
	keptState  = "state"  // a file in memory, see state
	keptOpens  = "opens"  // another one, see opensFile, if the kernel reads files without the server
)

// numbering is another number after the numbers of nodes, or what the state has, began to mean something else.
const numbering = 1

// digest sums up the number, name and size of every node. It leaves texts out, which would
// have to be rendered: their bytes follow from Options.Identity.
func (t *nodes) digest() string {
	h := sha256.New()
	for k := range t.dirs {
		d := &t.dirs[k]
		fmt.Fprintf(h, "%d %d %d %v\n", d.id, d.base, d.n, d.later != nil)
		if d.later == nil {
			d.sum(h)
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

func (d *dirNode) sum(h hash.Hash) {
	for i := range d.Len() {
		e := d.Entry(i)
		size := int64(-1)
		if _, text := e.Data.(*tensorfs.Text); e.Data != nil && !text {
			size = e.Data.Size()
		}
		fmt.Fprintf(h, "%q %v %d %q\n", e.Name, e.Dir != nil, size, e.Link)
	}
}

// identity sums up what the kernel may remember of a mount: from the same one comes the same, whichever
// process answers.
func (f *rawFS) identity() string {
	h := sha256.New()
	fmt.Fprintf(h, "%d\n%q\n%q\n%s\n%+v\n%v\n%d\n", numbering, f.opts.Identity, f.opts.FsName, f.tree.digest(), f.mount, f.opts.ModTime.UnixNano(), f.opts.system.blksize)
	return hex.EncodeToString(h.Sum(nil))
}
