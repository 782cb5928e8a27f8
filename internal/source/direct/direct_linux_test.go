package direct

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// allowed returns a pool that may take so many pieces.
func allowed(t *testing.T, pieces int64) *Pool {
	t.Helper()
	p := new(Pool)
	p.Allow(func() int64 { return pieces * Size })
	t.Cleanup(func() { giveBack(t, p) })
	return p
}

// giveBack makes the pool release its memory, as it does after a while without reads.
func giveBack(t *testing.T, p *Pool) {
	t.Helper()
	p.mu.Lock()
	p.used = time.Time{}
	taken := p.memory != nil
	p.mu.Unlock()
	if taken {
		p.giveBack()
	}
	if p.memory != nil || len(p.free) > 0 || len(p.pieces) > 0 {
		t.Errorf("%d bytes, %d free and %d pieces are left", len(p.memory), len(p.free), len(p.pieces))
	}
}

// file returns a file of n random bytes on the disk.
func file(t *testing.T, p *Pool, n int) (*File, []byte) {
	t.Helper()
	want := make([]byte, n)
	rand.NewChaCha8([32]byte{byte(n)}).Read(want)
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, want, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	fd, err := reopen(int(f.Fd()))
	if err != nil {
		t.Skipf("NOT TESTED: this file system has no O_DIRECT: %v", err)
	}
	shut(fd)
	d := p.File(int(f.Fd()), int64(n), func(int64) {})
	t.Cleanup(d.Close)
	return d, want
}

// memory returns a file whose bytes come from want, and how often it was read.
func memory(p *Pool, want []byte) (*File, *atomic.Int64) {
	f, reads := p.File(-1, int64(len(want)), func(int64) {}), new(atomic.Int64)
	f.read = func(b []byte, off int64) (int, error) { reads.Add(1); return copy(b, want[off:]), nil }
	return f, reads
}

// Every byte of a file comes in its place, also those after its last block.
func TestPieces(t *testing.T) {
	for _, n := range []int{1, 4096, Size - 1, Size, Size + 1, 9*Size + 12345} {
		f, want := file(t, allowed(t, 6), n)
		got := make([]byte, 0, n)
		for b := make([]byte, 700_001); len(got) < n; {
			off := int64(len(got))
			for at := off; at < min(off+Stream, int64(n)); at += Size {
				f.Begin(at)
			}
			if !f.Has(off) {
				t.Fatalf("of %d bytes nothing is on its way at %d", n, off)
			}
			m := f.ReadAt(b, off)
			if m == 0 {
				t.Fatalf("of %d bytes there is nothing at %d", n, off)
			}
			got = append(got, b[:m]...)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("other bytes of %d", n)
		}
		if m := f.ReadAt(make([]byte, 10), int64(n)); m != 0 {
			t.Errorf("%d bytes after the end of %d", m, n)
		}
		f.Close()
		if f.opened || f.pieces != 0 {
			t.Errorf("of %d bytes %d pieces are left, or a descriptor", n, f.pieces)
		}
	}
}

// Readers of one piece share it, and a piece that a reader waits for is not taken from it.
func TestShared(t *testing.T) {
	p := allowed(t, 6)
	want := make([]byte, 20*Size)
	f, reads := memory(p, want)
	defer f.Close()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			f.Begin(Size)
			if n := f.ReadAt(make([]byte, 100), Size+5); n != 100 {
				t.Errorf("%d bytes", n)
			}
		})
	}
	wg.Wait()
	if n := reads.Load(); n != 1 {
		t.Errorf("the piece was read %d times", n)
	}
	for at := int64(2); at < 7; at++ {
		if !f.Begin(at * Size) {
			t.Errorf("there is no memory for piece %d", at)
		}
	}
	f.coming.Wait()
	if f.Begin(7 * Size) {
		t.Error("a piece was taken that a reader is on his way to")
	}
	// Read to its end, it makes room; and so does what readers went away from.
	if n := f.ReadAt(make([]byte, Size), Size); n != Size || !f.Begin(7*Size) || f.Has(Size) {
		t.Errorf("a piece of which %d bytes were read has no place for the next", n)
	}
	f.coming.Wait()
	for range p.recent {
		f.ReadAt(make([]byte, 1), 15*Size)
	}
	if !f.Begin(15 * Size) {
		t.Error("pieces that nobody reads any more keep all memory")
	}
}

