package source

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// populate makes the pages of [off, off+n) present with one blocking system
// call. Kernels before 5.14 lack it; then the pages come by faults, which are
// slower and still guarded.
func populate(mem []byte, off, n int64) error {
	if n == 0 {
		return nil
	}
	page := int64(os.Getpagesize())
	start := off / page * page
	err := unix.Madvise(mem[start:off+n], unix.MADV_POPULATE_READ)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		return nil
	}
	return err
}
