package fs

import (
	"log/slog"
	"sync"

	"github.com/tensorfs/tensorfs"
)

// storedFile is Data that is all of an open file of this machine.
type storedFile interface {
	Descriptor() int
}

// storedFiles are files of the tree that are files of the model as they are. The
// kernel reads these by itself (passthrough): at the speed of the model's own
// file system, and from its pages, which need not be in memory twice.
//
// All opens of a file must be of one kind. They are, because the kernel accepts
// each of these files or, from the first refusal on, none.
type storedFiles struct {
	log    *slog.Logger
	kernel backings

	mu   sync.Mutex
	off  bool // the kernel refuses
	open map[uint64]*openStored
}

type openStored struct {
	opens   int
	backing int32
}

// backings makes the kernel read files.
type backings interface {
	register(fd int) (backing int32, err error)
	unregister(backing int32)
}

// opened notes an open of a file. passed says that the kernel is to read it from
// the backing file.
func (s *storedFiles) opened(id uint64, d tensorfs.Data) (backing int32, passed bool) {
	if s == nil {
		return 0, false
	}
	f, ok := d.(storedFile)
	if !ok {
		return 0, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.open[id]; o != nil {
		o.opens++
		return o.backing, true
	}
	if s.off {
		return 0, false
	}
	backing, err := s.kernel.register(f.Descriptor())
	if err != nil { // a model on overlayfs or on another FUSE mount: ELOOP
		s.off = true
		s.log.Debug("the kernel does not read the model's files by itself", "error", err)
		return 0, false
	}
	s.open[id] = &openStored{1, backing}
	return backing, true
}

// released ends an open, and reports whether it was one of these.
func (s *storedFiles) released(id uint64) bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.open[id]
	if o == nil {
		return false
	}
	if o.opens--; o.opens == 0 {
		delete(s.open, id)
		s.kernel.unregister(o.backing)
	}
	return true
}
