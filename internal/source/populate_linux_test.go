package source

import (
	"os"
	"path/filepath"
	"testing"
	"unsafe"

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

// TestViewPopulates holds that a view has its pages in memory before anybody
// touches them, and not those of the whole file before it.
func TestViewPopulates(t *testing.T) {
	const size, off = 64 << 20, 48<<20 + 4321
	page := int64(os.Getpagesize())
	for _, n := range []int64{1, 3 * page} {
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
