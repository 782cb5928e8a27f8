package source

import "sync"

// ahead finds the readers that go on through a mapped file, so that its pages can
// be brought in before they are asked for. A page fault, and MADV_POPULATE_READ,
// which causes many, waits for the disk at one place at a time: without this a
// disk is idle while bytes are converted or sent, and the processors while it reads.
//
//	          next           ahead
//	...read...|....coming....|            a stream: where its reader is, and
//	          |<---- window ---->|        how far the file was asked for
//
// Only where a reader goes on is anything asked for: a stream begins after
// firstRun bytes in a row, or with a larger read at the start of a long section.
type ahead struct {
	mu      sync.Mutex
	streams [maxAhead]stream
	clock   uint32
}

// stream is a reader that goes on through the file.
type stream struct {
	next  int64  // the end of what it read
	ahead int64  // up to here the file was asked for
	run   int64  // bytes that it read in a row
	used  uint32 // when it read last, by the clock
}

const (
	maxAhead = 16 // streams of a file; the one not used for longest makes room
	smallest = 16 << 10
	firstRun = 512 << 10
	// The reads of one reader arrive in another order: several are under way.
	backward = 8 << 20
	forward  = 4 << 20
	// A section of longSection that is read from its start by firstRead bytes or
	// more is taken to be read as a whole.
	longSection = 4 << 20
	firstRead   = 256 << 10

	minWindow = 2 << 20
	maxWindow = 32 << 20
	piece     = 8 << 20 // asked for in one go
	// A window ends a little after its section: what follows is often read next.
	beyond = 8 << 20
)

// span is a range of a file.
type span struct{ from, to int64 }

// read notes that [off, off+n) of the section [start, end) is about to be read. It
// appends to dst what is to be brought in now.
func (a *ahead) read(dst []span, off, n, start, end int64) []span {
	// Of two reads at the same instant one is not noted; there will be others.
	if !a.mu.TryLock() {
		return dst
	}
	defer a.mu.Unlock()
	a.clock++
	s := a.find(off)
	if s == nil {
		if n < smallest {
			return dst
		}
		s = a.oldest()
		*s = stream{next: off, ahead: off}
		if off == start && n >= firstRead && end-start >= longSection {
			s.run = minWindow
		}
	}
	s.used = a.clock
	s.next = max(s.next, off+n)
	s.run = min(s.run+n, maxWindow)
	if s.run < firstRun {
		return dst
	}
	s.ahead = max(s.ahead, off)
	limit := min(s.next+min(max(2*s.run, minWindow), maxWindow), end+beyond)
	// In whole pieces, but up to the next read at once.
	for s.ahead < s.next || s.ahead+piece <= limit {
		to := min(s.ahead+piece, limit)
		dst = append(dst, span{s.ahead, to})
		s.ahead = to
	}
	return dst
}

// find returns the stream that a read at off continues.
func (a *ahead) find(off int64) *stream {
	for i := range a.streams {
		if s := &a.streams[i]; s.used != 0 && off >= s.next-backward && off <= s.next+forward {
			return s
		}
	}
	return nil
}

// oldest returns the stream that was not used for longest.
func (a *ahead) oldest() *stream {
	s := &a.streams[0]
	for i := range a.streams {
		if t := &a.streams[i]; a.clock-t.used > a.clock-s.used || t.used == 0 {
			s = t
		}
	}
	return s
}
