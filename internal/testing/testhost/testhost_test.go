package testhost

import (
	"os"
	"runtime"
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

// A part of two mappings is refused, though both are the process's own.
func TestRefusesTwoMappings(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("NOT TESTED: parts of two mappings, because only Linux says where one ends")
	}
	page := os.Getpagesize()
	// Two mappings of the same length side by side, which the kernel cannot
	// merge: one is a file's.
	mem := pages(t, 4)
	f, err := os.Create(t.TempDir() + "/f")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(int64(2 * page)); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.MmapPtr(int(f.Fd()), 0, unsafe.Pointer(&mem[2*page]), uintptr(2*page), unix.PROT_READ, unix.MAP_SHARED|unix.MAP_FIXED); err != nil {
		t.Fatal(err)
	}
	h := New(t, Options{})
	for _, part := range [][]byte{mem[:2*page], mem[2*page:], mem[page : 2*page], mem[2*page : 3*page]} {
		b, err := h.Wrap(part, func() {})
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Release(); err != nil {
			t.Fatal(err)
		}
	}
	for _, part := range [][]byte{mem, mem[page:], mem[page : 3*page]} {
		if _, err := h.Wrap(part, nil); err == nil || !strings.Contains(err.Error(), "one mapping") {
			t.Errorf("%d bytes over two mappings: error %v", len(part), err)
		}
	}
}
