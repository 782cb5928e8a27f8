package cache

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/tensorfs/tensorfs"
	"golang.org/x/sys/unix"
)

// CellSize is the unit of what is local: a cell is local as a whole or not at all.
// The last cell of a file may be shorter.
const CellSize = 128 << 10

// A cell's byte of the state file:
//
//	7        6 ........ 2   1 .... 0
//	used     generation     state
//
// used is set by readers and writers and cleared by sweeps: what a sweep finds
// without it was not used since the sweep before. The generation grows whenever the
// cell is emptied, so that whoever looks at it twice notices that it was, and filled
// again, in between. The epoch of all cells, in the header, grows before any of them
// is emptied: who may have missed as many times as there are generations sees that.
const (
	absent  byte = 0
	present byte = 1 // in the page cache, perhaps not on the disk
	durable byte = 2 // on the disk
	swept   byte = 3 // being swept: neither readable nor writable

	stateMask      byte = 3
	generation     byte = 1 << 2
	generationMask byte = 0x7c
	generations         = 32
	used           byte = 1 << 7
)

func isLocal(b byte) bool { return b&stateMask == present || b&stateMask == durable }

// emptied returns the byte of a cell that was b, now without its bytes.
func emptied(b byte) byte { return (b + generation) & generationMask }

func cellsOf(size int64) int64 { return (size + CellSize - 1) / CellSize }

// cells is the mapping of a state file. Its methods fault where the file was cut
// meanwhile, so they are called under guard.
type cells struct {
	mem []byte
	n   int64 // number of cells
}

func mapCells(fd int, size int64) (*cells, error) {
	mem, err := unix.Mmap(fd, 0, int(stateSize(size)), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return &cells{mem, cellsOf(size)}, nil
}

func (c *cells) unmap() error { return unix.Munmap(c.mem) }

// flush makes the state durable.
func (c *cells) flush() error { return unix.Msync(c.mem, unix.MS_SYNC) }

// word returns the aligned word that has the byte of cell i. The file has whole
// words.
func (c *cells) word(i int64) *uint32 {
	return (*uint32)(unsafe.Pointer(&c.mem[(headerSize+i)&^3]))
}

func (c *cells) load(i int64) byte {
	w := atomic.LoadUint32(c.word(i))
	return (*[4]byte)(unsafe.Pointer(&w))[(headerSize+i)&3]
}

// swap replaces the byte of cell i if it is old. The other cells of its word may
// change meanwhile.
func (c *cells) swap(i int64, old, new byte) bool {
	p := c.word(i)
	for {
		w := atomic.LoadUint32(p)
		next := w
		b := &(*[4]byte)(unsafe.Pointer(&next))[(headerSize+i)&3]
		if *b != old {
			return false
		}
		*b = new
		if atomic.CompareAndSwapUint32(p, w, next) {
			return true
		}
	}
}

// change replaces the byte of cell i by what fn makes of it, until fn says no.
func (c *cells) change(i int64, fn func(b byte) (byte, bool)) bool {
	for {
		b := c.load(i)
		next, ok := fn(b)
		if !ok {
			return false
		}
		if b == next || c.swap(i, b, next) {
			return true
		}
	}
}

func (c *cells) epoch() uint32 { return atomic.LoadUint32(c.word(epochAt - headerSize)) }

// begin begins a time in which each cell is emptied at most once.
func (c *cells) begin() { atomic.AddUint32(c.word(epochAt-headerSize), 1) }

// comparable reports whether a cell has its generation of that epoch only if it
// was not emptied since. One more time may have begun just before it.
func (c *cells) comparable(epoch uint32) bool { return c.epoch()-epoch < generations-1 }

// use returns the byte of cell i, and marks a local cell as used.
func (c *cells) use(i int64) byte {
	for {
		b := c.load(i)
		if b&used != 0 || !isLocal(b) || c.swap(i, b, b|used) {
			return b
		}
	}
}

// all reports whether ok holds for every cell.
func (c *cells) all(ok func(i int64, b byte) bool) bool {
	for i := range c.n {
		if !ok(i, c.load(i)) {
			return false
		}
	}
	return true
}

func (c *cells) allDurable() bool {
	return c.all(func(_ int64, b byte) bool { return b&stateMask == durable })
}

// recover ends what processes that are gone left behind. In another boot nothing
// counts but what is durable.
func (c *cells) recover(otherBoot bool) {
	c.begin()
	for i := range c.n {
		c.change(i, func(b byte) (byte, bool) {
			return emptied(b), b&stateMask == swept || otherBoot && b&stateMask == present
		})
	}
}

// guard runs fn, which uses the mapping, and makes a fault in it an error.
func (c *cells) guard(fn func() error) error { return tensorfs.Guard(fn, c) }

// Check implements tensorfs.Memory.
func (c *cells) Check() error { return nil }

// Lost implements tensorfs.Memory.
func (c *cells) Lost(addr uintptr) error {
	start := uintptr(unsafe.Pointer(unsafe.SliceData(c.mem)))
	page := uintptr(unix.Getpagesize())
	if addr < start || addr-start >= (uintptr(len(c.mem))+page-1)/page*page {
		return nil
	}
	return errStateLost
}

var errStateLost = fmt.Errorf("the state file was cut, or has no room on its disk, while it was in use")
