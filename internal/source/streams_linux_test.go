package source

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/source/direct"
	"github.com/tensorfs/tensorfs/internal/testing/testmount"
	"golang.org/x/sys/unix"
)

// readingDirect has the files that a test opens read past the page cache.
func readingDirect(t *testing.T) {
	t.Helper()
	ReadDirect(func() int64 { return 12 * direct.Size })
	t.Cleanup(func() { streams.Forbid() })
}

const streamed = 30<<20 + 123 // no multiple of a block

// openSlow opens a file as on a disk of little read-ahead.
func openSlow(t *testing.T, path string) *Mapped {
	t.Helper()
	m := open(t, path)
	m.stepOnce.Do(func() { m.advised = leastAdvised })
	return m
}

// onDiskDirect is onDisk for a test that needs O_DIRECT.
func onDiskDirect(t *testing.T) (path string, content []byte) {
	t.Helper()
	path, content = onDisk(t, streamed)
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECT, 0)
	if err != nil {
		t.Skipf("NOT TESTED: this file system has no O_DIRECT: %v", err)
	}
	unix.Close(fd)
	m := open(t, path)
	if resident(t, m.mem) > 0 {
		t.Skip("NOT TESTED: the page cache of this file system cannot be emptied")
	}
	return path, content
}

// A stream is read past the page cache, in each way of reading, and all its bytes are right.
func TestStreams(t *testing.T) {
	readingDirect(t)
	for how, read := range readers {
		path, want := onDiskDirect(t)
		m := openSlow(t, path)
		s := m.Section(321, streamed-321)
		const step = 1<<20 - 100
		for off := int64(0); off < s.Size(); off += step {
			n := min(step, s.Size()-off)
			if b, err := read(s, off, n); err != nil || !bytes.Equal(b, want[321+off:][:n]) {
				t.Fatalf("%s: %d bytes at %d: %v, or other bytes", how, n, off, err)
			}
		}
		if got, most := resident(t, m.mem), len(m.mem)/os.Getpagesize()/4; got > most {
			t.Errorf("%s: %d pages are in the page cache, want %d at most", how, got, most)
		}
	}
}

// If only slow files are read past the page cache, a file that the kernel reads fast enough is in it afterwards.
func TestStreamsThroughCache(t *testing.T) {
	readingDirect(t)
	ReadSlowDirect(func() int64 { return 12 * direct.Size })
	path, want := onDiskDirect(t)
	m := open(t, path)
	m.stepOnce.Do(func() { m.advised = 1 << 30 }) // with which a disk may take seconds to answer
	if b, err := readers["ReadAt"](m.Section(0, streamed), 0, streamed); err != nil || !bytes.Equal(b, want) {
		t.Fatalf("%v, or other bytes", err)
	}
	if got := resident(t, m.mem); got < len(m.mem)/os.Getpagesize()/2 { // the kernel may have taken some back
		t.Errorf("only %d pages are in the page cache", got)
	}
}

// What other programs wrote before, and is not on the disk yet, is part of the file.
func TestStreamOfDirtyPages(t *testing.T) {
	readingDirect(t)
	path, want := onDiskDirect(t)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for off := int64(100_000); off < streamed-5000; off += 1 << 20 {
		copy(want[off:], bytes.Repeat([]byte{byte(off >> 20)}, 5000))
		if _, err := f.WriteAt(want[off:off+5000], off); err != nil {
			t.Fatal(err)
		}
	}
	s := openSlow(t, path).Section(0, streamed)
	for off := int64(0); off < streamed; off += 1 << 20 {
		n := min(1<<20, streamed-off)
		b := make([]byte, n)
		if err := tensorfs.ReadFull(s, b, off); err != nil || !bytes.Equal(b, want[off:off+n]) {
			t.Fatalf("%d bytes at %d: %v, or other bytes", n, off, err)
		}
	}
}

