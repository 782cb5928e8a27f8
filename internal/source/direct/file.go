package direct

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tensorfs/tensorfs/internal/source/readahead"
)

// File is an open file of this machine that is read in pieces. It is safe for concurrent
// use.
type File struct {
	pool    *Pool
	file    int // its owner's descriptor
	size    int64
	read    func(b []byte, off int64) (int, error)
	now     func() time.Time // for the pace
	refused atomic.Bool      // for good
	coming  sync.WaitGroup
	pieces  int                // that the pool has of it; guarded by the pool
	under   int                // that are on their way; guarded by the pool
	pace    readahead.Pace     // guarded by the pool
	widen   func(window int64) // is told how far ahead of a reader pieces should be begun

	opening sync.Mutex
	opened  bool
	fd      int // that reads past the page cache, while opened
}

// File returns the open file fd, which has size bytes, to be read with memory of p. fd is
// its caller's, who closes it after the File. widen receives how far ahead of a reader pieces
// should be begun, in bytes, whenever that changes from Stream at first.
func (p *Pool) File(fd int, size int64, widen func(window int64)) *File {
	f := &File{pool: p, file: fd, size: size, pace: readahead.Pace{Parts: first, More: more, Most: most, Size: Size}, widen: widen}
	f.read, f.now = f.pread, time.Now
	return f
}

// Usable reports whether pieces can be had, as far as is known.
func (f *File) Usable() bool { return f.pool.Allowed() && !f.refused.Load() }

// Refuse ends the reading of pieces for good.
func (f *File) Refuse() { f.refused.Store(true) }

// Begin starts reading the piece that contains the byte at off, without waiting for it. It reports
// whether the piece is in memory or being read: the pool may have no memory for it.
func (f *File) Begin(off int64) bool {
	if !f.Usable() {
		return false
	}
	at, p := place{f, off / Size * Size}, f.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pieces[at] != nil {
		return true
	}
	f.pieces++ // before take, which may drop the last piece of this file
	buf := p.take()
	if buf == nil {
		f.pieces--
		return false
	}
	x := &piece{place: at, buf: buf, come: make(chan struct{}), left: int(min(Size, f.size-at.off)), used: time.Now()}
	p.pieces[at], p.used = x, x.used
	f.under++
	n := x.left
	f.coming.Go(func() { x.bringIn(n) })
	return true
}

// errShort is a file that ends before its end, or a file system that does not give all at
// once.
var errShort = errors.New("fewer bytes than there should be")

// bringIn reads the n bytes of a piece.
func (x *piece) bringIn(n int) {
	defer close(x.come)
	got, err := x.file.read(x.buf, x.off)
	if err == nil && got < n {
		err = errShort
	}
	if x.err = err; err != nil {
		x.file.refused.Store(true)
	}
	x.file.came(int64(got))
}

// came notes that n bytes of a piece are here.
func (f *File) came(n int64) {
	f.pool.mu.Lock()
	defer f.pool.mu.Unlock()
	if f.pace.Came(n, int64(f.under), f.now()) {
		f.widen((f.pace.Parts + 1) * Size)
	}
	f.under--
}

// Has reports whether the byte at off is in a piece that is here or on its way.
func (f *File) Has(off int64) bool {
	if !f.Usable() {
		return false
	}
	f.pool.mu.Lock()
	defer f.pool.mu.Unlock()
	return f.pool.pieces[place{f, off / Size * Size}] != nil
}

// ReadAt copies bytes from off on to b, as many as are in one piece, and waits for that
// piece. It returns their number: 0 if no piece was begun or the piece cannot be read.
func (f *File) ReadAt(b []byte, off int64) int {
	if !f.Usable() {
		return 0
	}
	at, p := place{f, off / Size * Size}, f.pool
	p.mu.Lock()
	p.recent[p.reads%len(p.recent)] = at
	p.reads++
	x := p.pieces[at]
	if x == nil {
		p.mu.Unlock()
		return 0
	}
	x.readers++
	x.used = time.Now()
	p.mu.Unlock()
	<-x.come
	n := 0
	if x.err == nil && off < f.size {
		n = copy(b, x.buf[off-x.off:min(Size, f.size-x.off)])
	}
	p.mu.Lock()
	x.readers--
	x.left -= n
	p.mu.Unlock()
	return n
}

// Close waits for reads under way and drops the file's pieces. The file must not be used
// afterwards.
func (f *File) Close() {
	f.refused.Store(true)
	f.coming.Wait()
	p := f.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	for at, x := range p.pieces {
		if at.file == f {
			p.drop(x)
			p.free = append(p.free, x.buf)
		}
	}
	for i := range p.recent {
		if p.recent[i].file == f {
			p.recent[i] = place{}
		}
	}
}

// pread reads past the page cache. The file is opened once more for it, as long as there
// are pieces of it: its owner reads it through the page cache, and most files of a large
// model are not read at any moment.
func (f *File) pread(b []byte, off int64) (int, error) {
	f.opening.Lock()
	if !f.opened {
		fd, err := reopen(f.file)
		if err != nil {
			f.opening.Unlock()
			return 0, err
		}
		f.fd, f.opened = fd, true
	}
	fd := f.fd
	f.opening.Unlock()
	return pread(fd, b, off)
}

// shut closes what pread opened. Nothing is on its way.
func (f *File) shut() {
	f.opening.Lock()
	defer f.opening.Unlock()
	if f.opened {
		f.opened = false
		shut(f.fd)
	}
}
