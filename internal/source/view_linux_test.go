package source

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"github.com/tensorfs/tensorfs"
	"golang.org/x/sys/unix"
)

// resident returns how many pages of mem the kernel holds.
func resident(t *testing.T, mem []byte) (n int) {
	t.Helper()
	page := os.Getpagesize()
	in := make([]byte, (len(mem)+page-1)/page)
	if _, _, e := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&mem[0])), uintptr(len(mem)), uintptr(unsafe.Pointer(&in[0]))); e != 0 {
		t.Fatal(e)
	}
	for _, b := range in {
		n += int(b & 1)
	}
	return n
}

// TestViewPopulates holds that the pages of a long view are in memory before they are touched, and
// not the pages of the file before it.
func TestViewPopulates(t *testing.T) {
	const size, off = 64 << 20, 48<<20 + 4321
	page := int64(os.Getpagesize())
	for _, n := range []int64{mostCopied + 1, mostCopied + 3*page} {
		path := filepath.Join(t.TempDir(), "hole")
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, size); err != nil {
			t.Fatal(err)
		}
		m := open(t, path)
		b, _, err := m.View(off, n)
		if err != nil {
			t.Fatal(err)
		}
		start := off / page * page
		end := roundUp(off+n, page)
		if got, want := resident(t, m.mem[start:end]), int((end-start)/page); got != want || int64(len(b)) != n {
			t.Errorf("%d bytes: %d of %d pages are there", n, got, want)
		}
		// Read-ahead may bring some neighbours.
		if got := resident(t, m.mem[:start-16<<20]); got != 0 {
			t.Errorf("%d bytes: %d pages far before them are there", n, got)
		}
	}
}

// TestPopulateUnknown holds that a kernel which cannot populate is not an error:
// it answers EINVAL, as it does here for memory that starts inside a page.
func TestPopulateUnknown(t *testing.T) {
	path, _ := write(t, 4*os.Getpagesize())
	m := open(t, path)
	if err := unix.Madvise(m.mem[1:100], unix.MADV_POPULATE_READ); err != unix.EINVAL {
		t.Skipf("NOT TESTED: the kernel answers %v", err)
	}
	if err := populate(m.mem[1:], 0, 99); err != nil {
		t.Error(err)
	}
}

// TestViewRange holds that a view ends with its section.
func TestViewRange(t *testing.T) {
	path, _ := write(t, 3*4096)
	s := open(t, path).Section(4000, 5000).(*MappedSection)
	for _, r := range [][2]int64{{-1, 1}, {0, 5001}, {5001, 0}, {4999, 2}, {1 << 62, 1 << 62}} {
		if _, _, err := s.View(r[0], r[1]); err == nil {
			t.Errorf("View(%d, %d) reads outside of the section", r[0], r[1])
		}
	}
	path, _ = write(t, 0)
	if b, _, err := open(t, path).View(0, 0); err != nil || len(b) > 0 {
		t.Errorf("View of nothing: %d bytes, %v", len(b), err)
	}
}

// A page that goes away while Go code reads it is an error, not a crash.
func TestPageLostInView(t *testing.T) {
	path, _ := write(t, 4*4096)
	f := open(t, path)
	b, memory, err := f.View(0, f.Size())
	if err != nil {
		t.Fatal(err)
	}
	err = tensorfs.Guard(func() error {
		if err := os.Truncate(path, 0); err != nil {
			t.Fatal(err)
		}
		sum := byte(0)
		for _, x := range b {
			sum += x
		}
		t.Logf("read all of a truncated mapping: %d", sum) // a fault must have come before
		return nil
	}, memory)
	if !errors.Is(err, tensorfs.ErrChanged) || !strings.Contains(err.Error(), path) {
		t.Errorf("Guard: %v, want ErrChanged of %s", err, path)
	}
}

// TestHolds holds whose fault a lost page is: of this file are the addresses of
// its pages, to the end of the last.
func TestHolds(t *testing.T) {
	page := os.Getpagesize()
	for _, size := range []int{1, page - 1, page, page + 1, 2*page - 1, 2 * page} {
		path, _ := write(t, size)
		m := open(t, path)
		start, pages := uintptr(unsafe.Pointer(&m.mem[0])), uintptr((size+page-1)/page*page)
		for addr, want := range map[uintptr]bool{start - 1: false, start: true, start + pages - 1: true, start + pages: false} {
			if got := m.holds(addr); got != want {
				t.Errorf("%d bytes, address %d: %v", size, int64(addr-start), got)
			}
		}
	}
}
