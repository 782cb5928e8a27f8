package fs

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// sentReplies remembers the last replies from mapped memory. When the kernel could not copy
// one, because a page could not be read, go-fuse logs that without naming the reply. It
// does that after the reply is done, so it is one of these.
type sentReplies struct {
	next atomic.Uint32
	last [64]atomic.Pointer[mapped] // more than are under way at a time

	mu     sync.Mutex // of the search for lost pages
	passed time.Time  // when a lost page was last logged that could be read again
}

func (s *sentReplies) add(m *mapped) { s.last[s.next.Add(1)%uint32(len(s.last))].Store(m) }

// forget forgets the replies from the tree of a slot, whose memory is about to go.
func (s *sentReplies) forget(slot uint64) {
	for i := range s.last {
		if m := s.last[i].Load(); m != nil && m.id>>slotBits == slot {
			s.last[i].CompareAndSwap(m, nil)
		}
	}
}

// pinned calls fn with a reply that is remembered, while its memory is there.
func (f *rawFS) pinned(i int, fn func(*mapped)) {
	m := f.sent.last[i].Load()
	if m == nil {
		return
	}
	if f.library != nil {
		s, open := f.library.pin(m.id)
		if !open {
			return
		}
		defer f.library.leave(s)
		if s.tree != m.tree { // it was closed, and opened again
			return
		}
	}
	fn(m)
}

// passingPeriod is the shortest time between two messages about lost pages that
// can be read again when they are looked for.
const passingPeriod = time.Hour

// lost logs which of the files that were read last have pages that cannot be read.
// A file is tried only until it has been reported.
func (f *rawFS) lost() {
	f.sent.mu.Lock()
	defer f.sent.mu.Unlock()
	if f.opts.Check != nil && f.noteChanged(f.opts.Check(), f.opts.FsName) {
		return
	}
	found := false
	for i := range f.sent.last {
		f.pinned(i, func(m *mapped) {
			if f.known(m.id) {
				found = true
				return
			}
			for _, s := range m.slices {
				if !readable(s) {
					found = true
					f.complain(m.id, "a page of the model was lost: it cannot be read; the reader got an I/O error", "file", m.tree.at(local(m.id)), "offset", m.off)
					break
				}
			}
		})
	}
	if now := time.Now(); !found && now.Sub(f.sent.passed) > passingPeriod {
		f.sent.passed = now
		f.opts.Logger.Warn("a page of the model was lost for a moment; a reader got an I/O error")
	}
}

// fuseLog passes on go-fuse's messages. They only matter for debugging, except
// when the kernel could not copy a reply from mapped memory.
type fuseLog struct{ f *rawFS }

// Write takes a line.
func (w fuseLog) Write(p []byte) (int, error) {
	line := strings.TrimSpace(string(p))
	w.f.opts.Logger.Debug(line)
	if strings.Contains(line, "bad address") {
		w.f.lost()
	}
	return len(p), nil
}
