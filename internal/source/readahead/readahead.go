// Package readahead detects sequential readers of a file, and predicts their next reads, so
// that the bytes can be fetched before they are asked for:
//
//	          next           ahead
//	...read...|....coming....|            a stream: where its reader is, and
//	          |<---- window ---->|        how far the file was asked for
//
// Only where a reader goes on is anything asked for: a stream begins after some
// bytes in a row, or with a larger read at the start of a long section.
package readahead

import "sync"

// A Tracker follows the readers of one file. Its zero value reads nothing ahead.
type Tracker struct {
	Window

	mu      sync.Mutex
	streams [maxStreams]stream
	clock   uint32
	jumps   jumps // if Onward
}

// Window is what of a file is asked for ahead of its readers.
type Window struct {
	// Ahead is how far ahead of a reader the file is asked for at most, in bytes.
	Ahead int64
	// Piece is how much is asked for in one go.
	Piece int64
	// Beyond is how far a window goes on after the end of its section.
	Beyond int64
	// Onward lets a window go on after the end of its section by as much as its
	// reader read in a row before it came into the section: who went from one section
	// to the next will go to another. If readers went from such a section to another part
	// of the file before, the window goes on there.
	Onward bool
	// Shared divides Ahead among the streams that read lately and are not at the end of their
	// section. Each has at least one piece.
	Shared bool
}

// Span is the range [From, To) of a file.
type Span struct{ From, To int64 }

// stream is a reader that goes on through the file.
type stream struct {
	next  int64  // the end of what it read
	ahead int64  // up to here the file was asked for
	run   int64  // bytes that it read in a row, or is taken to
	read  int64  // bytes that it did
	used  uint32 // when it read last, by the clock

	section Span // that it is in
}

const (
	maxStreams = 16 // the one not used for longest makes room
	lately     = 4 * maxStreams
	minWindow  = 2 << 20
	smallest   = 16 << 10 // a read that may begin a stream
	firstRun   = 512 << 10
	// The reads of one reader arrive in another order: several are under way.
	backward = 8 << 20
	forward  = 4 << 20
	// A section of longSection that is read from its start by firstRead bytes or
	// more is taken to be read as a whole.
	longSection = 4 << 20
	firstRead   = 128<<10 + 1 // what a reader of a few bytes never causes
)

// Read notes that [off, off+n) of the section [start, end) is about to be read. It
// appends to dst what is to be brought in now, which may begin with what is read.
func (t *Tracker) Read(dst []Span, off, n, start, end int64) []Span {
	// Of two reads at the same instant one is not noted; there will be others.
	if !t.mu.TryLock() {
		return dst
	}
	defer t.mu.Unlock()
	if t.Ahead == 0 {
		return dst
	}
	t.clock++
	s := t.streamAt(off)
	if s == nil {
		if n < smallest {
			return dst
		}
		s = t.oldest()
		*s = stream{next: off, ahead: off}
		if off == start && n >= firstRead && end-start >= longSection {
			s.run = minWindow
		}
		if off == start {
			if ahead, run, ok := t.jumps.arrived(start); ok {
				s.ahead, s.run = max(off, ahead), run
			}
		}
	}
	s.used = t.clock
	s.next = max(s.next, off+n)
	s.run, s.read = min(s.run+n, t.Ahead), min(s.read+n, t.Ahead)
	if s.run < firstRun {
		return dst
	}
	s.ahead = max(s.ahead, off)
	section := Span{start, end}
	window, beyond := min(max(2*s.run, minWindow), t.each(s)), t.Beyond
	entered, leads := s.section != section, false
	s.section = section
	if t.Onward {
		if entered {
			t.jumps.enter(section)
		}
		if leads = t.jumps.leads(section); leads {
			beyond = 0
		} else {
			beyond = max(beyond, s.read-(s.next-start))
		}
	}
	limit := min(s.next+window, end+beyond)
	// In whole chunks, but at once up to the next read. If the reader was further on, in
	// another section, the end of this one comes first.
	for s.ahead < min(s.next, limit) || s.ahead+t.Piece <= limit {
		to := min(s.ahead+t.Piece, limit)
		dst = append(dst, Span{s.ahead, to})
		s.ahead = to
	}
	if leads && limit == end {
		dst = t.jumps.foretell(dst, section, window-max(end-s.next, 0), t.Piece, s.run)
	}
	return dst
}

// each returns how far ahead of each reader the file is asked for at most. now is the stream that reads. mu is held.
func (t *Tracker) each(now *stream) int64 {
	if !t.Shared {
		return t.Ahead
	}
	reading := int64(0)
	for i := range t.streams {
		if s := &t.streams[i]; s == now || s.used != 0 && t.clock-s.used < lately && s.next < s.section.To {
			reading++
		}
	}
	return min(t.Ahead, max(t.Ahead/reading, t.Piece))
}

// Change changes the window for later reads.
func (t *Tracker) Change(w Window) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Window = w
}

// Widen changes how far ahead of later reads the file is asked for.
func (t *Tracker) Widen(ahead int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Ahead = ahead
}

// streamAt returns the stream that a read at off continues.
func (t *Tracker) streamAt(off int64) *stream {
	for i := range t.streams {
		if s := &t.streams[i]; s.used != 0 && off >= s.next-backward && off <= s.next+forward {
			return s
		}
	}
	return nil
}

// oldest returns the stream that was not used for longest.
func (t *Tracker) oldest() *stream {
	oldest := &t.streams[0]
	for i := range t.streams {
		if s := &t.streams[i]; t.clock-s.used > t.clock-oldest.used {
			oldest = s
		}
	}
	return oldest
}
