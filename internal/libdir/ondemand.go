package libdir

import (
	"sync"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/library"
	"github.com/tensorfs/tensorfs/internal/demand"
)

// OnDemand has the trees of a library, the models that were looked up, and tensorfs.json about them.
type OnDemand struct {
	Trees   *Trees
	Lookups *demand.Lookups
	Began   time.Time // the time of the directory before a model was looked up

	mu      sync.Mutex
	list    *library.List // that dir begins with
	count   int           // of the models that were looked up and that dir shows
	version int           // of tensorfs.json
	dir     tensorfs.Dir
}

// Root returns the top directory as it is now.
func (s *OnDemand) Root() tensorfs.Dir {
	list, dir := s.Trees.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if list != s.list {
		s.list, s.count, s.version, s.dir = list, 0, -1, dir
	}
	for _, x := range s.Lookups.Opened(s.count) {
		s.dir = tensorfs.WithEntry(s.dir, x.At, tensorfs.Entry{Lazy: x.Lazy}, time.Now())
		s.count++
	}
	if v := s.Lookups.Version(); v != s.version {
		s.version = v
		s.dir = tensorfs.WithEntry(s.dir, AboutName, tensorfs.Entry{Data: lateText(sync.OnceValue(func() tensorfs.Data { return tensorfs.Bytes(s.Lookups.About()) }))}, s.Began)
	}
	return s.dir
}

// lateText is a text that is made when it is first read.
type lateText func() tensorfs.Data

func (t lateText) Size() int64                             { return t().Size() }
func (t lateText) ReadAt(p []byte, off int64) (int, error) { return t().ReadAt(p, off) }
