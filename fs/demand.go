package fs

import (
	"errors"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/tensorfs/tensorfs"
)

// maxUnlisted bounds the directories that exist only because a name was looked up: each keeps its
// number.
const maxUnlisted = 1 << 16

// demand answers the look-up of a path that is not listed.
func (l *library) demand(cancel <-chan struct{}, h *fuse.InHeader, at string, out *fuse.EntryOut) fuse.Status {
	if l.OnDemand.Dir(at) {
		if !l.levels.accepts(at) {
			return fuse.Status(syscall.ENFILE)
		}
		return l.out(at, &tensorfs.Entry{Dir: tensorfs.Entries{}}, out)
	}
	req := newRequest(cancel, h.Pid)
	err := l.OnDemand.Open(req, at)
	req.end()
	var no syscall.Errno
	switch {
	case err == nil:
	case errors.Is(err, syscall.ENOENT):
		*out = fuse.EntryOut{}
		out.SetEntryTimeout(l.Fresh)
		return fuse.OK
	case errors.As(err, &no):
		return fuse.Status(no)
	default:
		return fuse.EIO
	}
	e, err := tensorfs.Find(l.Root(), at)
	if err != nil {
		return fuse.ENOENT
	}
	st := l.out(at, &e, out)
	if st.Ok() && e.Lazy != nil { // it counts as open from now on
		if _, st := l.enter(out.NodeId); st.Ok() {
			l.leave(l.slotOf(out.NodeId))
		}
	}
	return st
}

// accepts reports whether a directory that is not listed has a number, or can get one.
func (v *levels) accepts(at string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	_, ok := v.ids[at]
	return ok || len(v.ids) < maxUnlisted
}
