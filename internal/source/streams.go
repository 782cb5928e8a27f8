package source

import (
	"sync/atomic"

	"github.com/tensorfs/tensorfs/internal/source/direct"
	"github.com/tensorfs/tensorfs/internal/source/readahead"
)

// streams has the memory for readers that go on through files of this machine.
var streams direct.Pool

// onlySlow is set if only slow files are read past the page cache.
var onlySlow atomic.Bool

// ReadDirect has files that are opened from here on read past the page cache where a reader
// goes on through one and its bytes are not in memory. most is asked how many bytes of
// memory that may take. It is for a process whose readers keep what they get, as the kernel
// does for a mount: they do not find the file in the page cache afterwards.
func ReadDirect(most func() int64) {
	onlySlow.Store(false)
	streams.Allow(most)
}

// ReadSlowDirect does so only for files that are slow to read through the page cache: see
// Mapped.Slow. It is for a command, whose next run finds all other files in the page cache.
func ReadSlowDirect(most func() int64) {
	onlySlow.Store(true)
	streams.Allow(most)
}

// Through the page cache the kernel is told of 32 MiB; a stream past it widens its window.
var (
	cachedWindow = readahead.Window{Ahead: 32 << 20, Piece: 8 << 20, Beyond: 8 << 20}
	directWindow = readahead.Window{Ahead: direct.Stream, Piece: direct.Size, Beyond: direct.Size, Onward: true, Shared: true}
)

// follow prepares a file that is being opened for streams.
func (m *Mapped) follow(size int64) {
	m.ahead.Window = cachedWindow
	m.undecided = streams.Allowed()
	m.direct = streams.File(m.fd, size, m.ahead.Widen)
}

// decide finds at the first stream through the file whether it is read past the page cache.
func (m *Mapped) decide() {
	m.decided.Do(func() {
		if !onlySlow.Load() && m.step() < enoughAhead || m.Slow() {
			m.ahead.Change(directWindow)
		} else {
			m.direct.Refuse()
		}
	})
}

// begin has the pieces of a span read that are not in the page cache. It returns where the
// first of them begins that cannot be had, or the span's end.
func (m *Mapped) begin(s readahead.Span) int64 {
	if !m.direct.Usable() {
		return s.From
	}
	for at := s.From / direct.Size * direct.Size; at < s.To; at += direct.Size {
		if !m.cached(at, min(at+direct.Size, m.Size())) && !m.direct.Begin(at) {
			return max(at, s.From)
		}
	}
	return s.To
}

// copyOut reads len(p) bytes, which are inside the file: from pieces, and what is in none
// by system calls.
func (m *Mapped) copyOut(p []byte, off int64) error {
	if !m.direct.Usable() {
		_, err := m.f.ReadAt(p, off)
		return err
	}
	for len(p) > 0 {
		n := m.direct.ReadAt(p, off)
		if n == 0 {
			n = int(min(int64(len(p)), direct.Size-off%direct.Size))
			if _, err := m.f.ReadAt(p[:n], off); err != nil {
				return err
			}
		}
		p, off = p[n:], off+int64(n)
	}
	return nil
}
