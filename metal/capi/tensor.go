package main

// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"
	"sync"
	"unicode/utf8"
	"unsafe"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/metal"
	"github.com/tensorfs/tensorfs/views"
)

// held is the Go side of a tensorfs_tensor.
type held struct {
	buffer metal.Buffer
	set    *set // its owner; nil if the caller owns it
	memory arena
}

// set is the Go side of a tensorfs_set.
type set struct {
	*metal.Set
	loader *loader
	memory arena

	mu      sync.Mutex
	tensors map[metal.Ref]*C.tensorfs_tensor
}

// plan is the Go side of a tensorfs_load_plan.
type plan struct{ memory arena }

// describe returns the description of a tensor.
func (l *loader) describe(ref metal.Ref) (*C.tensorfs_tensor_info, error) {
	info, err := l.Info(ref.View, ref.Name)
	if err != nil {
		return nil, err
	}
	return l.described(ref, ref.View, info), nil
}

// described returns a description in C memory. view is the one whose kernels take it.
func (l *loader) described(ref metal.Ref, view string, x tensorfs.Tensor) *C.tensorfs_tensor_info {
	t, _ := once(l, "info\x00"+ref.String(), func(a *arena) (*C.tensorfs_tensor_info, error) { return newInfo(a, ref, view, x), nil })
	return t
}

func newInfo(a *arena, ref metal.Ref, view string, info tensorfs.Tensor) *C.tensorfs_tensor_info {
	engine, ok := views.EngineDType(view, &info)
	if !ok {
		engine = -1
	}
	t := one[C.tensorfs_tensor_info](a)
	t.view, t.name, t.dtype = a.string(ref.View), a.string(ref.Name), a.string(info.DType.String())
	t.engine_dtype, t.bytes = C.int(engine), C.uint64_t(info.Data.Size())
	t.rank, t.shape = C.size_t(len(info.Shape)), unsafe.SliceData(copied[int64, C.int64_t](a, info.Shape))
	sections := array[C.tensorfs_section](a, len(info.Parts))
	for i, s := range info.Parts {
		sections[i] = C.tensorfs_section{a.string(s.Name), a.string(s.DType), C.uint64_t(s.Offset), C.uint64_t(s.Bytes)}
	}
	t.n_sections, t.sections = C.size_t(len(sections)), unsafe.SliceData(sections)
	if q := info.Quant; q != nil {
		t.quant_mode, t.quant_bits, t.quant_group_size = a.string(q.Mode), C.int(q.Bits), C.int(q.GroupSize)
	}
	if utf8.ValidString(info.Source) {
		t.source_name = a.string(info.Source)
	}
	return t
}

// tensor returns a buffer as the caller gets it.
func (l *loader) tensor(b metal.Buffer, info *C.tensorfs_tensor_info, of *set) *C.tensorfs_tensor {
	h := &held{buffer: b, set: of}
	t := one[C.tensorfs_tensor](&h.memory)
	*t = C.tensorfs_tensor{
		data:          unsafe.Pointer(unsafe.SliceData(b.Contents)),
		buffer_offset: C.uint64_t(b.Offset),
		origin:        C.tensorfs_origin(b.Origin),
		file:          l.text(b.File),
		info:          info,
	}
	foreign(&t.buffer, b.Handle)
	handles.Store(unsafe.Pointer(t), h)
	return t
}

//export tensorfsgo_get
func tensorfsgo_get(p *C.tensorfs_loader, view, name C.tensorfs_string, errp **C.tensorfs_error) *C.tensorfs_tensor {
	return get(p, view, name, errp, (*metal.Loader).Tensor)
}

//export tensorfsgo_get_private
func tensorfsgo_get_private(p *C.tensorfs_loader, view, name C.tensorfs_string, errp **C.tensorfs_error) *C.tensorfs_tensor {
	return get(p, view, name, errp, (*metal.Loader).Private)
}

// get returns a tensor in the buffer that from returns.
func get(p *C.tensorfs_loader, view, name C.tensorfs_string, errp **C.tensorfs_error, from func(l *metal.Loader, view, name string) (metal.Buffer, error)) *C.tensorfs_tensor {
	return with(p, errp, nil, func(l *loader) (*C.tensorfs_tensor, error) {
		ref, err := tensorOf(view, name)
		if err != nil {
			return nil, err
		}
		info, err := l.describe(ref)
		if err != nil {
			return nil, err
		}
		b, err := from(l.Loader, ref.View, ref.Name)
		if err != nil {
			return nil, err
		}
		return l.tensor(b, info, nil), nil
	})
}

//export tensorfsgo_get_fused
func tensorfsgo_get_fused(p *C.tensorfs_loader, view C.tensorfs_string, names *C.tensorfs_string, count C.size_t, errp **C.tensorfs_error) *C.tensorfs_tensor {
	return with(p, errp, nil, func(l *loader) (*C.tensorfs_tensor, error) {
		given, err := list(names, count, "names")
		if err != nil {
			return nil, err
		}
		parts := make([]string, len(given))
		for i, s := range given {
			if parts[i], err = goString(s, "name"); err != nil {
				return nil, err
			}
		}
		b, err := l.Fused(viewOf(view), parts...)
		if err != nil {
			return nil, err
		}
		info, err := l.FusedInfo(viewOf(view), parts...)
		if err != nil {
			return nil, errors.Join(err, b.Release())
		}
		ref := metal.Ref{View: viewOf(view) + ", joined", Name: info.Name}
		return l.tensor(b, l.described(ref, viewOf(view), info), nil), nil
	})
}

