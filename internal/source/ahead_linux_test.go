package source

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
	"golang.org/x/sys/unix"
)

// A reader that goes on through a section has its next pages brought in, and one
// that reads here and there has not.
func TestAheadBringsIn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	b := make([]byte, 40<<20)
	for i := range b {
		b[i] = byte(i>>12) | 1 // no holes
	}
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		t.Fatal(err)
	}
	m, err := Map(path, "file")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	m.stepOnce.Do(func() { m.advised = leastAdvised })            // whatever disk this is
	if err := unix.Madvise(m.mem, unix.MADV_RANDOM); err != nil { // no read-ahead by the kernel
		t.Fatal(err)
	}
	const far = 24 << 20
	if resident(t, m.mem) > 0 {
		t.Skip("NOT TESTED: the page cache of this file system cannot be emptied")
	}
	s := m.Section(far, 14<<20)
	for off := int64(0); off < 2<<20; off += 512 << 10 {
		if _, err := s.ReadAt(make([]byte, 512<<10), off); err != nil {
			t.Fatal(err)
		}
	}
	m.coming.Wait()
	next := m.mem[far+2<<20 : far+4<<20]
	testlimit.Wait(t, "pages ahead of the reader", func() bool { return resident(t, next) == len(next)/os.Getpagesize() })
}
