package fs

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// readable reports whether all of some mapped memory can be read, without
// touching it. Kernels before 5.14 cannot tell.
func readable(b []byte) bool {
	if len(b) == 0 {
		return true
	}
	start := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	before := start % uintptr(os.Getpagesize())
	_, _, err := unix.Syscall(unix.SYS_MADVISE, start-before, uintptr(len(b))+before, unix.MADV_POPULATE_READ)
	return err == 0 || errors.Is(err, unix.EINVAL)
}
