package main

/*
#include <stdlib.h>
#include "tensorfs.h"

// What the go command writes for exported functions must agree with tensorfs.h.
// cgo knows no const, so it hides in the names of types.
typedef const char tensorfs_char;
typedef const char *const tensorfs_string;
typedef const tensorfs_tensor tensorfs_const_tensor;
typedef const tensorfs_device tensorfs_const_device;

// The structs behind the pointers of tensorfs.h, with the way back to Go.
struct tensorfs_loader { uintptr_t handle; };
typedef struct { tensorfs_tensor tensor; uintptr_t handle; } tensorfs_held;
*/
import "C"

import (
	"errors"
	"fmt"
	"runtime/cgo"
	"sync"
	"unsafe"

	"github.com/tensorfs/tensorfs/metal"
)

// loader is the Go side of a tensorfs_loader.
type loader struct {
	*metal.Loader
	self   *C.tensorfs_loader
	device *C.tensorfs_device

	mu     sync.Mutex
	memory arena                // of device and names
	names  map[string][]*C.char // by view
}

// held is the Go side of a tensorfs_tensor.
type held struct {
	buffer metal.Buffer
	memory arena
}

func loaderOf(l *C.tensorfs_loader) *loader {
	return cgo.Handle(l.handle).Value().(*loader)
}

// errNull is the error of a caller that did not look whether open succeeded.
var errNull = errors.New("metal: the loader is NULL: look at the error of tensorfs_open")

//export tensorfs_open
func tensorfs_open(mountpoint *C.tensorfs_char, errp **C.char) *C.tensorfs_loader {
	opened, err := metal.Open(C.GoString(mountpoint), metal.Options{})
	if err != nil {
		fail(errp, err)
		return nil
	}
	l := &loader{Loader: opened, names: map[string][]*C.char{}}
	info := l.DeviceInfo()
	l.device = one[C.tensorfs_device](&l.memory)
	*l.device = C.tensorfs_device{
		kind:               l.memory.string(info.Kind),
		name:               l.memory.string(info.Name),
		page_size:          C.uint64_t(info.PageSize),
		max_buffer_length:  C.uint64_t(info.MaxBufferLength),
		recommended_memory: C.uint64_t(info.RecommendedMemory),
		unified_memory:     truth(info.UnifiedMemory),
	}
	l.self = one[C.tensorfs_loader](&l.memory)
	l.self.handle = C.uintptr_t(cgo.NewHandle(l))
	return l.self
}

//export tensorfs_device_of
func tensorfs_device_of(p *C.tensorfs_loader) *C.tensorfs_const_device {
	if p == nil {
		return nil
	}
	return loaderOf(p).device
}

//export tensorfs_names
func tensorfs_names(p *C.tensorfs_loader, view *C.tensorfs_char, count *C.size_t, errp **C.char) *C.tensorfs_string {
	if p == nil {
		fail(errp, errNull)
		return nil
	}
	l, name := loaderOf(p), C.GoString(view)
	l.mu.Lock()
	defer l.mu.Unlock()
	list, ok := l.names[name]
	if !ok {
		names := l.Names(name)
		if names == nil {
			fail(errp, fmt.Errorf("metal: %q: no such view", name))
			return nil
		}
		// One more than there are, so that the array of an empty view exists.
		list = array[*C.char](&l.memory, len(names)+1)
		for i, s := range names {
			list[i] = l.memory.string(s)
		}
		l.names[name] = list
	}
	if count != nil {
		*count = C.size_t(len(list) - 1)
	}
	return (*C.tensorfs_string)(unsafe.Pointer(unsafe.SliceData(list)))
}

//export tensorfs_prefetch
func tensorfs_prefetch(p *C.tensorfs_loader, view *C.tensorfs_char, names *C.tensorfs_string, count C.size_t, progress C.tensorfs_progress, arg unsafe.Pointer, errp **C.char) C.int {
	if p == nil {
		return status(errp, errNull)
	}
	list := unsafe.Slice((**C.char)(unsafe.Pointer(names)), count)
	return status(errp, prefetch(loaderOf(p), C.GoString(view), list, progress, arg))
}

