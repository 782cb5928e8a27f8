package cache

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tensorfs/tensorfs"
)

// ErrAbsent is the error that a requested byte is not local.
var ErrAbsent = errors.New("these bytes are not in the cache")

// Range is [Off, Off+N) of a file.
type Range struct{ Off, N int64 }

// Entry is a remote file, of whose bytes some are local. It is safe for
// concurrent use until it is closed.
type Entry struct {
	s       *Store
	id      ID
	name    string // its own; see ID.names
	modTime time.Time
	first   bool // it takes no byte before all of them are verified
	users   int  // under s.mu

	open   sync.Once
	opened *disk                // nil: never on the disk
	disk   atomic.Pointer[disk] // opened, until it cannot be used

	coming   coming
	inMemory atomic.Int64 // cells
	gone     bool         // under s.memory.mu: takes no more

	failed atomic.Pointer[error]
}

// openDisk opens the entry's files if the cache has a disk.
func (e *Entry) openDisk() {
	if e.s.root == "" {
		return
	}
	d, err := e.s.openDisk(e)
	if err != nil {
		e.s.logOnce("open", "the cache keeps a file in memory only", fmt.Errorf("%s: %w", tensorfs.Printable(e.id.Source), err))
		return
	}
	if !d.meta.ModTime.IsZero() {
		e.modTime = d.meta.ModTime
	}
	e.opened = d
	e.disk.Store(d)
	if !d.whole.Load() {
		if all, err := d.complete(); all && err == nil {
			d.run(func() { d.finishIfComplete(true) })
		}
	}
}

// Size returns the file's length.
func (e *Entry) Size() int64 { return e.id.Size }

// ModTime returns the time that the entry was given first.
func (e *Entry) ModTime() time.Time { return e.modTime }

// clip returns the cells that have bytes of [off, off+n) of the file.
func (e *Entry) clip(off, n int64) (first, end int64) {
	off = max(off, 0)
	to := e.id.Size
	if n < to-off {
		to = off + n
	}
	if off >= to {
		return 0, 0
	}
	return off / CellSize, cellsOf(to)
}

// Missing returns what covers the part of [off, off+n) that is not local: ranges
// of whole cells, the last one of the file cut at its size, neighbours joined. Of a
// file that is verified first it is all or nothing.
func (e *Entry) Missing(off, n int64) []Range {
	list := e.missing(off, n)
	if e.first && len(list) > 0 {
		return []Range{{0, e.id.Size}}
	}
	return list
}

func (e *Entry) missing(off, n int64) (list []Range) {
	first, end := e.clip(off, n)
	d := e.disk.Load()
	if d != nil && d.whole.Load() {
		return nil
	}
	came := e.coming.ranges() // first: a cell ends there when it is on the disk, or in memory
	add := func(i int64, sum uint32) bool {
		if sum != 0 || slices.ContainsFunc(came, func(r Range) bool { return i*CellSize >= r.Off && i*CellSize < r.Off+r.N }) || e.s.memory.has(e, i) {
			return true
		}
		at := i * CellSize
		size := min(CellSize, e.id.Size-at)
		if k := len(list) - 1; k >= 0 && list[k].Off+list[k].N == at {
			list[k].N += size
		} else {
			list = append(list, Range{at, size})
		}
		return true
	}
	if d != nil {
		err := d.eachCell(first, end, add)
		if err == nil {
			return list
		}
		e.abandon(d, err)
		list = nil
	}
	for i := first; i < end; i++ {
		add(i, 0)
	}
	return list
}

// ReadAt implements io.ReaderAt for local bytes. The error is ErrAbsent where not
// all that is asked for is local; once the bytes that came proved not to be the
// file's, it wraps tensorfs.ErrChanged. Bytes that a disk changed are absent.
func (e *Entry) ReadAt(p []byte, off int64) (int, error) {
	n, eof := tensorfs.ClipRange(e.id.Size, p, off)
	if n == 0 {
		return 0, eof
	}
	if err := e.failed.Load(); err != nil {
		return 0, *err
	}
	for p := p[:n]; len(p) > 0; {
		got := e.coming.read(p, off) // first: it ends there when it is on the disk
		if d := e.disk.Load(); got == 0 && d != nil {
			var err error
			if got, err = d.read(p, off); err != nil {
				e.abandon(d, err)
			}
		}
		if got == 0 {
			if b := e.s.memory.get(e, off/CellSize); b != nil {
				got = copy(p, b[off%CellSize:])
			}
		}
		if got == 0 {
			return 0, ErrAbsent
		}
		p, off = p[got:], off+int64(got)
	}
	return n, eof
}

// Proven reports whether bytes of the disk were compared with their checksums since the
// entry was opened, or stored since then: a mapping of the file then has exactly the stored
// bytes.
func (e *Entry) Proven(off, n int64) bool {
	d := e.disk.Load()
	return d != nil && d.isProvenAll(off, n)
}