// A change while pieces are here and on their way is an error from then on, never bytes of
// before as if they were the file's, and never zeros. What leaves the open file as it is
// changes nothing.
func TestStreamFaults(t *testing.T) {
	readingDirect(t)
	for name, fault := range map[string]struct {
		do   func(path string) error
		same bool
	}{
		"truncated": {func(p string) error { return os.Truncate(p, 9<<20) }, false},
		"truncated and grown": {func(p string) error {
			return errors.Join(os.Truncate(p, 9<<20), os.Truncate(p, streamed))
		}, false},
		"overwritten": {func(p string) error {
			f, err := os.OpenFile(p, os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteAt(make([]byte, 20<<20), 5<<20)
			return errors.Join(err, f.Close())
		}, false},
		"renamed over": {func(p string) error {
			return errors.Join(os.WriteFile(p+".new", make([]byte, streamed), 0o600), os.Rename(p+".new", p))
		}, true},
		"removed": {os.Remove, true},
	} {
		path, want := onDiskDirect(t)
		s := openSlow(t, path).Section(0, streamed)
		b := make([]byte, 1<<20)
		read := func(off int64) error {
			n := min(1<<20, streamed-off)
			if err := tensorfs.ReadFull(s, b[:n], off); err != nil {
				return err
			}
			if !bytes.Equal(b[:n], want[off:off+n]) {
				t.Fatalf("%s: wrong bytes at %d", name, off)
			}
			return nil
		}
		for off := int64(0); off < 6<<20; off += 1 << 20 {
			if err := read(off); err != nil {
				t.Fatal(err)
			}
		}
		if err := fault.do(path); err != nil {
			t.Fatal(err)
		}
		for off := int64(6 << 20); off < streamed; off += 1 << 20 {
			if err := read(off); fault.same != (err == nil) || err != nil && !errors.Is(err, tensorfs.ErrChanged) {
				t.Fatalf("%s: at %d: %v", name, off, err)
			}
		}
	}
}

// A part of the disk that cannot be read is an error of the reads of that part, and a
// stream goes on behind it.
func TestStreamOfBadDisk(t *testing.T) {
	readingDirect(t)
	d := testmount.NewDisk(t, 96<<20)
	want := make([]byte, streamed)
	rand.NewChaCha8([32]byte{3}).Read(want)
	path := filepath.Join(d.Dir, "file")
	if err := os.WriteFile(path, want, 0o600); err != nil {
		t.Fatal(err)
	}
	d.Unmount(t)
	disk, err := os.ReadFile(d.Image)
	if err != nil {
		t.Fatal(err)
	}
	const bad = 17 << 20
	at := bytes.Index(disk, want[bad:bad+4096])
	if at < 0 {
		t.Fatal("the file is not on its disk")
	}
	d.Mount(t)
	m, err := Map(path, "file")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if m.step() >= enoughAhead {
		t.Fatalf("the disk has a read-ahead of %d bytes", m.step())
	}
	// The disk ends here from now on, which the file system does not know.
	if err := os.Truncate(d.Image, int64(at)); err != nil {
		t.Fatal(err)
	}
	s, good, failed := m.Section(0, streamed), 0, 0
	b := make([]byte, 256<<10)
	for off := int64(0); off+int64(len(b)) <= streamed; off += int64(len(b)) {
		switch err := tensorfs.ReadFull(s, b, off); {
		case errors.Is(err, unix.EIO):
			failed++
		case err != nil:
			t.Fatalf("at %d: %v", off, err)
		case !bytes.Equal(b, want[off:off+int64(len(b))]):
			t.Fatalf("wrong bytes at %d", off)
		default:
			good++
		}
	}
	if good < bad/len(b) || failed == 0 {
		t.Errorf("%d reads are good and %d fail, want %d of those before the bad part", good, failed, bad/len(b))
	}
	if err := m.Check(); err != nil {
		t.Errorf("the file counts as changed: %v", err)
	}
}
