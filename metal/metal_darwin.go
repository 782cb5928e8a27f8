package metal

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/ebitengine/purego/objc"
	"golang.org/x/sys/unix"
)

// Bits of MTLResourceOptions.
const (
	storageShared    = uint(0)      // MTLResourceStorageModeShared: one memory for CPU and GPU
	hazardsUntracked = uint(1 << 8) // MTLResourceHazardTrackingModeUntracked
)

// MetalOptions say which GPU a Metal is, and how its buffers are made. The zero
// value is the system's default GPU.
type MetalOptions struct {
	// Device is an engine's own id<MTLDevice>, which is retained: buffers are for
	// command queues of the same device only. 0 for one of the system's.
	Device uintptr
	// RegistryID chooses among the system's GPUs, see [MetalDevices]; 0 for the
	// default. With Device it must be 0.
	RegistryID uint64
	// TrackHazards has Metal order the uses of every buffer, as it does by default.
	// Nothing writes to weights, so this only costs time.
	TrackHazards bool
}

// Metal is a GPU.
type Metal struct {
	framework *metalFramework
	info      DeviceInfo
	resource  uint // MTLResourceOptions of buffers

	mu     sync.Mutex
	device objc.ID // 0 once closed
	live   int     // buffers and residency sets
}

// NewMetal returns the system's default GPU. Without one the error wraps
// [ErrNoDevice].
func NewMetal() (*Metal, error) { return NewMetalWith(MetalOptions{}) }

// NewMetalFrom returns the GPU that an engine uses already, by its id<MTLDevice>,
// which is retained until Close.
func NewMetalFrom(device uintptr) (*Metal, error) {
	if device == 0 {
		return nil, errors.New("metal: a device of nil: give the id<MTLDevice> that the engine's command queues belong to")
	}
	return NewMetalWith(MetalOptions{Device: device})
}

// NewMetalWith returns the GPU that the options name. If there is no such GPU the error
// wraps [ErrNoDevice].
func NewMetalWith(o MetalOptions) (*Metal, error) {
	if o.Device != 0 && o.RegistryID != 0 {
		return nil, errors.New("metal: a device and a registry ID: give one of them")
	}
	f, err := framework()
	if err != nil {
		return nil, err
	}
	m := &Metal{framework: f, resource: storageShared | hazardsUntracked}
	if o.TrackHazards {
		m.resource = storageShared
	}
	var seen []uint64
	f.pooled(func() {
		m.device, seen = f.choose(o)
		if m.device != 0 {
			m.info = f.describe(m.device)
		}
	})
	if m.device == 0 {
		return nil, noSuchDevice(o.RegistryID, seen)
	}
	return m, nil
}

// choose returns the device that the options name, owned by the caller. If it is missing,
// it returns 0 with the registry IDs of all devices.
func (f *metalFramework) choose(o MetalOptions) (device objc.ID, seen []uint64) {
	switch {
	case o.Device != 0:
		return objc.ID(o.Device).Send(selRetain), nil
	case o.RegistryID == 0:
		return f.systemDevice(), nil
	}
	f.eachDevice(func(d objc.ID) {
		id := objc.Send[uint64](d, selRegistryID)
		if id == o.RegistryID && device == 0 {
			device = d.Send(selRetain)
		}
		seen = append(seen, id)
	})
	return device, seen
}

// eachDevice calls fn with every GPU of the system.
func (f *metalFramework) eachDevice(fn func(objc.ID)) {
	all := f.allDevices()
	if all == 0 {
		return
	}
	defer all.Send(selRelease)
	for i := range objc.Send[uint](all, selCount) {
		fn(all.Send(selObjectAtIndex, i))
	}
}

// describe asks a device for its properties.
func (f *metalFramework) describe(device objc.ID) DeviceInfo {
	info := DeviceInfo{
		Kind:              "metal",
		PageSize:          pageSize(),
		MaxBufferLength:   clampInt64(objc.Send[uint64](device, selMaxBufferLength)),
		RecommendedMemory: clampInt64(objc.Send[uint64](device, selRecommended)),
		RegistryID:        objc.Send[uint64](device, selRegistryID),
		UnifiedMemory:     objc.Send[bool](device, selUnified),
	}
	if name := device.Send(selName); name != 0 {
		info.Name = objc.Send[string](name, selUTF8String)
	}
	return info
}

// pageSize returns the page size of the machine. For a program for Intel on Apple silicon,
// getpagesize returns Intel's.
func pageSize() int64 {
	page := int64(os.Getpagesize())
	if b, err := unix.SysctlRaw("hw.pagesize"); err == nil {
		page = max(page, sysctlNumber(b))
	}
	return page
}

// MetalDevices describes all GPUs of this machine.
func MetalDevices() ([]DeviceInfo, error) {
	f, err := framework()
	if err != nil {
		return nil, err
	}
	var all []DeviceInfo
	f.pooled(func() {
		f.eachDevice(func(d objc.ID) { all = append(all, f.describe(d)) })
	})
	return all, nil
}

// DefaultDevice returns the system's default GPU. Without one the error wraps
// [ErrNoDevice]: a [Host] is only returned on request, because an engine cannot pass its
// buffers to a GPU.
func DefaultDevice() (Device, error) {
	m, err := NewMetal()
	if err != nil {
		return nil, err
	}
	return m, nil
}

