package source

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/source/direct"
	"github.com/tensorfs/tensorfs/internal/source/readahead"
	"golang.org/x/sys/unix"
)

// Mapped is a mapped file of this machine. Besides being a File, it is a
// tensorfs.PartSlicer, and so are its sections. On Linux they are a tensorfs.Viewer too.
//
// The mapping is for bytes that are in memory, for which it saves a copy. All other bytes
// are read by system calls, as by any other program: a page fault brings in the disk's
// whole read-ahead around each missing page, and on systems other than Linux it would stop
// all goroutines of a processor. See ReadDirect for bytes of a stream.
type Mapped struct {
	path    string // for messages
	label   string // name below source/, for extents
	f       *os.File
	fd      int
	mem     []byte
	modTime time.Time
	changes changes
	ahead   readahead.Tracker
	coming  sync.WaitGroup // what is being brought in
	direct  *direct.File   // what is read past the page cache
	hold    hold

	undecided bool // until decided, whether the file is read past the page cache
	decided   sync.Once

	stepOnce sync.Once
	advised  int64 // see step

	told     sync.Once
	residing bool // whether mincore tells what is in memory
}

// Map maps the regular file at path. label is its name below source/. It never
// blocks on a FIFO and follows symbolic links, so the path must be the user's own:
// see OpenNamed and Directory for others.
func Map(path, label string) (*Mapped, error) {
	f, err := os.OpenFile(path, readOnly, 0)
	if err != nil {
		return nil, tensorfs.PathError(path, err)
	}
	return newMapped(f, path, label)
}

// MapFile maps an open file, which it owns from here on, also on error. Changes of
// its mtime mean nothing: its owner keeps it, and touches it.
func MapFile(f *os.File, path, label string, modTime time.Time) (*Mapped, error) {
	m, err := mapOpen(f, path, label)
	if err != nil {
		return nil, err
	}
	m.modTime = modTime
	m.IgnoreModTime()
	return m, nil
}

// readOnly is how every file is opened: it never waits for a FIFO or a device,
// and newMapped looks at what was opened.
const readOnly = os.O_RDONLY | unix.O_NONBLOCK

// newMapped maps an open file of a model and owns it from here on, also on error.
func newMapped(f *os.File, path, label string) (*Mapped, error) {
	if err := CheckConfined(f, path); err != nil {
		return nil, err
	}
	return mapOpen(f, path, label)
}

// mapOpen is newMapped for any file.
func mapOpen(f *os.File, path, label string) (*Mapped, error) {
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = tensorfs.NotRegular(path, st.Mode())
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	m := &Mapped{path: path, label: label, f: f, fd: int(f.Fd()), modTime: st.ModTime()}
	m.follow(st.Size())
	var now unix.Stat_t
	if err := unix.Fstat(m.fd, &now); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", tensorfs.Printable(path), err)
	}
	m.changes.remember(&now)
	if st.Size() > 0 {
		m.mem, err = unix.Mmap(int(f.Fd()), 0, int(st.Size()), unix.PROT_READ, unix.MAP_SHARED)
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("%s: cannot map %d bytes: %w", tensorfs.Printable(path), st.Size(), err)
		}
	}
	return m, nil
}

// Path returns the path that the file was opened by.
func (m *Mapped) Path() string { return m.path }

// Label returns the file's name below source/.
func (m *Mapped) Label() string { return m.label }

// SetLabel gives the file another name below source/.
func (m *Mapped) SetLabel(label string) { m.label = label }

// ModTime returns the file's modification time when it was opened.
func (m *Mapped) ModTime() time.Time { return m.modTime }

// Size returns the file's length when it was opened.
func (m *Mapped) Size() int64 { return int64(len(m.mem)) }

// IgnoreModTime makes Check ignore a different mtime. It is for files that are
// named by the hash of their bytes: their owner touches them to say that they are
// still in use and never writes to them. Call it before the file is shared.
func (m *Mapped) IgnoreModTime() { m.changes.touched = true }

// Descriptor returns the file's descriptor, through which the kernel can read the
// file without this process. It is for as long as the file is open.
func (m *Mapped) Descriptor() int { return m.fd }

