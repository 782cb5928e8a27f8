package fs

import (
	"errors"
	iofs "io/fs"
	"sync"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// errno turns an error of reading into what the kernel hands to the reader. A
// model that changed, a page that is lost and a file that cannot be decoded are
// all EIO: the bytes that were promised cannot be had.
func errno(err error) fuse.Status {
	switch {
	case err == nil:
		return fuse.OK
	case errors.Is(err, iofs.ErrNotExist):
		return fuse.ENOENT
	}
	return fuse.EIO
}

// maxReported bounds the memory that reports take when every file fails.
const maxReported = 1000

// reports remembers which files were complained of, because errno drops the
// text and a reader repeats a failing read many times.
type reports struct {
	mu   sync.Mutex
	seen map[uint64]struct{}
}

// first reports whether the node is complained of for the first time, and
// whether it is the last complaint that will be made.
func (r *reports) first(id uint64) (first, last bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.seen[id]; ok || len(r.seen) >= maxReported {
		return false, false
	}
	if r.seen == nil {
		r.seen = make(map[uint64]struct{})
	}
	r.seen[id] = struct{}{}
	return true, len(r.seen) == maxReported
}

// failed logs a failed read once for each file and returns its errno.
func (f *rawFS) failed(id uint64, off int64, err error) fuse.Status {
	if first, last := f.reports.first(id); first {
		f.opts.Logger.Error("read failed", "file", f.nodes.path(id), "offset", off, "error", err)
		if last {
			f.opts.Logger.Error("too many files failed: further ones are not logged")
		}
	}
	return errno(err)
}
