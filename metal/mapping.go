package metal

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tensorfs/tensorfs"
)

// mapping is a part of a file in whole pages, mapped shared and read-only, or private and writable:
//
//	|==== size bytes of the file ====|00000|      mem
//	^ on a page                      ^ zeros to the end of the system's page
//
// Pages beyond the one that holds the last byte exist only if the device's pages are larger
// than the system's; they must not be touched.
type mapping struct {
	path string // for messages
	off  int64  // of mem in the file
	size int64
	mem  []byte

	reserved    unsafe.Pointer // what to unmap; mem lies in it
	reservedLen uintptr
}

// mapFile maps size > 0 bytes at off, which is on a page. page is a power of two
// and at least the system's. Pages of a private mapping are copied when they are
// written to: the file and other mappings of it keep theirs.
func mapFile(f *os.File, path string, off, size, page int64, private bool) (*mapping, error) {
	n := roundUp(size, page)
	prot, flags := unix.PROT_READ, unix.MAP_SHARED
	if private {
		prot, flags = unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_NORESERVE // most pages are never written to
	}
	m := &mapping{path: path, off: off, size: size, reservedLen: uintptr(n)}
	var base unsafe.Pointer
	var err error
	if page <= int64(os.Getpagesize()) {
		base, err = unix.MmapPtr(int(f.Fd()), off, nil, uintptr(n), prot, flags)
		m.reserved = base
	} else {
		// The system aligns to its own page: take room for any alignment, and
		// put the file into the aligned part.
		m.reservedLen += uintptr(page)
		m.reserved, err = unix.MmapPtr(-1, 0, nil, m.reservedLen, unix.PROT_NONE, unix.MAP_ANON|unix.MAP_PRIVATE)
		if err == nil {
			skip := -uintptr(m.reserved) & uintptr(page-1)
			base, err = unix.MmapPtr(int(f.Fd()), off, unsafe.Add(m.reserved, skip), uintptr(n), prot, flags|unix.MAP_FIXED)
			if err != nil {
				err = errors.Join(err, unix.MunmapPtr(m.reserved, m.reservedLen))
			}
		}
	}
	switch {
	case errors.Is(err, unix.ENOMEM):
		return nil, fmt.Errorf("%s: cannot map %d bytes: %w; the process may have too many mappings%s or too little address space", path, size, err, mapsLimit)
	case err != nil:
		return nil, fmt.Errorf("%s: cannot map %d bytes: %w", path, size, err)
	}
	m.mem = unsafe.Slice((*byte)(base), n)
	advise(m.mem)
	return m, nil
}

// unmap ends the mapping.
func (m *mapping) unmap() error {
	if err := unix.MunmapPtr(m.reserved, m.reservedLen); err != nil {
		return fmt.Errorf("%s: cannot unmap: %w", m.path, err)
	}
	return nil
}

// bringIn has the system read [off, off+n) of the mapping, and waits for it.
func (m *mapping) bringIn(off, n int64) error {
	start := off / int64(os.Getpagesize()) * int64(os.Getpagesize())
	return tensorfs.Guard(func() error {
		err := populate(m.mem[start : off+n])
		if errors.Is(err, unix.EFAULT) { // what a touch would have faulted at
			return m.lost(off)
		}
		if err != nil {
			return fmt.Errorf("%s: cannot read %d bytes at %d: %w", m.path, n, m.off+off, err)
		}
		return nil
	}, m)
}

// touch reads a byte of every page. Call it under a guard.
//
//go:noinline
func touch(mem []byte) (sum byte) {
	for i := 0; i < len(mem); i += os.Getpagesize() {
		sum += mem[i]
	}
	return sum
}

// Check finds nothing: the file was compared with the tree when it was opened.
func (m *mapping) Check() error { return nil }

// Lost is the error of a page that was lost while it was read: the file was cut,
// or the process that serves it is gone.
func (m *mapping) Lost(addr uintptr) error {
	at := addr - uintptr(unsafe.Pointer(unsafe.SliceData(m.mem)))
	if at >= uintptr(len(m.mem)) {
		return nil
	}
	return m.lost(int64(at))
}

func (m *mapping) lost(at int64) error {
	return fmt.Errorf("%s: byte %d was lost while it was read: the file was cut or its mount is gone; open the model again, after mounting it again if it was mounted", m.path, m.off+at)
}

var _ tensorfs.Memory = (*mapping)(nil)