// WriteAt keeps bytes of the file that were fetched; off is a multiple of CellSize. Whole
// cells, and the last one of the file, are local afterwards: on the disk if there is room,
// else in memory, which keeps the most recently used cells. It returns how many bytes that
// is; the rest, part of a cell, is not kept. A file that is verified first is accepted as a
// whole, if its digest matches.
func (e *Entry) WriteAt(p []byte, off int64) (int, error) {
	if off < 0 || off%CellSize != 0 || int64(len(p)) > e.id.Size-off {
		return 0, fmt.Errorf("%s: cannot cache %d bytes at %d of %d", tensorfs.Printable(e.id.Source), len(p), off, e.id.Size)
	}
	if err := e.failed.Load(); err != nil {
		return 0, *err
	}
	if e.first {
		if int64(len(p)) != e.id.Size {
			return 0, fmt.Errorf("%s: its %d bytes are verified together", tensorfs.Printable(e.id.Source), e.id.Size)
		}
		h, err := NewHash(e.id.Digest, e.id.Size)
		if err != nil {
			return 0, err
		}
		h.Write(p)
		if err := e.compare(h); err != nil {
			return 0, err
		}
	}
	if off+int64(len(p)) < e.id.Size {
		p = p[:len(p)/CellSize*CellSize]
	}
	spill := func(i int64) {
		b := p[i*CellSize-off:]
		e.s.memory.put(e, i, b[:min(CellSize, len(b))])
	}
	d := e.disk.Load()
	if d != nil && !d.unwritten.Load() {
		if err := d.write(p, off, spill); err == nil {
			return len(p), nil
		} else if errors.Is(err, errShort) {
			e.abandon(d, err)
		} else {
			d.cannotStore(err)
		}
	}
	for i := off / CellSize; i < off/CellSize+cellsOf(int64(len(p))); i++ {
		if e.Stored(i*CellSize, 1) == 0 {
			spill(i)
		}
	}
	return len(p), nil
}

// Whole returns the file with all bytes, once every one is local, durable and,
// where a digest is known, verified. Nothing writes to it any more. The caller
// closes it; it is good for longer than the entry.
func (e *Entry) Whole() (*os.File, bool) {
	d := e.disk.Load()
	if d == nil || !d.isWhole() {
		return nil, false
	}
	f, err := d.reopen()
	return f, err == nil
}

// Forget removes the entry from the disk and from memory. It can still be used, in
// memory.
func (e *Entry) Forget() error {
	d := e.disk.Swap(nil)
	e.s.memory.drop(e, false)
	if d == nil {
		return nil
	}
	d.dead.Store(true)
	e.s.mu.Lock()
	if e.s.entries[e.name] == e { // the next call of Store.Entry gets another
		delete(e.s.entries, e.name)
	}
	e.s.mu.Unlock()
	return d.remove()
}

// abandon ends the use of files that fail.
func (e *Entry) abandon(d *disk, why error) {
	if !e.disk.CompareAndSwap(d, nil) {
		return
	}
	d.dead.Store(true)
	e.s.logOnce("abandon", "a file of the cache cannot be used any more; it is kept in memory only", fmt.Errorf("%s: %w", tensorfs.Printable(e.id.Source), why))
	if errors.Is(why, errShort) {
		_ = d.remove() // it is found broken when it is opened again
	}
}

// VerifiedFirst reports whether the file has a digest and is so small that none of
// its bytes is local before all of them are known to have it: it is fetched, and
// given to WriteAt, in one piece.
func (e *Entry) VerifiedFirst() bool { return e.first }

// Verified reports whether all that is local was compared with the file's digest.
func (e *Entry) Verified() bool {
	if e.first {
		return true
	}
	d := e.disk.Load()
	return e.id.Digest != "" && d != nil && d.isWhole()
}

// Failed returns the error that bytes do not match the file's digest, once that was
// noticed.
func (e *Entry) Failed() error {
	if err := e.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// Stored returns how many bytes of [off, off+n) are on the disk.
func (e *Entry) Stored(off, n int64) (stored int64) {
	d := e.disk.Load()
	if d == nil {
		return 0
	}
	first, end := e.clip(off, n)
	_ = d.eachCell(first, end, func(i int64, sum uint32) bool {
		if sum != 0 {
			stored += min((i+1)*CellSize, off+n) - max(i*CellSize, off)
		}
		return true
	})
	return stored
}

// mismatch forgets an entry whose bytes do not match its digest.
func (e *Entry) mismatch(got string) error {
	var err error = &digestError{e.id.Source, got, e.id.Digest}
	if e.failed.CompareAndSwap(nil, &err) {
		e.s.mismatch.CompareAndSwap(nil, &err)
	}
	_ = e.Forget() // what is left of it is verified again by the next process that opens it
	return *e.failed.Load()
}

// Close ends one use of the entry: see Store.Entry. The last one makes it durable;
// a private one is gone then.
func (e *Entry) Close() error {
	e.s.mu.Lock()
	e.users--
	last := e.users == 0
	if last && e.s.entries[e.name] == e {
		delete(e.s.entries, e.name)
	}
	e.s.mu.Unlock()
	if !last {
		return nil
	}
	e.s.memory.drop(e, true)
	if e.opened == nil {
		return nil
	}
	return e.opened.close()
}
