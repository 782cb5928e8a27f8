package fs

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"runtime"
	"slices"
	"sync"
	"syscall"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/parallel"
)

const (
	// minHot is the smallest file that is made hot. Smaller ones would take a
	// huge page each and are read from the kernel's cache just as fast.
	minHot = 1 << 20
	// hugePage is the unit in which hot files take memory.
	hugePage = 2 << 20
	// fillUnit is what a worker converts and writes at a time: it stays in the
	// cache of the CPU in between.
	fillUnit = 256 << 10
)

// HotFile is a file that is held in memory.
type HotFile struct {
	Path  string `json:"path"`  // below the mount point
	Bytes int64  `json:"bytes"` // of the file
	Open  int    `json:"open"`  // how often it is open
}

// HotStatus says what the memory for hot files holds.
type HotStatus struct {
	Budget  int64     `json:"budget"` // Options.Hot
	Used    int64     `json:"used"`   // bytes of memory, in huge pages
	Files   []HotFile `json:"files"`  // by path
	Omitted int       `json:"omitted,omitempty"`
}

// hotFiles are files that were copied to memory when they were opened and that
// the kernel reads by itself (passthrough). The kernel demands that all opens of
// a file be of one kind, so a file stays hot or plain while it is open:
//
//	(closed) --open--> filling --ok--> hot, open --last release--> hot, closed --evicted--> (closed)
//	   |                  |
//	   |                  +-- source failed: the opens fail, (closed)
//	   |                  +-- no room: plain
//	   +--over budget--> plain, open --last release--> (closed)
//
// Closed hot files are kept for the next open, the least recently closed are
// evicted first.
type hotFiles struct {
	budget int64
	log    *slog.Logger
	store  hotStore
	left   func() int64 // memory that may still be taken, whatever the budget says

	mu      sync.Mutex
	off     bool // the kernel refuses to pass reads through
	used    int64
	closed  int64 // part of used
	filling int64 // part of used: promised, and perhaps not taken yet
	files   map[uint64]*hotFile
	plain   map[uint64]int // opens of files that would be large enough
	lru     *list.List     // of *hotFile, closed, oldest first
}

// hotStore holds the bytes and makes the kernel read them.
type hotStore interface {
	// create returns a new file without a name.
	create() (*os.File, error)
	backings
	close()
}

// hotFile is one of the hot files.
type hotFile struct {
	id      uint64
	size    int64
	room    int64 // bytes of memory
	opens   int
	place   *list.Element // in lru
	file    *os.File
	backing int32
	// ready is closed when the file is filled, or when that failed: then either
	// err is set or the opens are plain ones.
	ready chan struct{}
	hot   bool
	err   error
}

func newHotFiles(budget int64, log *slog.Logger, store hotStore) *hotFiles {
	return &hotFiles{
		budget: budget, log: log, store: store, left: func() int64 { return math.MaxInt64 },
		files: make(map[uint64]*hotFile), plain: make(map[uint64]int), lru: list.New(),
	}
}

// open opens a file. hot says that the kernel is to read it from the backing
// file. An error means that the source cannot be read or has changed.
func (h *hotFiles) open(id uint64, d tensorfs.Data) (backing int32, hot bool, err error) {
	size := d.Size()
	if size < minHot {
		return 0, false, nil
	}
	h.mu.Lock()
	f := h.files[id]
	if f != nil {
		f.opens++
		if f.place != nil {
			h.lru.Remove(f.place)
			f.place = nil
			h.closed -= f.room
		}
		h.mu.Unlock()
		<-f.ready
		return f.backing, f.hot, f.err
	}
	room := (size + hugePage - 1) / hugePage * hugePage
	if h.off || h.plain[id] > 0 || !h.makeRoom(room) {
		h.plain[id]++
		h.mu.Unlock()
		return 0, false, nil
	}
	f = &hotFile{id: id, size: size, room: room, opens: 1, ready: make(chan struct{})}
	h.files[id] = f
	h.used += room
	h.filling += room
	h.mu.Unlock()

	h.fill(f, d)
	return f.backing, f.hot, f.err
}