//export tensorfs_get
func tensorfs_get(p *C.tensorfs_loader, view, name *C.tensorfs_char, errp **C.char) *C.tensorfs_const_tensor {
	if p == nil {
		fail(errp, errNull)
		return nil
	}
	l := loaderOf(p)
	info, err := l.Info(C.GoString(view), C.GoString(name))
	if err != nil {
		fail(errp, err)
		return nil
	}
	b, err := l.Tensor(info.View, info.Name)
	if err != nil {
		fail(errp, err)
		return nil
	}
	h := &held{buffer: b}
	m := &h.memory
	out := one[C.tensorfs_held](m)
	shape := array[C.int64_t](m, len(info.Shape))
	for i, d := range info.Shape {
		shape[i] = C.int64_t(d)
	}
	sections := array[C.tensorfs_section](m, len(info.Sections))
	for i, s := range info.Sections {
		sections[i] = C.tensorfs_section{m.string(s.Name), m.string(s.DType), C.uint64_t(s.Offset), C.uint64_t(s.Bytes)}
	}
	t := &out.tensor
	// The handle is Metal's object, no Go memory.
	*(*uintptr)(unsafe.Pointer(&t.buffer)) = b.Handle
	t.data = unsafe.Pointer(unsafe.SliceData(b.Contents))
	t.bytes, t.offset, t.copied = C.uint64_t(b.Size), C.uint64_t(b.Offset), truth(b.Copied)
	t.dtype, t.engine_dtype = m.string(info.DType), C.int(info.EngineDType)
	t.rank, t.shape = C.size_t(len(shape)), unsafe.SliceData(shape)
	t.n_sections, t.sections = C.size_t(len(sections)), unsafe.SliceData(sections)
	if q := info.Quant; q != nil {
		t.quant_mode, t.quant_bits, t.quant_group_size = m.string(q.Mode), C.int(q.Bits), C.int(q.GroupSize)
	}
	t.file = m.string(b.File)
	out.handle = C.uintptr_t(cgo.NewHandle(h))
	return t
}

//export tensorfs_release
func tensorfs_release(t *C.tensorfs_const_tensor, errp **C.char) C.int {
	if t == nil {
		return 0
	}
	handle := cgo.Handle((*C.tensorfs_held)(unsafe.Pointer(t)).handle)
	h := handle.Value().(*held)
	err := h.buffer.Release()
	handle.Delete()
	h.memory.free()
	return status(errp, err)
}

//export tensorfs_close
func tensorfs_close(p *C.tensorfs_loader, errp **C.char) C.int {
	if p == nil {
		return 0
	}
	l := loaderOf(p)
	if err := l.Close(); err != nil {
		return status(errp, err)
	}
	cgo.Handle(p.handle).Delete()
	l.memory.free()
	return 0
}

// fail puts err into *out.
func fail(out **C.char, err error) {
	if out != nil {
		*out = C.CString(err.Error())
	}
}

// status is the result of functions that have no other.
func status(out **C.char, err error) C.int {
	if err == nil {
		return 0
	}
	fail(out, err)
	return -1
}

func truth(b bool) C.int {
	if b {
		return 1
	}
	return 0
}

// errMemory is what a failed allocation panics with: the C library has no memory
// for a few strings, and the program cannot go on.
var errMemory = errors.New("tensorfs: out of memory")

// arena is C memory that is freed together.
type arena []unsafe.Pointer

// array returns a zeroed array in C memory.
func array[T any](a *arena, n int) []T {
	var zero T
	p := C.calloc(C.size_t(max(n, 1)), C.size_t(unsafe.Sizeof(zero)))
	if p == nil {
		panic(errMemory)
	}
	*a = append(*a, p)
	return unsafe.Slice((*T)(p), n)
}

// one returns a zeroed T in C memory.
func one[T any](a *arena) *T { return &array[T](a, 1)[0] }

// string returns a copy of s in C memory.
func (a *arena) string(s string) *C.char {
	p := C.CString(s)
	*a = append(*a, unsafe.Pointer(p))
	return p
}

func (a arena) free() {
	for _, p := range a {
		C.free(p)
	}
}
