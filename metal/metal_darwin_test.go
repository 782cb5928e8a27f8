package metal

import (
	"bytes"
	"errors"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ebitengine/purego/objc"
	"golang.org/x/sys/unix"

	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
	"github.com/tensorfs/tensorfs/internal/testing/testtree"
)

// newMetal opens the GPU, or skips where the machine has none.
func newMetal(t *testing.T) *Metal {
	t.Helper()
	m, err := NewMetal()
	if errors.Is(err, ErrNoDevice) {
		t.Skipf("NOT TESTED: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// DefaultDevice is the GPU, or an error that the machine has no GPU, and never plain memory.
func TestMetalDefaultDevice(t *testing.T) {
	d, err := DefaultDevice()
	if err != nil {
		if !errors.Is(err, ErrNoDevice) || d != nil {
			t.Errorf("%v, %v", d, err)
		}
		return
	}
	if d.Info().Kind != "metal" {
		t.Errorf("a device of kind %q", d.Info().Kind)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// A GPU can be chosen by its registry ID and by an engine's own id<MTLDevice>,
// which is not lost when it is closed here.
func TestMetalChosen(t *testing.T) {
	m := newMetal(t)
	all, err := MetalDevices()
	if err != nil || len(all) == 0 {
		t.Fatalf("%d devices, %v", len(all), err)
	}
	for _, info := range all {
		one, err := NewMetalWith(MetalOptions{RegistryID: info.RegistryID})
		if err != nil {
			t.Fatal(err)
		}
		if one.Info() != info {
			t.Errorf("%+v, want %+v", one.Info(), info)
		}
		if err := one.Close(); err != nil {
			t.Error(err)
		}
	}
	for range 3 {
		same, err := NewMetalFrom(m.Handle())
		if err != nil {
			t.Fatal(err)
		}
		if same.Info() != m.Info() || same.Handle() != m.Handle() {
			t.Errorf("%+v, want %+v", same.Info(), m.Info())
		}
		if err := same.Close(); err != nil {
			t.Error(err)
		}
	}
	if b, err := m.Alloc(1); err != nil {
		t.Error(err)
	} else if err := b.Release(); err != nil {
		t.Error(err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	for _, o := range []MetalOptions{{RegistryID: 1}, {Device: 1, RegistryID: 1}} {
		if _, err := NewMetalWith(o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
	if _, err := NewMetalWith(MetalOptions{RegistryID: 1}); !errors.Is(err, ErrNoDevice) {
		t.Errorf("a registry ID that nobody has: %v", err)
	}
	if _, err := NewMetalFrom(0); err == nil {
		t.Error("a device of nil was taken")
	}
}

// Fresh memory is zeroed although this code does not clear it, also if earlier buffers had other
// contents, with and without Metal's hazard tracking.
func TestMetalAllocIsClear(t *testing.T) {
	newMetal(t).Close()
	for _, track := range []bool{false, true} {
		m, err := NewMetalWith(MetalOptions{TrackHazards: track})
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int64{1, 100, 4096, 16384, 1 << 20, 16<<20 + 1} {
			for round := range 4 {
				b, err := m.Alloc(n)
				if err != nil {
					t.Fatal(err)
				}
				if got := b.Bytes(); int64(len(got)) != n || len(bytes.Trim(got, "\x00")) > 0 {
					t.Fatalf("round %d: %d bytes for %d, or not zero", round, len(got), n)
				}
				for i := range b.Bytes() {
					b.Bytes()[i] = 0xA5
				}
				if err := b.Release(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}

// What is allocated is not free any more.
func TestMetalFreeMemory(t *testing.T) {
	m := newMetal(t)
	before := m.FreeMemory()
	if before <= 0 || before > m.Info().RecommendedMemory {
		t.Fatalf("%d bytes are free of %d", before, m.Info().RecommendedMemory)
	}
	const n = 64 << 20
	b, err := m.Alloc(n)
	if err != nil {
		t.Fatal(err)
	}
	if after := m.FreeMemory(); after > before-n && before > n {
		t.Errorf("%d bytes were free, and %d beside %d new ones", before, after, n)
	}
	if err := errors.Join(b.Release(), m.Close()); err != nil {
		t.Error(err)
	}
	if n := m.FreeMemory(); n != 0 {
		t.Errorf("a closed device has %d bytes", n)
	}
}

// A residency set holds its buffers, and gives them back when it is released.
func TestMetalResidency(t *testing.T) {
	m := newMetal(t)
	other, err := NewMetalFrom(m.Handle())
	if err != nil {
		t.Fatal(err)
	}
	var buffers []DeviceBuffer
	for range 3 {
		b, err := m.Alloc(1 << 20)
		if err != nil {
			t.Fatal(err)
		}
		copy(b.Bytes(), "tensor")
		buffers = append(buffers, b)
	}
	if _, err := other.NewResidencySet(buffers); err == nil {
		t.Error("a set took buffers of another device")
	}
	s, err := m.NewResidencySet(buffers)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skipf("NOT TESTED: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	set := objc.ID(s.Handle())
	if n := objc.Send[uint](set, objc.RegisterName("allocationCount")); n != 3 {
		t.Errorf("%d allocations in the set, want 3", n)
	}
	if err := m.Close(); err == nil {
		t.Error("the device was closed with a set in use")
	}
	handle := buffers[0].Handle()
	for _, b := range buffers {
		if err := b.Release(); err != nil {
			t.Error(err)
		}
	}
	if got := gpuCopy(t, m, handle, 0, 8); !bytes.Equal(got, []byte("tensor\x00\x00")) {
		t.Errorf("the set's buffer holds %q", got)
	}
	if _, err := m.NewResidencySet(buffers); err == nil {
		t.Error("a set took released buffers")
	}
	if err := s.Release(); err != nil {
		t.Error(err)
	}
	if err := s.Release(); err == nil || s.Handle() != 0 {
		t.Errorf("a set was released twice: %v", err)
	}
	if err := errors.Join(m.Close(), other.Close()); err != nil {
		t.Error(err)
	}
}

func TestMetalInfo(t *testing.T) {
	m := newMetal(t)
	info := m.Info()
	t.Logf("%+v", info)
	if info.Kind != "metal" || info.Name == "" || info.MaxBufferLength < 256<<20 || info.PageSize < int64(os.Getpagesize()) {
		t.Errorf("info %+v", info)
	}
	if runtime.GOARCH == "arm64" && (!info.UnifiedMemory || info.PageSize != 16384) {
		t.Errorf("on Apple silicon: %+v", info)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if err := m.Close(); !errors.Is(err, ErrClosed) {
		t.Errorf("second Close: %v", err)
	}
	if _, err := m.Alloc(1); !errors.Is(err, ErrClosed) {
		t.Errorf("Alloc after Close: %v", err)
	}
}

// gpuCopy copies [off, off+n) of a buffer by the GPU and returns what arrived.
func gpuCopy(t *testing.T, m *Metal, handle uintptr, off, n int64) []byte {
	t.Helper()
	to, err := m.Alloc(n)
	if err != nil {
		t.Fatal(err)
	}
	defer to.Release()
	m.framework.pooled(func() {
		queue := objc.ID(m.Handle()).Send(objc.RegisterName("newCommandQueue"))
		defer queue.Send(selRelease)
		command := queue.Send(objc.RegisterName("commandBuffer"))
		blit := command.Send(objc.RegisterName("blitCommandEncoder"))
		blit.Send(objc.RegisterName("copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:"),
			objc.ID(handle), uint(off), objc.ID(to.Handle()), uint(0), uint(n))
		blit.Send(objc.RegisterName("endEncoding"))
		command.Send(objc.RegisterName("commit"))
		command.Send(objc.RegisterName("waitUntilCompleted"))
	})
	return bytes.Clone(to.Bytes())
}

// The GPU sees the bytes of a mapped file, and the memory is given back once.
func TestMetalWrap(t *testing.T) {
	m := newMetal(t)
	page := int(m.Info().PageSize)
	want := bytes.Repeat([]byte("tensor"), page)
	path := t.TempDir() + "/f"
	if err := os.WriteFile(path, want, 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	mem, err := unix.Mmap(int(f.Fd()), 0, len(want), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	var called atomic.Int32
	b, err := m.Wrap(mem, func() {
		called.Add(1)
		if err := unix.Munmap(mem); err != nil {
			t.Error(err)
		}
	})
	if errors.Is(err, ErrDeclined) {
		t.Skipf("NOT TESTED: this GPU wraps no mappings: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := gpuCopy(t, m, b.Handle(), 4, int64(len(want)-8)); !bytes.Equal(got, want[4:len(want)-4]) {
		t.Error("the GPU saw other bytes")
	}
	if err := b.Release(); err != nil {
		t.Error(err)
	}
	if err := b.Release(); err == nil {
		t.Error("a buffer was released twice")
	}
	testlimit.Wait(t, "call of the deallocator", func() bool { return called.Load() > 0 })
	if n := called.Load(); n != 1 {
		t.Errorf("the deallocator ran %d times", n)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

// Breaches are refused before Metal sees them.
func TestMetalRefuses(t *testing.T) {
	m := newMetal(t)
	defer m.Close()
	page := int(m.Info().PageSize)
	mem, err := unix.Mmap(-1, 0, 3*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mem)
	for _, c := range []struct {
		mem  []byte
		want string
	}{
		{nil, "no bytes"},
		{mem[1 : 1+page], "does not begin on a page"},
		{mem[:page+1], "no whole pages"},
	} {
		if _, err := m.Wrap(c.mem, nil); err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, ErrDeclined) {
			t.Errorf("error %v, want one with %q", err, c.want)
		}
	}
}

// The loader gives the GPU every tensor of a tree, copied where it must be.
func TestMetalLoader(t *testing.T) {
	m := newMetal(t)
	tree := testtree.Sample()
	mount, _ := tree.Write(t)
	l, err := Open(mount, Options{Device: m})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range tree.Tensors {
		b, err := l.Tensor(want.View, want.Name)
		if err != nil {
			t.Fatal(err)
		}
		bytesWanted := tree.Bytes(want)
		if !bytes.Equal(b.Contents, bytesWanted) {
			t.Errorf("%s/%s: the CPU saw other bytes", want.View, want.Name)
		}
		// Copies between buffers go by multiples of 4 on macOS.
		if n := b.Size / 4 * 4; n > 0 && b.Offset%4 == 0 {
			if got := gpuCopy(t, m, b.Handle, b.Offset, n); !bytes.Equal(got, bytesWanted[:n]) {
				t.Errorf("%s/%s: the GPU saw other bytes (copied: %v)", want.View, want.Name, b.Copied)
			}
		}
		if err := b.Release(); err != nil {
			t.Error(err)
		}
	}
	if err := errors.Join(l.Close(), m.Close()); err != nil {
		t.Error(err)
	}
}