// fill makes f hot, or makes its opens fail, or makes them plain.
func (h *hotFiles) fill(f *hotFile, d tensorfs.Data) {
	file, err := h.store.create()
	if err == nil {
		if err = copyAll(file, d, f.size); err == nil {
			f.backing, err = h.store.register(int(file.Fd()))
			if err != nil {
				err = refused{err}
			}
		}
	} else {
		err = noRoom{err}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	defer close(f.ready)
	h.filling -= f.room
	if err == nil {
		f.file, f.hot = file, true
		return
	}
	if file != nil {
		file.Close()
	}
	delete(h.files, f.id)
	h.used -= f.room
	switch {
	case errors.As(err, new(refused)):
		h.off = true
		h.log.Warn("the kernel does not let files pass through; they are read as without memory for hot files", "error", err)
	case errors.As(err, new(noRoom)):
		h.log.Debug("no memory for a hot file; it is read as others are", "bytes", f.size, "error", err)
	default:
		f.err = err
		return
	}
	h.plain[f.id] += f.opens
}

// refused and noRoom mark errors that leave the file readable.
type (
	refused struct{ error }
	noRoom  struct{ error }
)

func (e refused) Unwrap() error { return e.error }
func (e noRoom) Unwrap() error  { return e.error }

// makeRoom evicts closed files until there is room in the budget and in memory,
// and reports whether there is. It evicts none if evicting all would not be enough.
func (h *hotFiles) makeRoom(room int64) bool {
	if h.used-h.closed+room > h.budget {
		return false
	}
	left := h.left() - h.filling
	if left < room-h.closed {
		h.log.Debug("no memory is left for a hot file; it is read as others are", "bytes", room, "left", left)
		return false
	}
	for h.used+room > h.budget || left < room {
		if h.lru.Len() == 0 { // some that were evicted are mapped, and keep their memory
			return false
		}
		h.evict(h.lru.Front().Value.(*hotFile))
		left = h.left() - h.filling
	}
	return true
}

// evict frees a closed file. A mapping that is still there keeps its memory: then
// the store runs full before the budget does, which is not an error.
func (h *hotFiles) evict(f *hotFile) {
	h.lru.Remove(f.place)
	delete(h.files, f.id)
	h.used -= f.room
	h.closed -= f.room
	h.store.unregister(f.backing)
	f.file.Close()
}

// release ends an open.
func (h *hotFiles) release(id uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if f := h.files[id]; f != nil {
		if f.opens--; f.opens == 0 {
			f.place = h.lru.PushBack(f)
			h.closed += f.room
		}
		return
	}
	if h.plain[id] > 1 {
		h.plain[id]--
	} else {
		delete(h.plain, id)
	}
}

// close frees everything. The mount is gone.
func (h *hotFiles) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range h.files {
		if f.file != nil {
			f.file.Close()
		}
	}
	clear(h.files)
	h.lru.Init()
	h.used, h.closed, h.filling, h.off = 0, 0, 0, true
	h.store.close()
}

// status lists the files that are hot.
func (h *hotFiles) status(path func(uint64) string) *HotStatus {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := &HotStatus{Budget: h.budget, Used: h.used, Files: []HotFile{}}
	for _, f := range h.files {
		if f.hot {
			s.Files = append(s.Files, HotFile{path(f.id), f.size, f.opens})
		}
	}
	slices.SortFunc(s.Files, func(a, b HotFile) int { return cmp.Compare(a.Path, b.Path) })
	return s
}

// copyAll writes all of d to file, on all CPUs. The first error ends it.
func copyAll(file *os.File, d tensorfs.Data, size int64) error {
	buffers := sync.Pool{New: func() any { return new([fillUnit]byte) }}
	units := int((size + fillUnit - 1) / fillUnit)
	return parallel.Each(context.Background(), runtime.GOMAXPROCS(0), units, func(_ context.Context, i int) error {
		buf := buffers.Get().(*[fillUnit]byte)
		defer buffers.Put(buf)
		off := int64(i) * fillUnit
		return copyUnit(file, d, off, buf[:min(fillUnit, size-off)])
	})
}

// copyUnit writes the len(buf) bytes at off. buf is for those that are not in memory.
func copyUnit(file *os.File, d tensorfs.Data, off int64, buf []byte) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("internal error: %v", r)
		}
	}()
	parts, mapped, err := tensorfs.Slices(d, nil, off, int64(len(buf)))
	if err != nil {
		return err
	}
	if !mapped {
		if err := tensorfs.ReadFull(d, buf, off); err != nil {
			return err
		}
		return write(file, off, [][]byte{buf})
	}
	if err := write(file, off, parts); err != nil {
		return err
	}
	// The kernel has copied from the mapping. Asking again tells whether the file was
	// still the same when it did.
	_, _, err = tensorfs.Slices(d, nil, off, int64(len(buf)))
	return err
}

// write writes the parts back to back.
func write(file *os.File, off int64, parts [][]byte) error {
	for _, p := range parts {
		n, err := file.WriteAt(p, off)
		switch {
		case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.ENOMEM):
			return noRoom{err}
		case err != nil:
			return fmt.Errorf("copying to memory: %w", err)
		}
		off += int64(n)
	}
	return nil
}
