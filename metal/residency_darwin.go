package metal

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego/objc"
)

// NewResidencySet asks the system to keep buffers of this device resident for the
// GPU until the set is released. The engine adds the set's handle to its command
// queue. Before macOS 15 the error wraps [errors.ErrUnsupported].
//
// The set keeps its buffers in memory: releasing a buffer frees it only after the set
// is released, too.
func (m *Metal) NewResidencySet(buffers []DeviceBuffer) (ResidencySet, error) {
	device, err := m.open()
	if err != nil {
		return nil, err
	}
	s := &metalSet{metal: m}
	m.framework.pooled(func() { err = s.make(device, buffers) })
	if err != nil {
		m.drop()
		return nil, fmt.Errorf("metal: %s: a residency set: %w", m.info.Name, err)
	}
	return s, nil
}

// metalSet is an MTLResidencySet that this package owns once.
type metalSet struct {
	metal *Metal
	mu    sync.Mutex
	id    objc.ID   // 0 once released
	held  []objc.ID // its MTLBuffers
}

// make makes the set and has its buffers made resident.
func (s *metalSet) make(device objc.ID, buffers []DeviceBuffer) error {
	descriptors := objc.GetClass("MTLResidencySetDescriptor")
	if descriptors == 0 || !objc.Send[bool](device, selResponds, selNewSet) {
		return fmt.Errorf("%w before macOS 15", errors.ErrUnsupported)
	}
	descriptor := objc.ID(descriptors).Send(selNew)
	defer descriptor.Send(selRelease)
	descriptor.Send(selCapacity, uint(len(buffers)))
	problem := new(objc.ID) // an NSError, owned by the pool
	if s.id = device.Send(selNewSet, descriptor, unsafe.Pointer(problem)); s.id == 0 {
		return errors.New(describeError(*problem))
	}
	for i, b := range buffers {
		if err := s.add(b); err != nil {
			s.end()
			return fmt.Errorf("buffer %d of %d: %w", i+1, len(buffers), err)
		}
	}
	s.id.Send(selCommit)
	s.id.Send(selRequest)
	return nil
}

// add puts a buffer into the set and holds it.
func (s *metalSet) add(b DeviceBuffer) error {
	mb, ok := b.(*metalBuffer)
	if !ok || mb.metal != s.metal {
		return errors.New("it is of another device")
	}
	mb.mu.Lock()
	defer mb.mu.Unlock()
	if mb.id == 0 {
		return errors.New("it has been released")
	}
	s.held = append(s.held, mb.id.Send(selRetain))
	s.id.Send(selAdd, mb.id)
	return nil
}

// describeError returns the text of an NSError.
func describeError(problem objc.ID) string {
	if problem != 0 {
		if text := problem.Send(selDescription); text != 0 {
			return objc.Send[string](text, selUTF8String)
		}
	}
	return "Metal gave none and did not say why"
}

// Handle returns the id<MTLResidencySet>; 0 once released.
func (s *metalSet) Handle() uintptr {
	s.mu.Lock()
	defer s.mu.Unlock()
	return uintptr(s.id)
}

// Release lets the buffers of the set go. Its memory is given back only once they
// have been taken out and that was committed.
func (s *metalSet) Release() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.id == 0 {
		return errors.New("metal: a residency set was released twice")
	}
	s.metal.framework.pooled(func() {
		s.id.Send(selEnd)
		s.end()
	})
	s.metal.drop()
	return nil
}

// end empties the set and releases it and what it held.
func (s *metalSet) end() {
	s.id.Send(selRemoveAll)
	s.id.Send(selCommit)
	s.id.Send(selRelease)
	for _, b := range s.held {
		b.Send(selRelease)
	}
	s.id, s.held = 0, nil
}
