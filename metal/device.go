package metal

import (
	"errors"
	"fmt"
	"os"
	"unsafe"
)

// Errors that callers tell apart.
var (
	// ErrClosed marks the use of a loader or device after its Close.
	ErrClosed = errors.New("closed")
	// ErrDeclined marks memory that obeys every rule and that a device still did
	// not take. Virtual GPUs do that; a copy works there.
	ErrDeclined = errors.New("the device declined to wrap mapped memory")
	// ErrAbsent marks a tensor or view that the model does not have.
	ErrAbsent = errors.New("not in the model")
	// ErrNoDevice marks a machine without a Metal device, if one is needed.
	ErrNoDevice = errors.New("no Metal device")
	// ErrMemory marks a load of more than may be taken.
	ErrMemory = errors.New("not enough memory")
	// ErrInUse marks the end of a loader whose buffers have not all been released.
	ErrInUse = errors.New("buffers are in use")
)

// absent is an ErrAbsent whose text is the whole reason.
type absent string

func (a absent) Error() string        { return string(a) }
func (a absent) Is(target error) bool { return target == ErrAbsent }

// Device makes buffers. Its methods are safe for concurrent use.
type Device interface {
	// Info describes the device. It never changes.
	Info() DeviceInfo
	// Wrap makes a buffer of mem without copying it. mem must be whole pages of one mapping
	// and at most MaxBufferLength long; an error names the broken rule. An error that wraps
	// ErrDeclined means that no rule is broken.
	//
	// done runs once when the device has finished with mem, after Release, on any thread.
	// It never runs if Wrap returns an error.
	Wrap(mem []byte, done func()) (DeviceBuffer, error)
	// Alloc makes a buffer of n > 0 bytes of the device's own memory, zeroed.
	Alloc(n int64) (DeviceBuffer, error)
	// Close gives the device back. It is an error while buffers of it live.
	Close() error
}

// DeviceBuffer is memory that a device knows.
type DeviceBuffer interface {
	// Handle is the device's object: an id<MTLBuffer> of Metal, 0 of Host.
	Handle() uintptr
	// Bytes is the memory as the CPU sees it; nil after Release.
	Bytes() []byte
	// Release drops the buffer. A second call is an error.
	Release() error
}

// MemoryReporter is a Device that knows how much memory is left.
type MemoryReporter interface {
	// FreeMemory is how many bytes may still be allocated or wrapped; 0 if unknown.
	FreeMemory() int64
}

// ResidencySetter is a Device that can keep buffers in memory.
type ResidencySetter interface {
	// NewResidencySet makes buffers resident until the set is released. An error
	// that wraps errors.ErrUnsupported means that this system has no such sets.
	NewResidencySet(buffers []DeviceBuffer) (ResidencySet, error)
}

// ResidencySet keeps buffers in memory.
type ResidencySet interface {
	// Handle is the device's object: an id<MTLResidencySet>.
	Handle() uintptr
	// Release ends the set. A second call is an error.
	Release() error
}

// DeviceInfo describes a device. Sizes are in bytes, 0 where not known.
type DeviceInfo struct {
	Kind              string // "metal" or "host"
	Name              string
	RegistryID        uint64
	PageSize          int64
	MaxBufferLength   int64
	RecommendedMemory int64 // Metal's recommendedMaxWorkingSetSize
	UnifiedMemory     bool  // CPU and GPU share one memory, so nothing crosses a bus
	// Pageable devices use wrapped memory page by page, so mapped files count for
	// nothing. For all others a buffer is in memory as a whole.
	Pageable bool
}

// check returns an error where buffers of such a device cannot be used here.
func (d *DeviceInfo) check() error {
	if d.PageSize < int64(os.Getpagesize()) || d.PageSize&(d.PageSize-1) != 0 || d.MaxBufferLength < d.PageSize {
		return fmt.Errorf("device %q: pages of %d bytes and buffers of %d make no sense here; pages are a power of two, and at least the system's %d",
			d.Name, d.PageSize, d.MaxBufferLength, os.Getpagesize())
	}
	return nil
}

// checkWrap returns an error unless mem obeys what every device demands of memory that it
// wraps. It runs before Metal does, because Metal's validation layer would stop the
// program.
func checkWrap(info DeviceInfo, mem []byte) error {
	addr := uintptr(unsafe.Pointer(unsafe.SliceData(mem)))
	switch n := int64(len(mem)); {
	case n == 0:
		return errors.New("a buffer of no bytes")
	case addr%uintptr(info.PageSize) != 0:
		return fmt.Errorf("memory at %#x does not begin on a page of %d bytes", addr, info.PageSize)
	case n%info.PageSize != 0:
		return fmt.Errorf("%d bytes are no whole pages of %d", n, info.PageSize)
	case n > info.MaxBufferLength:
		return fmt.Errorf("%d bytes, and %s takes buffers of at most %d", n, info.Name, info.MaxBufferLength)
	}
	return nil
}

// roundUp returns n rounded up to a multiple of to; n+to must not overflow.
func roundUp(n, to int64) int64 { return (n + to - 1) / to * to }
