// Package testhost is a device for tests: the Host of package metal, which also refuses
// memory that is not inside one mapping, counts its buffers, and fails on request.
package testhost

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/tensorfs/tensorfs/metal"
)

// Options say what the device is like. The zero value is a Host that only counts.
type Options struct {
	PageSize        int64
	MaxBufferLength int64
	Decline         func(call int) bool // whether call n of Wrap, from 1 on, is declined
	FailAlloc       int                 // the call of Alloc, from 1 on, that fails; 0 for none
	Free            int64               // result of FreeMemory; 0 means unknown
	Whole           bool                // wrapped memory counts as a whole, as for a GPU
	Residency       bool                // there are residency sets
}

// Host is the device.
type Host struct {
	*metal.Host
	opts Options

	mu     sync.Mutex
	counts Counts
}

// Counts is what was made, and what of it is there.
type Counts struct {
	Wraps, Allocs           int // calls that succeeded
	WrapBytes, AllocBytes   int64
	LiveBuffers, LiveMemory int // buffers; wrapped memory that was not given back
	LiveSets                int
	wrapCalls, allocCalls   int
}

// New returns a device. When the test ends it must be without buffers, memory and
// sets.
func New(t testing.TB, o Options) *Host {
	t.Helper()
	host, err := metal.NewHost(metal.HostOptions{PageSize: o.PageSize, MaxBufferLength: o.MaxBufferLength})
	if err != nil {
		t.Fatal(err)
	}
	h := &Host{Host: host, opts: o}
	t.Cleanup(func() {
		if err := h.Close(); err != nil && !errors.Is(err, metal.ErrClosed) {
			t.Errorf("the device: %v", err)
		}
		if err := h.Left(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// Left returns an error while anything of the device lives.
func (h *Host) Left() error {
	if c := h.Counts(); c.LiveBuffers+c.LiveMemory+c.LiveSets > 0 {
		return fmt.Errorf("left are %d buffers, %d parts of wrapped memory and %d residency sets", c.LiveBuffers, c.LiveMemory, c.LiveSets)
	}
	return nil
}

// Counts returns what was made so far.
func (h *Host) Counts() Counts {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.counts
}

// count changes the counts.
func (h *Host) count(change func(c *Counts)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change(&h.counts)
}

// Info describes the device.
func (h *Host) Info() metal.DeviceInfo {
	info := h.Host.Info()
	info.Pageable = !h.opts.Whole
	return info
}

// FreeMemory is what the options say, less what is allocated.
func (h *Host) FreeMemory() int64 { return h.opts.Free }

// Wrap refuses memory outside of one mapping.
func (h *Host) Wrap(mem []byte, done func()) (metal.DeviceBuffer, error) {
	call := 0
	h.count(func(c *Counts) { c.wrapCalls++; call = c.wrapCalls })
	if len(mem) > 0 {
		if err := CheckOneMapping(mem); err != nil {
			return nil, fmt.Errorf("testhost: %w", err)
		}
	}
	if h.opts.Decline != nil && h.opts.Decline(call) {
		return nil, fmt.Errorf("testhost: %w", metal.ErrDeclined)
	}
	b, err := h.Host.Wrap(mem, func() {
		h.count(func(c *Counts) { c.LiveMemory-- })
		done()
	})
	if err != nil {
		return nil, err
	}
	h.count(func(c *Counts) { c.Wraps++; c.WrapBytes += int64(len(mem)); c.LiveMemory++; c.LiveBuffers++ })
	return &buffer{b, h}, nil
}

// Alloc fails where the options say so.
func (h *Host) Alloc(n int64) (metal.DeviceBuffer, error) {
	call := 0
	h.count(func(c *Counts) { c.allocCalls++; call = c.allocCalls })
	if call == h.opts.FailAlloc {
		return nil, fmt.Errorf("testhost: no memory for %d bytes", n)
	}
	b, err := h.Host.Alloc(n)
	if err != nil {
		return nil, err
	}
	h.count(func(c *Counts) { c.Allocs++; c.AllocBytes += n; c.LiveBuffers++ })
	return &buffer{b, h}, nil
}

// NewResidencySet makes a set that is only counted.
func (h *Host) NewResidencySet(buffers []metal.DeviceBuffer) (metal.ResidencySet, error) {
	if !h.opts.Residency {
		return nil, fmt.Errorf("testhost: %w", errors.ErrUnsupported)
	}
	for i, b := range buffers {
		if b.Bytes() == nil {
			return nil, fmt.Errorf("testhost: buffer %d was released", i)
		}
	}
	h.count(func(c *Counts) { c.LiveSets++ })
	return &set{host: h, n: len(buffers)}, nil
}

// buffer counts its release.
type buffer struct {
	metal.DeviceBuffer
	host *Host
}

func (b *buffer) Release() error {
	err := b.DeviceBuffer.Release()
	if err == nil {
		b.host.count(func(c *Counts) { c.LiveBuffers-- })
	}
	return err
}

// set is a residency set; its handle is how many buffers it has.
type set struct {
	host *Host
	n    int
	once sync.Once
}

func (s *set) Handle() uintptr { return uintptr(s.n) }

func (s *set) Release() error {
	err := errors.New("testhost: a residency set was released twice")
	s.once.Do(func() {
		s.host.count(func(c *Counts) { c.LiveSets-- })
		err = nil
	})
	return err
}

var (
	_ metal.Device          = (*Host)(nil)
	_ metal.MemoryReporter  = (*Host)(nil)
	_ metal.ResidencySetter = (*Host)(nil)
)
