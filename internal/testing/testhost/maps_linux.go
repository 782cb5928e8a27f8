package testhost

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// procmapQuery is the kernel's struct procmap_query (Linux 6.11), which answers
// for one address what /proc/self/maps lists for all.
type procmapQuery struct {
	size, flags, addr            uint64
	start, end                   uint64 // of the mapping that holds addr
	vmaFlags, pageSize, offset   uint64
	inode                        uint64
	major, minor, nameLen, idLen uint32
	name, id                     uint64
}

// procmapQueryRequest is _IOWR('f', 17, struct procmap_query).
const procmapQueryRequest = 3<<30 | uint(unsafe.Sizeof(procmapQuery{}))<<16 | 'f'<<8 | 17

// CheckOneMapping returns an error unless mem lies inside one mapping.
func CheckOneMapping(mem []byte) error {
	addr := uintptr(unsafe.Pointer(unsafe.SliceData(mem)))
	start, end, err := mappingAt(addr)
	if err != nil {
		return fmt.Errorf("memory at %#x: %w", addr, err)
	}
	if addr < start || addr+uintptr(len(mem)) > end {
		return fmt.Errorf("%d bytes at %#x are not inside one mapping: that one ends at %#x", len(mem), addr, end)
	}
	return nil
}

// mappingAt returns the bounds of the mapping that holds addr.
func mappingAt(addr uintptr) (start, end uintptr, err error) {
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	q := procmapQuery{size: uint64(unsafe.Sizeof(procmapQuery{})), addr: uint64(addr)}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), uintptr(procmapQueryRequest), uintptr(unsafe.Pointer(&q)))
	switch {
	case errno == 0:
		return uintptr(q.start), uintptr(q.end), nil
	case errors.Is(errno, unix.ENOENT):
		return 0, 0, fs.ErrNotExist
	}
	return scanMaps(f, addr)
}

// scanMaps is mappingAt for kernels that have only the list:
//
//	7f2c1e000000-7f2c1e021000 r--s 00000000 00:2a 7    /path
func scanMaps(f *os.File, addr uintptr) (start, end uintptr, err error) {
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if _, err := fmt.Sscanf(lines.Text(), "%x-%x", &start, &end); err != nil {
			return 0, 0, fmt.Errorf("/proc/self/maps: %q: %w", lines.Text(), err)
		}
		if addr >= start && addr < end {
			return start, end, nil
		}
	}
	if err := lines.Err(); err != nil {
		return 0, 0, err
	}
	return 0, 0, fs.ErrNotExist
}
