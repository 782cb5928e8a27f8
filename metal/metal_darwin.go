package metal

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/ebitengine/purego"
	"github.com/ebitengine/purego/objc"
)

// storageShared is MTLResourceStorageModeShared: one memory for CPU and GPU.
const storageShared = uint(0)

// framework is what loading Metal gives, once per process.
var framework = sync.OnceValues(loadFramework)

type metalFramework struct {
	systemDevice func() objc.ID // owned by the caller
	pool         objc.Class
}

// The messages that are sent. They are registered when Metal is loaded, since
// registering takes a lock of the Objective-C runtime.
var (
	selNew, selRelease, selDrain                      objc.SEL
	selName, selUTF8String, selRegistryID             objc.SEL
	selMaxBufferLength, selRecommended, selUnified    objc.SEL
	selBufferNoCopy, selBufferLength, selLen, selCont objc.SEL
)

// loadFramework loads Metal. CoreGraphics comes with it: without that
// MTLCreateSystemDefaultDevice returns nil in a command-line program.
func loadFramework() (*metalFramework, error) {
	var lib uintptr
	for _, path := range []string{
		"/System/Library/Frameworks/Foundation.framework/Foundation",
		"/System/Library/Frameworks/CoreGraphics.framework/CoreGraphics",
		"/System/Library/Frameworks/Metal.framework/Metal",
	} {
		var err error
		if lib, err = purego.Dlopen(path, purego.RTLD_GLOBAL|purego.RTLD_NOW); err != nil {
			return nil, fmt.Errorf("metal: %w", err)
		}
	}
	symbol, err := purego.Dlsym(lib, "MTLCreateSystemDefaultDevice")
	if err != nil {
		return nil, fmt.Errorf("metal: %w", err)
	}
	f := &metalFramework{pool: objc.GetClass("NSAutoreleasePool")}
	purego.RegisterFunc(&f.systemDevice, symbol)
	for name, sel := range map[string]*objc.SEL{
		"new": &selNew, "release": &selRelease, "drain": &selDrain,
		"name": &selName, "UTF8String": &selUTF8String, "registryID": &selRegistryID,
		"maxBufferLength": &selMaxBufferLength, "recommendedMaxWorkingSetSize": &selRecommended,
		"hasUnifiedMemory": &selUnified,
		"newBufferWithBytesNoCopy:length:options:deallocator:": &selBufferNoCopy,
		"newBufferWithLength:options:":                         &selBufferLength,
		"length":                                               &selLen, "contents": &selCont,
	} {
		*sel = objc.RegisterName(name)
	}
	return f, nil
}

// pooled runs fn with an autorelease pool, which belongs to the thread.
func (f *metalFramework) pooled(fn func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pool := objc.ID(f.pool).Send(selNew)
	defer pool.Send(selDrain)
	fn()
}

// Metal is the system's default GPU.
type Metal struct {
	framework *metalFramework
	info      DeviceInfo

	mu     sync.Mutex
	device objc.ID // 0 once closed
	live   int     // buffers
}

// NewMetal returns the system's default GPU. It is an error where there is none.
func NewMetal() (*Metal, error) {
	f, err := framework()
	if err != nil {
		return nil, err
	}
	m := &Metal{framework: f}
	f.pooled(func() {
		m.device = f.systemDevice()
		if m.device == 0 {
			return
		}
		m.info = DeviceInfo{
			Kind:              "metal",
			PageSize:          int64(os.Getpagesize()),
			MaxBufferLength:   int64(objc.Send[uint64](m.device, selMaxBufferLength)),
			RecommendedMemory: int64(objc.Send[uint64](m.device, selRecommended)),
			RegistryID:        objc.Send[uint64](m.device, selRegistryID),
			UnifiedMemory:     objc.Send[bool](m.device, selUnified),
		}
		if name := m.device.Send(selName); name != 0 {
			m.info.Name = objc.Send[string](name, selUTF8String)
		}
	})
	if m.device == 0 {
		return nil, errors.New("metal: this machine has no Metal device")
	}
	return m, nil
}

// DefaultDevice returns the Metal device of the machine, or a [Host] where there
// is none.
func DefaultDevice() (Device, error) {
	if m, err := NewMetal(); err == nil {
		return m, nil
	}
	return NewHost(HostOptions{})
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

// open returns the device and counts a buffer of it.
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
		id = device.Send(selBufferNoCopy, start, uint(len(mem)), storageShared, block)
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

// Alloc makes a buffer of n bytes in shared storage. See [Device].
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
		if id = device.Send(selBufferLength, uint(n), storageShared); id == 0 {
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
	mem := unsafe.Slice((*byte)(contents), n)
	clear(mem)
	return &metalBuffer{metal: m, id: id, mem: mem}, nil
}

// Close releases the device. It is an error while buffers of it live.
func (m *Metal) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.device == 0:
		return fmt.Errorf("metal: %w", ErrClosed)
	case m.live > 0:
		return fmt.Errorf("metal: %d buffers are in use; release them first", m.live)
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

var _ Device = (*Metal)(nil)