//export tensorfsgo_release
func tensorfsgo_release(p unsafe.Pointer, errp **C.tensorfs_error) C.tensorfs_status {
	h, err := find[held](p, "tensor")
	switch {
	case p == nil:
		return C.TENSORFS_OK
	case err == nil && h.set != nil:
		err = fmt.Errorf("%w: the tensor is of a set: release the set", errInvalid)
	case err == nil:
		if h, err = take[held](p, "tensor"); err == nil {
			err = h.buffer.Release()
			h.memory.free()
		}
	}
	return fail(errp, err)
}

// refsOf returns the tensors that a caller names.
func refsOf(p *C.tensorfs_ref, n C.size_t) ([]metal.Ref, error) {
	given, err := list(p, n, "tensors")
	if err != nil {
		return nil, err
	}
	refs := make([]metal.Ref, len(given))
	for i, r := range given {
		if refs[i], err = tensorOf(r.view, r.name); err != nil {
			return nil, err
		}
	}
	return refs, nil
}

//export tensorfsgo_plan
func tensorfsgo_plan(p *C.tensorfs_loader, refs *C.tensorfs_ref, count C.size_t, errp **C.tensorfs_error) *C.tensorfs_load_plan {
	return with(p, errp, nil, func(l *loader) (*C.tensorfs_load_plan, error) {
		given, err := refsOf(refs, count)
		if err != nil {
			return nil, err
		}
		made, err := l.Plan(given)
		if err != nil {
			return nil, err
		}
		h := &plan{}
		windows := array[C.tensorfs_window](&h.memory, len(made.Windows))
		for i, w := range made.Windows {
			windows[i] = C.tensorfs_window{file: h.memory.string(w.File), offset: C.uint64_t(w.Offset), bytes: C.uint64_t(w.Bytes), origin: C.tensorfs_origin(w.Origin)}
		}
		out := one[C.tensorfs_load_plan](&h.memory)
		*out = C.tensorfs_load_plan{
			model: C.uint64_t(made.Model), cache: C.uint64_t(made.Cache), memory: C.uint64_t(made.Memory),
			need: C.uint64_t(made.Need), limit: C.uint64_t(made.Limit),
			n_windows: C.size_t(len(windows)), windows: unsafe.SliceData(windows),
		}
		handles.Store(unsafe.Pointer(out), h)
		return out, nil
	})
}

//export tensorfsgo_plan_release
func tensorfsgo_plan_release(p unsafe.Pointer, errp **C.tensorfs_error) C.tensorfs_status {
	if p == nil {
		return C.TENSORFS_OK
	}
	h, err := take[plan](p, "plan")
	if err == nil {
		h.memory.free()
	}
	return fail(errp, err)
}

//export tensorfsgo_load
func tensorfsgo_load(p *C.tensorfs_loader, refs *C.tensorfs_ref, count C.size_t, given unsafe.Pointer, errp **C.tensorfs_error) *C.tensorfs_set {
	return with(p, errp, nil, func(l *loader) (*C.tensorfs_set, error) {
		wanted, err := refsOf(refs, count)
		if err != nil {
			return nil, err
		}
		loaded, err := load(l, wanted, given)
		if err != nil {
			return nil, err
		}
		s := &set{Set: loaded, loader: l, tensors: map[metal.Ref]*C.tensorfs_tensor{}}
		self := one[C.tensorfs_set](&s.memory)
		handles.Store(unsafe.Pointer(self), s)
		return self, nil
	})
}

//export tensorfsgo_set_get
func tensorfsgo_set_get(p *C.tensorfs_set, view, name C.tensorfs_string, errp **C.tensorfs_error) *C.tensorfs_tensor {
	t, err := setGet(p, view, name)
	return give(errp, nil, t, err)
}

func setGet(p *C.tensorfs_set, view, name C.tensorfs_string) (*C.tensorfs_tensor, error) {
	s, err := find[set](unsafe.Pointer(p), "set")
	if err != nil {
		return nil, err
	}
	ref, err := tensorOf(view, name)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tensors == nil { // released since
		_, err := check[set](unsafe.Pointer(p), nil, "set")
		return nil, err
	}
	if t := s.tensors[ref]; t != nil {
		return t, nil
	}
	b, ok := s.Buffer(ref)
	if !ok {
		return nil, fmt.Errorf("metal: %q of view %q %w", ref.Name, ref.View, errNotLoaded)
	}
	info, err := s.loader.describe(ref)
	if err != nil {
		return nil, err
	}
	t := s.loader.tensor(b, info, s)
	s.tensors[ref] = t
	return t, nil
}

//export tensorfsgo_set_residency
func tensorfsgo_set_residency(p *C.tensorfs_set, errp **C.tensorfs_error) (handle unsafe.Pointer) {
	s, err := find[set](unsafe.Pointer(p), "set")
	if err != nil {
		fail(errp, err)
		return nil
	}
	foreign(&handle, s.Residency())
	return handle
}

//export tensorfsgo_set_release
func tensorfsgo_set_release(p *C.tensorfs_set, errp **C.tensorfs_error) C.tensorfs_status {
	if p == nil {
		return C.TENSORFS_OK
	}
	s, err := take[set](unsafe.Pointer(p), "set")
	if err != nil {
		return fail(errp, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tensors {
		if h, err := take[held](unsafe.Pointer(t), "tensor"); err == nil {
			h.memory.free()
		}
	}
	s.tensors = nil
	err = s.Release()
	s.memory.free()
	return fail(errp, err)
}
