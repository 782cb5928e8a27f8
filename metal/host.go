package metal

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// HostOptions describe the device that a Host plays. The zero value has the
// system's page size and 1 TiB buffers.
type HostOptions struct {
	PageSize        int64 // a power of two, at least the system's: 16384 as on Apple silicon
	MaxBufferLength int64 // at least a page
}

// Host is the device of machines without Metal: buffers are memory of this
// process. It refuses what [Metal] would.
type Host struct {
	info DeviceInfo
	live atomic.Int64 // buffers; less than zero once closed
}

// hostClosed is added to the buffers of a Host that is closed.
const hostClosed = -1 << 40

// NewHost returns a Host.
func NewHost(o HostOptions) (*Host, error) {
	info := DeviceInfo{Kind: "host", Name: "host memory", UnifiedMemory: true, Pageable: true,
		PageSize: cmp.Or(o.PageSize, int64(os.Getpagesize())), MaxBufferLength: cmp.Or(o.MaxBufferLength, 1<<40)}
	if err := info.check(); err != nil {
		return nil, fmt.Errorf("metal: %w", err)
	}
	return &Host{info: info}, nil
}

// Info describes the device.
func (h *Host) Info() DeviceInfo { return h.info }

// FreeMemory is what the system can give without swapping; 0 where it does not say.
func (h *Host) FreeMemory() int64 { return freeMemory() }

// Wrap makes a buffer of mem. See [Device].
func (h *Host) Wrap(mem []byte, done func()) (DeviceBuffer, error) {
	if err := checkWrap(h.info, mem); err != nil {
		return nil, fmt.Errorf("metal: host: %w", err)
	}
	return h.add(mem, func() error { done(); return nil })
}

// Alloc makes a buffer of n bytes. See [Device].
func (h *Host) Alloc(n int64) (DeviceBuffer, error) {
	if n <= 0 || n > h.info.MaxBufferLength {
		return nil, fmt.Errorf("metal: host: a buffer of %d bytes, and 1 to %d are possible", n, h.info.MaxBufferLength)
	}
	mem, err := unix.Mmap(-1, 0, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("metal: host: a buffer of %d bytes: %w", n, err)
	}
	advise(mem) // a fault for each small page would cost more than what is converted into it
	b, err := h.add(mem, func() error { return unix.Munmap(mem) })
	if err != nil {
		return nil, errors.Join(err, unix.Munmap(mem))
	}
	return b, nil
}

func (h *Host) add(mem []byte, free func() error) (DeviceBuffer, error) {
	if h.live.Add(1) < 0 {
		h.live.Add(-1)
		return nil, fmt.Errorf("metal: host: %w", ErrClosed)
	}
	b := &hostBuffer{host: h, free: free}
	b.mem.Store(&mem)
	return b, nil
}

// Close ends the device. It is an error while buffers of it live.
func (h *Host) Close() error {
	switch n := h.live.Load(); {
	case n < 0:
		return fmt.Errorf("metal: host: %w", ErrClosed)
	case n > 0 || !h.live.CompareAndSwap(0, hostClosed):
		return fmt.Errorf("metal: host: %d buffers are in use; release them first", n)
	}
	return nil
}

// hostBuffer is a buffer of a Host.
type hostBuffer struct {
	host *Host
	mem  atomic.Pointer[[]byte] // nil once released
	free func() error
}

func (b *hostBuffer) Handle() uintptr { return 0 }

func (b *hostBuffer) Bytes() []byte {
	if mem := b.mem.Load(); mem != nil {
		return *mem
	}
	return nil
}

func (b *hostBuffer) Release() error {
	if b.mem.Swap(nil) == nil {
		return errors.New("metal: host: a buffer was released twice")
	}
	b.host.live.Add(-1)
	return b.free()
}

var (
	_ Device         = (*Host)(nil)
	_ MemoryReporter = (*Host)(nil)
)
