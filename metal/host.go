package metal

import (
	"errors"
	"fmt"
	"math/bits"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// HostOptions describe the device that a Host plays. The zero value has the
// system's page size and 1 TiB buffers.
type HostOptions struct {
	PageSize        int64 // a power of two, at least the system's: 16384 as on Apple silicon
	MaxBufferLength int64 // at least a page
}

// Host is the device of machines without Metal: buffers are memory of this
// process. It refuses what Metal's documentation forbids: memory that is not
// page-aligned, not whole pages, longer than MaxBufferLength, or (where the
// system tells: Linux) not inside one mapping.
type Host struct {
	info DeviceInfo

	mu     sync.Mutex
	live   int // buffers
	closed bool
}

// NewHost returns a Host.
func NewHost(opts HostOptions) (*Host, error) {
	page := int64(os.Getpagesize())
	if opts.PageSize == 0 {
		opts.PageSize = page
	}
	if opts.MaxBufferLength == 0 {
		opts.MaxBufferLength = 1 << 40
	}
	if opts.PageSize < page || bits.OnesCount64(uint64(opts.PageSize)) != 1 {
		return nil, fmt.Errorf("metal: page size %d: a power of two of at least %d is needed", opts.PageSize, page)
	}
	if opts.MaxBufferLength < opts.PageSize {
		return nil, fmt.Errorf("metal: maximum buffer length %d is less than a page of %d", opts.MaxBufferLength, opts.PageSize)
	}
	return &Host{info: DeviceInfo{
		Kind:            "host",
		Name:            "host memory",
		PageSize:        opts.PageSize,
		MaxBufferLength: opts.MaxBufferLength,
		UnifiedMemory:   true,
	}}, nil
}

// Info describes the device.
func (h *Host) Info() DeviceInfo { return h.info }

// Wrap makes a buffer of mem. See [Device].
func (h *Host) Wrap(mem []byte, done func()) (DeviceBuffer, error) {
	if err := checkWrap(h.info, mem); err != nil {
		return nil, fmt.Errorf("metal: host: %w", err)
	}
	if err := checkOneMapping(mem); err != nil {
		return nil, fmt.Errorf("metal: host: %w", err)
	}
	return h.add(mem, func() error { done(); return nil })
}

// Alloc makes a buffer of n bytes. See [Device].
func (h *Host) Alloc(n int64) (DeviceBuffer, error) {
	if n <= 0 || n > h.info.MaxBufferLength {
		return nil, fmt.Errorf("metal: host: a buffer of %d bytes, and 1 to %d are possible", n, h.info.MaxBufferLength)
	}
	p, err := unix.MmapPtr(-1, 0, nil, uintptr(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("metal: host: a buffer of %d bytes: %w", n, err)
	}
	free := func() error { return unix.MunmapPtr(p, uintptr(n)) }
	b, err := h.add(unsafe.Slice((*byte)(p), n), free)
	if err != nil {
		return nil, errors.Join(err, free())
	}
	return b, nil
}

func (h *Host) add(mem []byte, free func() error) (DeviceBuffer, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, fmt.Errorf("metal: host: %w", ErrClosed)
	}
	h.live++
	return &hostBuffer{host: h, mem: mem, free: free}, nil
}

// Close ends the device. It is an error while buffers of it live.
func (h *Host) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		return fmt.Errorf("metal: host: %w", ErrClosed)
	case h.live > 0:
		return fmt.Errorf("metal: host: %d buffers are in use; release them first", h.live)
	}
	h.closed = true
	return nil
}

// hostBuffer is a buffer of a Host.
type hostBuffer struct {
	host *Host
	mu   sync.Mutex
	mem  []byte // nil once released
	free func() error
}

func (b *hostBuffer) Handle() uintptr { return 0 }

func (b *hostBuffer) Bytes() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mem
}

func (b *hostBuffer) Release() error {
	b.mu.Lock()
	released := b.mem == nil
	b.mem = nil
	b.mu.Unlock()
	if released {
		return errors.New("metal: host: a buffer was released twice")
	}
	err := b.free()
	b.host.mu.Lock()
	b.host.live--
	b.host.mu.Unlock()
	return err
}

var _ Device = (*Host)(nil)
