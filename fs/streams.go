package fs

import "sync"

const (
	// streamReach is how far a request may be off the place where a sequential
	// reader is expected: the kernel sends several at a time, in any order.
	streamReach = 4 << 20
	// dropUnit is how much is dropped at a time, and how much of what was dropped
	// before is dropped once more: the kernel keeps pages in groups of a megabyte
	// or more and drops none of a group that lies only half in the range.
	dropUnit = 8 << 20
	// maxStreams bounds how many readers are told apart. A reader that is
	// forgotten is a new one the next time.
	maxStreams = 32
)

// stream is a reader that goes through a file from front to back. It is told by
// where it reads and not by its handle, because readers share handles and open
// files anew.
type stream struct {
	id      uint64 // node; 0 for none
	start   int64  // where it began
	next    int64  // end of what was read
	dropped int64  // end of what was dropped
	used    uint64
}

// streams are the readers of a mount.
type streams struct {
	mu    sync.Mutex
	clock uint64
	slots [maxStreams]stream
}

// read notes that n bytes at off were read from a file of the given size and
// returns the range that lies behind the reader by now, or an empty one.
func (s *streams) read(id uint64, off, n, size int64) (from, to int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock++
	oldest := &s.slots[0]
	for i := range s.slots {
		x := &s.slots[i]
		if x.id == id && off >= x.next-streamReach && off <= x.next+streamReach {
			x.used = s.clock
			x.next = max(x.next, off+n)
			return x.behind(size)
		}
		if x.used < oldest.used {
			oldest = x
		}
	}
	*oldest = stream{id: id, start: off, next: off + n, dropped: off, used: s.clock}
	return 0, 0
}

// behind returns the next range to drop.
func (x *stream) behind(size int64) (from, to int64) {
	from, to = x.dropped, x.next-streamReach
	if x.next >= size {
		to = size
	} else if to-from < dropUnit {
		return 0, 0
	}
	x.dropped = to
	return max(x.start, from-dropUnit), to
}