// Handle returns the device's id<MTLDevice>, for the engine's command queues; 0
// once closed.
func (m *Metal) Handle() uintptr {
	m.mu.Lock()
	defer m.mu.Unlock()
	return uintptr(m.device)
}

// Info describes the device.
func (m *Metal) Info() DeviceInfo { return m.info }

// FreeMemory returns how many bytes may still be allocated or wrapped before the
// GPU has more than the system recommends, less what an engine needs besides; 0
// where the device does not say.
func (m *Metal) FreeMemory() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.device == 0 {
		return 0
	}
	var recommended, allocated uint64
	m.framework.pooled(func() {
		// It follows the limit that an administrator sets (iogpu.wired_limit_mb).
		recommended = objc.Send[uint64](m.device, selRecommended)
		allocated = objc.Send[uint64](m.device, selAllocated)
	})
	return leftOf(clampInt64(recommended), clampInt64(allocated))
}

// open returns the device and counts a buffer or residency set of it.
func (m *Metal) open() (objc.ID, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.device == 0 {
		return 0, fmt.Errorf("metal: %w", ErrClosed)
	}
	m.live++
	return m.device, nil
}

func (m *Metal) drop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.live--
}

// Wrap makes a buffer of mem. See [Device].
func (m *Metal) Wrap(mem []byte, done func()) (DeviceBuffer, error) {
	if err := checkWrap(m.info, mem); err != nil {
		return nil, fmt.Errorf("metal: %w", err)
	}
	device, err := m.open()
	if err != nil {
		return nil, err
	}
	start := unsafe.Pointer(unsafe.SliceData(mem))
	// A buffer that is declined may still call the deallocator when it dies;
	// the memory is the caller's then.
	var accepted atomic.Bool
	var once sync.Once
	var id objc.ID
	m.framework.pooled(func() {
		block := objc.NewBlock(func(objc.Block, unsafe.Pointer, uint) {
			if accepted.Load() {
				once.Do(done)
			}
		})
		// The buffer retains the block for as long as it needs it.
		defer block.Release()
		id = device.Send(selBufferNoCopy, start, uint(len(mem)), m.resource, block)
		if id == 0 {
			return
		}
		length := objc.Send[uint](id, selLen)
		contents := objc.Send[unsafe.Pointer](id, selCont)
		if length < uint(len(mem)) || contents != start {
			id.Send(selRelease)
			id = 0
			return
		}
		accepted.Store(true)
	})
	if id == 0 {
		m.drop()
		return nil, fmt.Errorf("metal: %s: %d bytes: %w", m.info.Name, len(mem), ErrDeclined)
	}
	return &metalBuffer{metal: m, id: id, mem: mem}, nil
}

// Alloc makes a buffer of n bytes in shared storage, which Metal clears. See
// [Device].
func (m *Metal) Alloc(n int64) (DeviceBuffer, error) {
	if n <= 0 || n > m.info.MaxBufferLength {
		return nil, fmt.Errorf("metal: a buffer of %d bytes, and 1 to %d are possible", n, m.info.MaxBufferLength)
	}
	device, err := m.open()
	if err != nil {
		return nil, err
	}
	var id objc.ID
	var contents unsafe.Pointer
	m.framework.pooled(func() {
		if id = device.Send(selBufferLength, uint(n), m.resource); id == 0 {
			return
		}
		contents = objc.Send[unsafe.Pointer](id, selCont)
		if contents == nil || objc.Send[uint](id, selLen) < uint(n) {
			id.Send(selRelease)
			id = 0
		}
	})
	if id == 0 {
		m.drop()
		return nil, fmt.Errorf("metal: %s gave no buffer of %d bytes: out of memory?", m.info.Name, n)
	}
	return &metalBuffer{metal: m, id: id, mem: unsafe.Slice((*byte)(contents), n)}, nil
}

// Close releases the device. It is an error while buffers or residency sets of it
// live.
func (m *Metal) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.device == 0:
		return fmt.Errorf("metal: %w", ErrClosed)
	case m.live > 0:
		return fmt.Errorf("metal: %d buffers or residency sets are in use; release them first", m.live)
	}
	m.framework.pooled(func() { m.device.Send(selRelease) })
	m.device = 0
	return nil
}

// metalBuffer is an MTLBuffer that this package owns once.
type metalBuffer struct {
	metal *Metal
	mu    sync.Mutex
	id    objc.ID // 0 once released
	mem   []byte
}

func (b *metalBuffer) Handle() uintptr {
	b.mu.Lock()
	defer b.mu.Unlock()
	return uintptr(b.id)
}

func (b *metalBuffer) Bytes() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mem
}

// Release drops this package's hold. Command buffers that use the MTLBuffer hold
// it too; the deallocator runs when the last of them is done.
func (b *metalBuffer) Release() error {
	b.mu.Lock()
	id := b.id
	b.id, b.mem = 0, nil
	b.mu.Unlock()
	if id == 0 {
		return errors.New("metal: a buffer was released twice")
	}
	b.metal.framework.pooled(func() { id.Send(selRelease) })
	b.metal.drop()
	return nil
}

var (
	_ Device          = (*Metal)(nil)
	_ MemoryReporter  = (*Metal)(nil)
	_ ResidencySetter = (*Metal)(nil)
)
