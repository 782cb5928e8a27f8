package metal

import (
	"errors"
	"os"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// pages maps n anonymous pages, readable and writable, for the time of the test.
func pages(t *testing.T, n int) []byte {
	t.Helper()
	b, err := unix.Mmap(-1, 0, n*os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Munmap(b); err != nil {
			t.Error(err)
		}
	})
	return b
}

func newHost(t *testing.T, opts HostOptions) *Host {
	t.Helper()
	h, err := NewHost(opts)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestHostOptions(t *testing.T) {
	page := int64(os.Getpagesize())
	for _, c := range []struct {
		opts HostOptions
		ok   bool
	}{
		{HostOptions{}, true},
		{HostOptions{PageSize: page}, true},
		{HostOptions{PageSize: 4 * page}, true},
		{HostOptions{PageSize: 3 * page}, false},
		{HostOptions{PageSize: page / 2}, false},
		{HostOptions{PageSize: -page}, false},
		{HostOptions{MaxBufferLength: page}, true},
		{HostOptions{MaxBufferLength: page - 1}, false},
		{HostOptions{PageSize: 4 * page, MaxBufferLength: 2 * page}, false},
	} {
		if _, err := NewHost(c.opts); (err == nil) != c.ok {
			t.Errorf("%+v: error %v, want ok %v", c.opts, err, c.ok)
		}
	}
}

// The host refuses what Metal forbids; each case differs from a sound one in one
// thing only.
func TestHostRefuses(t *testing.T) {
	page := os.Getpagesize()
	mem := pages(t, 8)
	normal := newHost(t, HostOptions{MaxBufferLength: int64(8 * page)})
	for _, c := range []struct {
		name string
		host *Host
		mem  []byte
		want string // "" for none
	}{
		{"all of it", normal, mem, ""},
		{"one page of it", normal, mem[3*page : 4*page], ""},
		{"no bytes", normal, mem[:0], "no bytes"},
		{"nil", normal, nil, "no bytes"},
		{"a byte past a page", normal, mem[1 : 1+page], "does not begin on a page"},
		{"a byte before a page", normal, mem[page-1 : 2*page-1], "does not begin on a page"},
		{"half a page in", normal, mem[page/2 : page/2+page], "does not begin on a page"},
		{"a byte less than a page", normal, mem[:page-1], "no whole pages"},
		{"a byte more than a page", normal, mem[:page+1], "no whole pages"},
		{"longer than buffers may be", newHost(t, HostOptions{MaxBufferLength: int64(7*page + page/2)}), mem, "at most"},
		{"just as long", newHost(t, HostOptions{MaxBufferLength: int64(7*page + page/2)}), mem[:7*page], ""},
		{"whole pages of the system, half a page of the device", newHost(t, HostOptions{PageSize: int64(16 * page)}), mem, "page"},
	} {
		called := 0
		b, err := c.host.Wrap(c.mem, func() { called++ })
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
			}
			if errors.Is(err, ErrDeclined) {
				t.Errorf("%s: a breach of the rules counts as declined", c.name)
			}
			if called != 0 {
				t.Errorf("%s: the deallocator ran although there is no buffer", c.name)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := b.Bytes(); unsafe.SliceData(got) != unsafe.SliceData(c.mem) || len(got) != len(c.mem) {
			t.Errorf("%s: the buffer is other memory", c.name)
		}
		if err := b.Release(); err != nil || called != 1 {
			t.Errorf("%s: Release: %v, and the deallocator ran %d times", c.name, err, called)
		}
	}
}

// Every misalignment of pointer and length within a page is refused.
func TestHostRefusesEveryMisalignment(t *testing.T) {
	page := os.Getpagesize()
	mem := pages(t, 3)
	h := newHost(t, HostOptions{})
	for off := 1; off < page; off++ {
		if _, err := h.Wrap(mem[off:off+page], nil); err == nil {
			t.Fatalf("memory %d bytes into a page was taken", off)
		}
		if _, err := h.Wrap(mem[:page+off], nil); err == nil {
			t.Fatalf("%d bytes more than a page were taken", off)
		}
	}
}

// TestHostAllocLimits checks both ends of what can be made.
func TestHostAllocLimits(t *testing.T) {
	const most = 1 << 20
	h := newHost(t, HostOptions{MaxBufferLength: most})
	for n, possible := range map[int64]bool{-1: false, 0: false, 1: true, most: true, most + 1: false} {
		b, err := h.Alloc(n)
		if possible != (err == nil) || !possible && !strings.Contains(err.Error(), "1 to 1048576 are possible") {
			t.Errorf("%d bytes: error %v", n, err)
		}
		if err == nil {
			if err := b.Release(); err != nil || !possible {
				t.Errorf("%d bytes: %v", n, err)
			}
		}
	}
}

func TestHostLifetimes(t *testing.T) {
	mem := pages(t, 1)
	h := newHost(t, HostOptions{})
	called := 0
	wrapped, err := h.Wrap(mem, func() { called++ })
	if err != nil {
		t.Fatal(err)
	}
	own, err := h.Alloc(5)
	if err != nil {
		t.Fatal(err)
	}
	if got := own.Bytes(); len(got) != 5 || string(got) != "\x00\x00\x00\x00\x00" {
		t.Errorf("new memory is %q", got)
	}
	own.Bytes()[4] = 1
	if err := h.Close(); err == nil || !strings.Contains(err.Error(), "2 buffers are in use") {
		t.Errorf("Close with buffers in use: %v", err)
	}
	for _, b := range []DeviceBuffer{wrapped, own} {
		if err := b.Release(); err != nil {
			t.Error(err)
		}
		if b.Bytes() != nil {
			t.Error("a released buffer has bytes")
		}
		if err := b.Release(); err == nil {
			t.Error("a buffer was released twice")
		}
	}
	if called != 1 {
		t.Errorf("the deallocator ran %d times", called)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	if err := h.Close(); !errors.Is(err, ErrClosed) {
		t.Errorf("second Close: %v", err)
	}
	if _, err := h.Wrap(mem, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("Wrap after Close: %v", err)
	}
	if _, err := h.Alloc(5); !errors.Is(err, ErrClosed) {
		t.Errorf("Alloc after Close: %v", err)
	}
}
