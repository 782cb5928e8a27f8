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

	"github.com/tensorfs/tensorfs/internal/testlimit"
	"github.com/tensorfs/tensorfs/metal/internal/testtree"
)

// newMetal opens the GPU, or skips where the machine has none.
func newMetal(t *testing.T) *Metal {
	t.Helper()
	m, err := NewMetal()
	if err != nil {
		t.Skipf("no Metal device: %v", err)
	}
	return m
}

func TestMetalInfo(t *testing.T) {
	m := newMetal(t)
	info := m.Info()
	t.Logf("%+v", info)
	if info.Kind != "metal" || info.Name == "" || info.MaxBufferLength < 256<<20 || info.PageSize != int64(os.Getpagesize()) {
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
	page := os.Getpagesize()
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
		t.Skipf("this GPU wraps no mappings: %v", err)
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
	page := os.Getpagesize()
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
