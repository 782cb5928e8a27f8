package source

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/tensorfs/tensorfs"
	"golang.org/x/sys/unix"
)

// onDisk makes a file of n bytes without a page in memory.
func onDisk(t *testing.T, n int) (path string, content []byte) {
	t.Helper()
	path, content = write(t, n)
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		t.Fatal(err)
	}
	return path, content
}

// readers are the ways to read bytes of Data: by system calls, from the mapping if they are in
// memory, and as conversions do.
var readers = map[string]func(d tensorfs.Data, off, n int64) ([]byte, error){
	"ReadAt": func(d tensorfs.Data, off, n int64) ([]byte, error) {
		b := make([]byte, n)
		return b, tensorfs.ReadFull(d, b, off)
	},
	"Slices": func(d tensorfs.Data, off, n int64) ([]byte, error) {
		mem, mapped, err := tensorfs.Slices(d, nil, off, n)
		if mapped || err != nil {
			return bytes.Join(mem, nil), err
		}
		b := make([]byte, n)
		return b, tensorfs.ReadFull(d, b, off)
	},
	"View": func(d tensorfs.Data, off, n int64) (b []byte, err error) {
		v, memory, err := tensorfs.View(d, off, n, new([]byte))
		if err != nil {
			return nil, err
		}
		return b, tensorfs.Guard(func() error { b = bytes.Clone(v); return nil }, memory)
	},
}

// Random reads bring in what they ask for and a little around it, from the first one
// on, whatever the disk's read-ahead is. A stream that follows is one again.
func TestRandomReads(t *testing.T) {
	const size, count = 64 << 20, 24
	page := os.Getpagesize()
	for how, read := range readers {
		for _, n := range []int64{100, 4096, 64 << 10, 256 << 10} {
			path, want := onDisk(t, size)
			m := open(t, path)
			if resident(t, m.mem) > 0 {
				t.Skip("NOT TESTED: the page cache of this file system cannot be emptied")
			}
			m.stepOnce.Do(func() { m.advised = enoughAhead }) // nothing but the reads themselves
			s := m.Section(4321, size-5000)
			r := rand.New(rand.NewPCG(1, uint64(n)))
			for range count {
				off := r.Int64N(s.Size() - n)
				if b, err := read(s, off, n); err != nil || !bytes.Equal(b, want[4321+off:][:n]) {
					t.Fatalf("%s: %d bytes at %d: %v, or other bytes", how, n, off, err)
				}
			}
			asked := count * (int(n)/page + 2)
			if got := resident(t, m.mem); got > 2*asked {
				t.Errorf("%s: reads of %d bytes asked for %d pages and brought in %d", how, n, asked, got)
			}
			// The kernel reads ahead of a stream.
			off := s.Size() / 2
			for range 8 {
				if _, err := read(s, off, 128<<10); err != nil {
					t.Fatal(err)
				}
				off += 128 << 10
			}
			if next := m.mem[(4321+off)/4096*4096:][:64<<10]; resident(t, next) == 0 {
				t.Errorf("%s: nothing was read ahead of a stream after random reads of %d bytes", how, n)
			}
		}
	}
}

// Bytes that are in memory are not copied, however they got there.
func TestInMemory(t *testing.T) {
	const size = 4 << 20
	path, want := onDisk(t, size)
	m := open(t, path)
	if resident(t, m.mem) > 0 {
		t.Skip("NOT TESTED: the page cache of this file system cannot be emptied")
	}
	d := m.Section(77, size-77)
	if _, mapped, err := tensorfs.Slices(d, nil, 0, 1<<20); mapped || err != nil {
		t.Errorf("bytes on the disk: %v, %v", mapped, err)
	}
	if b, _, err := d.(tensorfs.Viewer).View(0, 1<<20); b != nil || err != nil {
		t.Errorf("a view of bytes on the disk: %d bytes, %v", len(b), err)
	}
	if err := tensorfs.ReadFull(d, make([]byte, 1<<20), 0); err != nil {
		t.Fatal(err)
	}
	mem, mapped, err := tensorfs.Slices(d, nil, 0, 1<<20)
	if !mapped || err != nil || !bytes.Equal(bytes.Join(mem, nil), want[77:77+1<<20]) {
		t.Errorf("bytes that were read: %v, %v", mapped, err)
	}
	if b, _, err := d.(tensorfs.Viewer).View(0, 1<<20); len(b) != 1<<20 || err != nil {
		t.Errorf("a view of bytes that were read: %d bytes, %v", len(b), err)
	}
	// One part of them is not there. Pages that are mapped are not given up.
	if err := errors.Join(unix.Madvise(m.mem, unix.MADV_DONTNEED), unix.Fadvise(m.fd, 1<<19, 1<<18, unix.FADV_DONTNEED)); err != nil {
		t.Fatal(err)
	}
	if resident(t, m.mem[1<<19:1<<19+1<<18]) > 0 {
		t.Skip("NOT TESTED: a part of the page cache cannot be emptied")
	}
	if _, mapped, err := tensorfs.Slices(d, nil, 0, 1<<20); mapped || err != nil {
		t.Errorf("bytes of which a part is on the disk: %v, %v", mapped, err)
	}
}
