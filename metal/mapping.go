package metal

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapping is a file mapped read-only and shared, in whole pages:
//
//	|==== size bytes of the file ====|00000|      length
//	^ base: on a page                ^ zeros to the end of the system's page
//
// Pages beyond the one that holds the file's last byte exist only where the
// device's pages are larger than the system's; nobody may touch those.
type mapping struct {
	path   string // for messages
	size   int64
	base   unsafe.Pointer
	length int64

	reserved    unsafe.Pointer // what to unmap; base lies in it
	reservedLen uintptr
}

// mapFile maps the first size bytes of f, or one page of zeros where size is 0.
// page is a power of two and at least the system's.
func mapFile(f *os.File, path string, size, page int64) (*mapping, error) {
	m := &mapping{path: path, size: size, length: roundUp(max(size, 1), page)}
	fd, flags := int(f.Fd()), unix.MAP_SHARED
	if size == 0 {
		// There is nothing of an empty file to map, and no buffer is empty.
		fd, flags = -1, unix.MAP_ANON|unix.MAP_PRIVATE
	}
	var err error
	if system := int64(os.Getpagesize()); page <= system {
		m.reservedLen = uintptr(m.length)
		m.base, err = unix.MmapPtr(fd, 0, nil, m.reservedLen, unix.PROT_READ, flags)
		m.reserved = m.base
	} else {
		// The system aligns to its own page: take room for any alignment, and
		// put the file into the aligned part.
		m.reservedLen = uintptr(m.length + page)
		m.reserved, err = unix.MmapPtr(-1, 0, nil, m.reservedLen, unix.PROT_NONE, unix.MAP_ANON|unix.MAP_PRIVATE)
		if err == nil {
			skip := -uintptr(m.reserved) & uintptr(page-1)
			m.base, err = unix.MmapPtr(fd, 0, unsafe.Add(m.reserved, skip), uintptr(m.length), unix.PROT_READ, flags|unix.MAP_FIXED)
			if err != nil {
				err = errors.Join(err, unix.MunmapPtr(m.reserved, m.reservedLen))
			}
		}
	}
	switch {
	case errors.Is(err, unix.ENOMEM):
		return nil, fmt.Errorf("%s: cannot map %d bytes: %w; the process may have too many mappings (vm.max_map_count) or too little address space", path, size, err)
	case err != nil:
		return nil, fmt.Errorf("%s: cannot map %d bytes: %w", path, size, err)
	}
	m.advise()
	return m, nil
}

// bytes returns [off, off+n) of the mapping. A page of it may be gone: see read.
func (m *mapping) bytes(off, n int64) []byte {
	return unsafe.Slice((*byte)(unsafe.Add(m.base, off)), n)
}

// unmap ends the mapping.
func (m *mapping) unmap() error {
	if err := unix.MunmapPtr(m.reserved, m.reservedLen); err != nil {
		return fmt.Errorf("%s: cannot unmap: %w", m.path, err)
	}
	return nil
}

// read runs fn, which touches the mapping, and turns the loss of a page into an
// error: the file was cut, or the process that serves it is gone. fn must touch
// the mapping in its own goroutine only. Any other panic goes on.
func (m *mapping) read(fn func() error) (err error) {
	old := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(old)
		r := recover()
		if r == nil {
			return
		}
		fault, ok := r.(interface {
			runtime.Error
			Addr() uintptr
		})
		if !ok || fault.Addr()-uintptr(m.base) >= uintptr(m.length) {
			panic(r)
		}
		err = fmt.Errorf("%s: byte %d was lost while it was read: the file was cut or its mount is gone; mount the model again and open it anew", m.path, fault.Addr()-uintptr(m.base))
	}()
	return fn()
}
