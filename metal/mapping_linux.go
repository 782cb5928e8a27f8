package metal

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// advise asks for huge pages, which makes the kernel read a mounted file 1 MiB
// at a time instead of 128 KiB. Advice only: without it reads are slower.
func (m *mapping) advise() {
	_ = unix.Madvise(m.bytes(0, m.length), unix.MADV_HUGEPAGE)
}

// populate makes the pages of [off, off+n) present with one system call, in
// which a lost page is an error and no fault. It is false on kernels that cannot
// (before 5.14).
func (m *mapping) populate(off, n int64) (bool, error) {
	page := int64(os.Getpagesize())
	start := off / page * page
	mem := m.bytes(start, off+n-start)
	for {
		switch err := unix.Madvise(mem, unix.MADV_POPULATE_READ); {
		case err == nil:
			return true, nil
		case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS):
			return false, nil
		case !errors.Is(err, unix.EINTR):
			return true, fmt.Errorf("%s: cannot read %d bytes at %d: %w: the file was cut or its mount is gone", m.path, n, off, err)
		}
	}
}
