package fs

import (
	"errors"
	iofs "io/fs"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/tensorfs/tensorfs"
)

// errno turns an error of reading into the error number that the reader gets. A
// model that changed, a page that is lost and a file that cannot be decoded are
// all EIO: the promised bytes are not available. Of a model that is on a server
// the error says more: another version, no permission, no answer in time.
func errno(err error) fuse.Status {
	if err == nil {
		return fuse.OK
	}
	for _, no := range []syscall.Errno{syscall.ESTALE, syscall.EACCES, syscall.ETIMEDOUT, syscall.ENOENT} {
		if errors.Is(err, no) {
			return fuse.Status(no)
		}
	}
	if errors.Is(err, iofs.ErrNotExist) {
		return fuse.ENOENT
	}
	return fuse.EIO
}

const (
	// maxReported bounds the memory that reports take when every file fails.
	maxReported = 1000
	// reportBurst is how many files are reported in reportPeriod.
	reportBurst  = 20
	reportPeriod = time.Minute
)

// reports remembers which files were reported, because errno drops the text and a
// reader repeats a failing read many times. A file that fails while too many
// others do is reported when it fails later.
type reports struct {
	mu      sync.Mutex
	seen    map[uint64]struct{}
	since   time.Time
	n       int // in the period that began then
	omitted int // complaints left out since the last one
}

// first reports whether to complain about a node, which is true once, and how many
// complaints about others were left out before. last says that it is the last
// complaint that will be made.
func (r *reports) first(id uint64, now time.Time) (first, last bool, omitted int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.seen[id]; ok || len(r.seen) >= maxReported {
		return false, false, 0
	}
	if now.Sub(r.since) >= reportPeriod {
		r.since, r.n = now, 0
	}
	if r.n == reportBurst {
		r.omitted++
		return false, false, 0
	}
	r.n++
	omitted, r.omitted = r.omitted, 0
	if r.seen == nil {
		r.seen = make(map[uint64]struct{})
	}
	r.seen[id] = struct{}{}
	return true, len(r.seen) == maxReported, omitted
}

// quiet reports whether first would return false, for whatever reason.
func (r *reports) quiet(id uint64, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.seen[id]
	return ok || len(r.seen) >= maxReported || r.n == reportBurst && now.Sub(r.since) < reportPeriod
}

// failed logs a failed read once for each cause and returns its errno: a file of
// the model that changed is one cause, whatever was read, and everything else is
// one for each file of the tree.
func (f *rawFS) failed(t *served, id uint64, off int64, err error) fuse.Status {
	switch {
	case t.slot != nil && errors.Is(err, tensorfs.ErrChanged):
		f.library.changed(t.slot, err)
		return fuse.Status(syscall.ESTALE) // what its name leads to can be read
	case !f.noteChanged(err, t.path(id)):
		f.complain(t.node|id, t.at(id), off, "read failed", err)
	}
	return errno(err)
}

// complain logs what is wrong with a file of the tree.
func (f *rawFS) complain(node uint64, path string, off int64, problem string, err error) {
	first, last, omitted := f.reports.first(node, time.Now())
	if !first {
		return
	}
	attrs := []any{"file", path, "offset", off}
	if err != nil {
		attrs = append(attrs, "error", err)
	}
	if omitted > 0 {
		attrs = append(attrs, "not_logged", omitted)
	}
	f.opts.Logger.Error(problem, attrs...)
	if last {
		f.opts.Logger.Error("too many files failed: further ones are not logged")
	}
}
