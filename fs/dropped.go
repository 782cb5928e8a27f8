package fs

import (
	"sync"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// dropped makes the kernel forget pages that somebody wrote to. That takes a
// mount that root remounted writable: the kernel was told not to ask when a file
// is opened, so it lets root map one for writing. The write that comes of it is
// refused, but the page would stay in the cache as it was changed, for all to
// see, and only the kernel can drop it.
type dropped struct {
	mu      sync.Mutex
	pending map[uint64]bool
	running bool
	once    sync.Once
}

// drop has the pages of a node dropped soon. It must not wait: the kernel holds
// them locked until the write is answered.
func (d *dropped) drop(id uint64, notify func(id uint64)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pending == nil {
		d.pending = make(map[uint64]bool)
	}
	d.pending[id] = true
	if !d.running {
		d.running = true
		go d.run(notify)
	}
}

func (d *dropped) run(notify func(id uint64)) {
	for {
		d.mu.Lock()
		var id uint64
		for id = range d.pending {
			break
		}
		if len(d.pending) == 0 {
			d.running = false
			d.mu.Unlock()
			return
		}
		delete(d.pending, id) // first: a write from now on asks again
		d.mu.Unlock()
		notify(id)
	}
}

// refuseWrite answers a write.
func (f *rawFS) refuseWrite(id uint64) fuse.Status {
	f.dropped.once.Do(func() {
		f.opts.Logger.Warn("somebody remounted the model writable and wrote to a file; what is written is dropped", "file", f.nodes.path(id))
	})
	if f.server != nil {
		f.dropped.drop(id, func(id uint64) { f.server.InodeNotify(id, 0, 0) })
	}
	return fuse.EROFS
}
