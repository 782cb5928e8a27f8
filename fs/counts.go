package fs

import (
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// Counts are a server's operations since it began. They do not include what the kernel
// reads without the server.
type Counts struct {
	// Read has the bytes that were read of each directory of the root, which are the views.
	Read map[string]int64 `json:"read,omitempty"`
	// Failed has how many reads failed, by the error that readers got, such as EIO.
	Failed map[string]int64 `json:"failed,omitempty"`
	// Fetched is how many bytes came from other machines, Cached how many were read of what had come before. Files
	// that are in the cache as a whole are mapped, and not counted.
	Fetched int64 `json:"fetched,omitempty"`
	Cached  int64 `json:"cached,omitempty"`
}

// counter counts for the tree of a single model.
type counter struct {
	read   map[string]*atomic.Int64 // by the name of a directory of the root; none is added later
	mu     sync.Mutex
	failed map[string]int64
}

func newCounter(t *nodes) *counter {
	c := &counter{read: map[string]*atomic.Int64{}, failed: map[string]int64{}}
	for k := range t.dirs {
		if d := &t.dirs[k]; d.parent == Root && d.id != Root {
			c.read[strings.TrimSuffix(d.path, "/")] = new(atomic.Int64)
		}
	}
	return c
}

// wasRead counts bytes of a node.
func (c *counter) wasRead(t *nodes, id uint64, n int) {
	if c == nil {
		return
	}
	d := t.owner(id)
	if d == nil {
		return
	}
	view, _, _ := strings.Cut(d.path, "/")
	if count := c.read[view]; count != nil {
		count.Add(int64(n))
	}
}

// hasFailed counts a read that failed.
func (c *counter) hasFailed(st fuse.Status) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed[unix.ErrnoName(syscall.Errno(st))]++
}

// counts returns the counters, nil if all are 0.
func (f *rawFS) counts() *Counts {
	c := f.counter
	switch {
	case c == nil && f.opts.Traffic == nil:
		return nil
	case c == nil: // a library that is read from other machines
		now := &Counts{}
		now.Fetched, now.Cached = f.opts.Traffic()
		return now
	}
	now := &Counts{Read: map[string]int64{}, Failed: map[string]int64{}}
	for view, n := range c.read {
		if n := n.Load(); n > 0 {
			now.Read[view] = n
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, n := range c.failed {
		now.Failed[name] = n
	}
	if f.opts.Traffic != nil {
		now.Fetched, now.Cached = f.opts.Traffic()
	}
	return now
}
