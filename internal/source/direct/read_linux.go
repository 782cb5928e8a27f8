package direct

import (
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

const supported = true

// hugePage is the alignment of memory with huge pages.
const hugePage = 2 << 20

// allocate takes memory from the system, n bytes and what aligned leaves out. It is not of
// Go's heap, which would keep it and counts against the limit of the heap.
func allocate(n int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, n+hugePage, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err == nil {
		_ = unix.Madvise(b, unix.MADV_HUGEPAGE) // else the kernel looks up every 4 KiB of a request
	}
	return b, err
}

// aligned returns the part of memory that begins with a huge page.
func aligned(memory []byte) []byte {
	skip := -uintptr(unsafe.Pointer(unsafe.SliceData(memory))) % hugePage
	return memory[skip:][:len(memory)-hugePage]
}

// release gives memory back.
func release(memory []byte) { _ = unix.Munmap(memory) }

// reopen opens an open file once more, whatever its path leads to by now.
func reopen(file int) (int, error) {
	return unix.Open("/proc/self/fd/"+strconv.Itoa(file), unix.O_RDONLY|unix.O_DIRECT|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
}

// shut closes what reopen opened.
func shut(fd int) { _ = unix.Close(fd) }

// pread reads len(b) bytes, fewer at the end of the file.
func pread(fd int, b []byte, off int64) (int, error) {
	for {
		n, err := unix.Pread(fd, b, off)
		if err != unix.EINTR {
			return n, err
		}
	}
}
