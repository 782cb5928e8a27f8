package source

import (
	"errors"
	"os"
	"unsafe"

	"github.com/tensorfs/tensorfs"
	"golang.org/x/sys/unix"
)

// View maps [off, off+n) if it is in memory, or is longer than what is copied in one go.
// See tensorfs.Viewer.
func (m *Mapped) View(off, n int64) ([]byte, tensorfs.Memory, error) {
	return m.view(off, n, 0, m.Size())
}

// mostCopied is the longest view that is a copy, for which its reader needs a buffer. One
// that is longer is of bytes in a row, such as a header.
const mostCopied = 4 << 20

// view is View for a reader of the section [start, end).
func (m *Mapped) view(off, n, start, end int64) ([]byte, tensorfs.Memory, error) {
	if err := tensorfs.CheckRange(m, off, n); err != nil {
		return nil, nil, err
	}
	if n <= mostCopied && !m.inMemory(off, n) {
		return nil, nil, nil
	}
	m.readAhead(off, n, start, end)
	if err := populate(m.mem, off, n); err != nil {
		if cerr := m.Check(); cerr != nil {
			return nil, nil, cerr
		}
		return nil, nil, m.readError(n, off, err)
	}
	return m.mem[off : off+n : off+n], m, nil
}

// Lost returns the error of a page of this file that was lost under a reader. See
// tensorfs.Memory.
func (m *Mapped) Lost(addr uintptr) error {
	if !m.holds(addr) {
		return nil
	}
	return m.changes.mark(m.path, "a page was lost while it was read")
}

// holds reports whether addr lies in the mapping.
func (m *Mapped) holds(addr uintptr) bool {
	start := uintptr(unsafe.Pointer(unsafe.SliceData(m.mem)))
	return addr >= start && addr-start < uintptr(roundUp(int64(len(m.mem)), int64(os.Getpagesize())))
}

func roundUp(n, to int64) int64 { return (n + to - 1) / to * to }

// View returns the bytes [off, off+n) of the section. See tensorfs.Viewer.
func (s *MappedSection) View(off, n int64) ([]byte, tensorfs.Memory, error) {
	if err := tensorfs.CheckRange(s, off, n); err != nil {
		return nil, nil, err
	}
	return s.file.view(s.off+off, n, s.off, s.off+s.n)
}

// populate makes the pages of [off, off+n) present with one blocking system
// call. Kernels before 5.14 lack it; then the pages come by faults, which are
// slower and still guarded.
func populate(mem []byte, off, n int64) error {
	if n == 0 {
		return nil
	}
	page := int64(os.Getpagesize())
	start := off / page * page
	err := unix.Madvise(mem[start:off+n], unix.MADV_POPULATE_READ)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		return nil
	}
	return err
}

var (
	_ tensorfs.Memory = (*Mapped)(nil)
	_ tensorfs.Viewer = (*Mapped)(nil)
	_ tensorfs.Viewer = (*MappedSection)(nil)
)