// Same reports whether two open files are one.
func Same(a, b tensorfs.Data) bool {
	type descriptor interface{ Descriptor() int }
	x, ok := a.(descriptor)
	y, yok := b.(descriptor)
	var s, t unix.Stat_t
	return ok && yok && unix.Fstat(x.Descriptor(), &s) == nil && unix.Fstat(y.Descriptor(), &t) == nil && s.Ino == t.Ino && s.Dev == t.Dev
}

// Close unmaps the file. No Section of it may be used afterwards.
func (m *Mapped) Close() error {
	m.changes.stop()
	m.coming.Wait()
	m.direct.Close()
	var err error
	if m.mem != nil {
		err = unix.Munmap(m.mem)
		m.mem = nil
	}
	return errors.Join(err, m.f.Close())
}

// Check returns a *tensorfs.ChangedError once the file is not what it was when it
// was opened. See changes.
func (m *Mapped) Check() error { return m.changes.check(m.fd, m.path) }

// State returns what the file was when it was opened. See tensorfs.Stated.
func (m *Mapped) State() tensorfs.FileState { return m.changes.state() }

// ReadAt implements io.ReaderAt.
func (m *Mapped) ReadAt(p []byte, off int64) (int, error) { return m.readAt(p, off, 0, m.Size()) }

// readAt reads bytes of [start, end), where off is 0 at start.
func (m *Mapped) readAt(p []byte, off, start, end int64) (int, error) {
	n, eof := tensorfs.ClipRange(end-start, p, off)
	if n == 0 {
		return 0, eof
	}
	if err := m.pread(p[:n], start+off, start, end); err != nil {
		return 0, err
	}
	return n, eof
}

// pread reads len(p) > 0 bytes for a reader of the section [start, end), by a system
// call, which waits for the disk without stopping other goroutines.
func (m *Mapped) pread(p []byte, off, start, end int64) error {
	m.readAhead(off, int64(len(p)), start, end)
	err := m.copyOut(p, off)
	if cerr := m.Check(); cerr != nil { // the reason for the other error, if there is one
		return cerr
	}
	if err != nil {
		return m.readError(int64(len(p)), off, err)
	}
	return nil
}

// readError is the error for bytes that cannot be had although nothing has changed.
func (m *Mapped) readError(n, off int64, err error) error {
	return fmt.Errorf("%s: cannot read %d bytes at %d: %w", tensorfs.Printable(m.path), n, off, err)
}

// leastMapped is the shortest read that is worth the mapping: to ask whether its bytes are
// in memory takes as long as to copy fewer.
const leastMapped = 16 << 10

// inMemory reports whether [off, off+n) is to be had from the mapping.
func (m *Mapped) inMemory(off, n int64) bool {
	return n >= leastMapped && !m.direct.Has(off) && m.cached(off, off+n)
}

// SlicesIf appends the mapped memory of [off, off+n) if it is in memory. See
// tensorfs.PartSlicer.
func (m *Mapped) SlicesIf(dst [][]byte, off, n int64) ([][]byte, bool, error) {
	return m.slicesIf(dst, off, n, 0, m.Size())
}

// slicesIf is SlicesIf for a reader of the section [start, end).
func (m *Mapped) slicesIf(dst [][]byte, off, n, start, end int64) ([][]byte, bool, error) {
	if err := tensorfs.CheckRange(m, off, n); err != nil {
		return dst, false, err
	}
	if err := m.Check(); err != nil || !m.inMemory(off, n) {
		return dst, false, err
	}
	m.readAhead(off, n, start, end)
	return append(dst, m.mem[off:off+n:off+n]), true, nil
}

// Hold keeps other programs from changing the file. See tensorfs.Holder.
func (m *Mapped) Hold(_, _ int64) (release func(), ok bool) {
	if !m.hold.begin(m.fd) {
		return nil, false
	}
	return func() { m.hold.end(m.fd) }, true
}

// enoughAhead is a read-ahead of the disk beside which ours only costs, unless the disk is
// slow: the kernel then brings in large parts itself, and in larger pages, and keeps them.
const enoughAhead = 1 << 20

