package direct

import (
	"sync"
	"sync/atomic"
	"time"
)

// Size is the length of a piece in bytes. A piece begins at a multiple of it, and the
// last one of a file is shorter.
const Size = 4 << 20

// Of the pieces of a stream, first are on their way from the beginning on. There may be most
// if that brings more bytes per second: on a disk at the other end of a network.
const (
	first = 4
	more  = 2
	most  = 16
)

// Stream is how far ahead of a reader pieces should be begun at first, in bytes: the first
// pieces, and the one that is read.
const Stream = (first + 1) * Size

// least is the memory that one stream needs: its pieces, and the one before them, which is
// being copied.
const least = Stream + Size

// idle is how long unused memory is kept.
const idle = 10 * time.Second

// Pool has the memory for the pieces of all files. Its zero value may take none.
type Pool struct {
	most atomic.Pointer[func() int64]

	mu     sync.Mutex
	memory []byte   // nil without readers
	free   [][]byte // parts of it, of Size bytes
	pieces map[place]*piece
	recent [64]place // where was read last, in no order
	reads  int
	used   time.Time // when a piece was begun last
	denied time.Time // when there was no memory
}

// place is where a piece is from.
type place struct {
	file *File
	off  int64
}

// piece is a part of a file that is in memory or on its way.
type piece struct {
	place
	buf  []byte
	come chan struct{} // closed when it is here, or cannot be had
	err  error         // why it cannot be had, from then on

	// Guarded by the pool.
	readers int       // that wait for it or copy from it
	left    int       // bytes not read yet
	used    time.Time // time of its last read, or of its beginning
}

// Allow sets the function that limits the pool's memory to a number of bytes. It is asked
// before memory is allocated. A limit below the needs of one stream means no memory.
func (p *Pool) Allow(most func() int64) { p.most.Store(&most) }

// Forbid undoes Allow, for files that are opened and pieces that are begun from here on.
func (p *Pool) Forbid() { p.most.Store(nil) }

// Allowed reports whether the pool may take memory, and the system can read past its cache.
func (p *Pool) Allowed() bool { return supported && p.most.Load() != nil }

// take returns memory for a piece, nil if all is in use. mu is held.
func (p *Pool) take() []byte {
	if p.memory == nil && !p.fill() {
		return nil
	}
	// What was read last is still in the processor's caches, and so is what takes its
	// place: a ring of all buffers would be slower by a quarter.
	x := p.choose(func(x, than *piece) bool { return x.left <= 0 && (than == nil || x.used.After(than.used)) })
	if n := len(p.free); x == nil && n > 0 {
		b := p.free[n-1]
		p.free = p.free[:n-1]
		return b
	}
	if x == nil {
		x = p.choose(func(x, than *piece) bool { return (than == nil || x.used.Before(than.used)) && !p.wanted(x.place) })
	}
	if x == nil {
		return nil
	}
	p.drop(x)
	return x.buf
}

// choose returns the best of the pieces that are not in use, or nil. mu is held.
func (p *Pool) choose(better func(x, than *piece) bool) (best *piece) {
	for _, x := range p.pieces {
		if x.readers == 0 && x.here() && better(x, best) {
			best = x
		}
	}
	return best
}

// wanted reports whether a reader seems to be on its way to a piece: one of the last reads
// was in it or a little before it. mu is held.
func (p *Pool) wanted(at place) bool {
	for _, r := range p.recent {
		if r.file == at.file && r.off <= at.off && at.off <= r.off+(most+1)*Size {
			return true
		}
	}
	return false
}

// fill takes memory from the system. mu is held.
func (p *Pool) fill() bool {
	if time.Since(p.denied) < idle {
		return false
	}
	most := p.most.Load()
	if most == nil {
		return false
	}
	n := (*most)() / Size * Size
	memory, err := []byte(nil), error(nil)
	if n >= least {
		memory, err = allocate(int(n))
	}
	if memory == nil || err != nil {
		p.denied = time.Now()
		return false
	}
	p.memory, p.pieces = memory, map[place]*piece{}
	for whole := aligned(memory); len(whole) >= Size; whole = whole[Size:] {
		p.free = append(p.free, whole[:Size:Size])
	}
	time.AfterFunc(idle, p.giveBack)
	return true
}

// giveBack frees the memory when it has been idle for a while, and checks again later
// otherwise.
func (p *Pool) giveBack() {
	p.mu.Lock()
	defer p.mu.Unlock()
	wait := idle - time.Since(p.used)
	for _, x := range p.pieces {
		if x.readers > 0 || !x.here() {
			wait = idle
		}
	}
	if wait > 0 {
		time.AfterFunc(wait, p.giveBack)
		return
	}
	for _, x := range p.pieces {
		p.drop(x)
	}
	release(p.memory)
	p.memory, p.free, p.recent = nil, nil, [len(p.recent)]place{}
}

// drop drops an unused piece. mu is held.
func (p *Pool) drop(x *piece) {
	delete(p.pieces, x.place)
	if x.file.pieces--; x.file.pieces == 0 {
		x.file.shut()
	}
}

// here reports whether a piece is no longer on its way.
func (x *piece) here() bool {
	select {
	case <-x.come:
		return true
	default:
		return false
	}
}