// Whatever fails leaves the file to its caller, for good, and no bytes are given out.
func TestRefused(t *testing.T) {
	for name, read := range map[string]func(b []byte, off int64) (int, error){
		"an error of the disk": func(b []byte, _ int64) (int, error) { return 0, unix.EIO },
		"no O_DIRECT":          func(b []byte, _ int64) (int, error) { return 0, unix.EINVAL },
		"a file that was cut":  func(b []byte, _ int64) (int, error) { return copy(b, "short"), nil },
		"nothing":              func(b []byte, _ int64) (int, error) { return 0, nil },
	} {
		p := allowed(t, 6)
		f := p.File(-1, 3*Size, func(int64) {})
		f.read = read
		f.Begin(0)
		f.Begin(Size)
		if n := f.ReadAt(make([]byte, 10), 0); n != 0 || f.Usable() || f.Begin(2*Size) || f.Has(0) {
			t.Errorf("%s: %d bytes, usable: %v", name, n, f.Usable())
		}
		f.Close()
	}
}

// Without memory there are no pieces.
func TestNoMemory(t *testing.T) {
	for name, most := range map[string]int64{"none": 0, "less than a stream needs": least - 1, "more than there is": 1 << 55} {
		p := new(Pool)
		p.Allow(func() int64 { return most })
		f, _ := memory(p, make([]byte, Size))
		if f.Begin(0) || f.ReadAt(make([]byte, 1), 0) != 0 {
			t.Errorf("%s: a piece was begun", name)
		}
		f.Close()
	}
	f, _ := memory(new(Pool), make([]byte, Size))
	if f.Usable() || f.Begin(0) {
		t.Error("a pool takes memory that was not allowed to")
	}
}

// Many streams of several files have few pieces: each byte is right, or is left to the
// caller.
func TestManyStreams(t *testing.T) {
	p := allowed(t, 12)
	const size = 8*Size + 77
	content := make([]byte, size)
	rand.NewChaCha8([32]byte{1}).Read(content)
	var files []*File
	for range 8 {
		f, _ := memory(p, content)
		files = append(files, f)
	}
	var had atomic.Int64
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			f, b := files[i%len(files)], make([]byte, 1<<20)
			for off := int64(0); off < size; off += 1 << 20 {
				for at := off; at < min(off+Stream, size); at += Size {
					f.Begin(at)
				}
				n := f.ReadAt(b, off)
				had.Add(int64(n))
				if !bytes.Equal(b[:n], content[off:off+int64(n)]) {
					t.Errorf("other bytes at %d", off)
				}
			}
		})
	}
	wg.Wait()
	if had.Load() == 0 {
		t.Error("no stream had a piece")
	}
	for _, f := range files {
		f.Close()
	}
	if len(p.free) != 12 || len(p.pieces) != 0 {
		t.Errorf("%d of 12 pieces are free after all files were closed, and %d are kept", len(p.free), len(p.pieces))
	}
}

// More pieces are begun of a file whose disk answers each after a while, and not of one that answers them one after
// another.
func TestWiden(t *testing.T) {
	for name, c := range map[string]struct{ atOnce, want int64 }{"a slow disk": {100, most}, "a disk that is used up": {1, first}} {
		window := int64(Stream)
		f := allowed(t, 6).File(-1, 1<<40, func(w int64) { window = w })
		now := time.Unix(1000, 0)
		f.now = func() time.Time { return now }
		for range 200 {
			under := window/Size - 1
			f.under = int(under)
			now = now.Add(20 * time.Millisecond / time.Duration(min(under, c.atOnce)))
			f.came(Size)
			if window > (most+1)*Size {
				t.Fatalf("%s: a window of %d", name, window)
			}
		}
		if got := window/Size - 1; got != c.want {
			t.Errorf("%s: %d pieces are on their way, want %d", name, got, c.want)
		}
		f.Close()
	}
}

// Closing a file waits for what is on its way: its memory is not another's before.
func TestCloseWaits(t *testing.T) {
	p := allowed(t, 6)
	f := p.File(-1, 10*Size, func(int64) {})
	begun, let := make(chan struct{}), make(chan struct{})
	var done atomic.Bool
	f.read = func(b []byte, _ int64) (int, error) { close(begun); <-let; done.Store(true); return len(b), nil }
	f.Begin(0)
	<-begun
	p.mu.Lock()
	p.used = time.Time{}
	p.mu.Unlock()
	p.giveBack() // not what is on its way
	closed := make(chan struct{})
	go func() { f.Close(); close(closed) }()
	select {
	case <-closed:
		t.Error("the file was closed while a piece of it was being read")
	default:
	}
	close(let)
	<-closed
	if !done.Load() || len(p.free) != 6 {
		t.Errorf("%d pieces are free, want 6", len(p.free))
	}
}