// readAhead brings in what the reader of [off, off+n) probably reads next.
func (m *Mapped) readAhead(off, n, start, end int64) {
	if m.step() >= enoughAhead && !m.direct.Usable() {
		return
	}
	var room [8]readahead.Span
	spans := m.ahead.Read(room[:0], off, n, start, end)
	if m.undecided && len(spans) > 0 {
		m.decide()
	}
	for i, s := range spans {
		if s.To = min(s.To, m.Size()); s.From >= s.To {
			continue
		}
		if s.From = m.begin(s); s.From >= s.To {
			continue
		}
		if i == 0 && s.From < off+n {
			m.bringIn(s.From, s.To) // what is read now
			continue
		}
		m.coming.Go(func() { m.bringIn(s.From, s.To) })
	}
}

// Fetch brings [off, off+n) into the page cache. See tensorfs.Fetcher.
func (m *Mapped) Fetch(ctx context.Context, off, n int64) error {
	if err := tensorfs.CheckRange(m, off, n); err != nil {
		return err
	}
	advise(m.fd, m.step(), off, off+n)
	// Reading a byte here and there waits for the pages around it.
	var b [1]byte
	for at := off; at < off+n; at += leastAdvised {
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := unix.Pread(m.fd, b[:], at); err != nil {
			return fmt.Errorf("%s: cannot read at %d: %w", tensorfs.Printable(m.path), at, err)
		}
	}
	return m.Check()
}

// leastAdvised is the kernel's usual read-ahead.
const leastAdvised = 128 << 10

// step is how much of the file is asked for at a time.
func (m *Mapped) step() int64 {
	m.stepOnce.Do(func() { m.advised = readAheadOf(m.fd) })
	return m.advised
}

// Section returns the bytes [off, off+n) as Data. It panics when they are not
// inside the file: parsers check first.
func (m *Mapped) Section(off, n int64) tensorfs.Data {
	if err := tensorfs.CheckRange(m, off, n); err != nil {
		panic(err)
	}
	m.changes.start(m.fd)
	return &MappedSection{m, off, n}
}

// MappedSection is a part of a mapped file.
type MappedSection struct {
	file   *Mapped
	off, n int64
}

// Size returns the section's length.
func (s *MappedSection) Size() int64 { return s.n }

// ReadAt implements io.ReaderAt.
func (s *MappedSection) ReadAt(p []byte, off int64) (int, error) {
	return s.file.readAt(p, off, s.off, s.off+s.n)
}

// Check asks the file. See Mapped.Check.
func (s *MappedSection) Check() error { return s.file.Check() }

// SlicesIf appends the mapped memory of [off, off+n) if it is in memory. See
// tensorfs.PartSlicer.
func (s *MappedSection) SlicesIf(dst [][]byte, off, n int64) ([][]byte, bool, error) {
	if err := tensorfs.CheckRange(s, off, n); err != nil {
		return dst, false, err
	}
	return s.file.slicesIf(dst, s.off+off, n, s.off, s.off+s.n)
}

// Fetch brings in the bytes [off, off+n) of the section. See tensorfs.Fetcher.
func (s *MappedSection) Fetch(ctx context.Context, off, n int64) error {
	if err := tensorfs.CheckRange(s, off, n); err != nil {
		return err
	}
	return s.file.Fetch(ctx, s.off+off, n)
}

// Hold keeps other programs from changing the file. See tensorfs.Holder.
func (s *MappedSection) Hold(off, n int64) (release func(), ok bool) { return s.file.Hold(off, n) }

// Extents returns the section's place in its file.
func (s *MappedSection) Extents() []tensorfs.Extent {
	return []tensorfs.Extent{{File: s.file.label, Offset: s.off, Bytes: s.n}}
}

var (
	_ File                = (*Mapped)(nil)
	_ tensorfs.Stated     = (*Mapped)(nil)
	_ tensorfs.PartSlicer = (*Mapped)(nil)
	_ tensorfs.PartSlicer = (*MappedSection)(nil)
	_ tensorfs.Checker    = (*MappedSection)(nil)
	_ tensorfs.Extenter   = (*MappedSection)(nil)
	_ tensorfs.Fetcher    = (*MappedSection)(nil)
	_ tensorfs.Holder     = (*Mapped)(nil)
	_ tensorfs.Holder     = (*MappedSection)(nil)
)
