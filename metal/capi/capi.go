package main

// #include "shim.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/config"
	"github.com/tensorfs/tensorfs/formats/remote"
	"github.com/tensorfs/tensorfs/metal"
)

// loader is the Go side of a tensorfs_loader.
type loader struct {
	*metal.Loader
	device metal.Device

	calls  sync.RWMutex // held for reading by each call, so that none sees the model being closed
	closed bool         // guarded by calls

	mu     sync.Mutex
	memory arena // of what was described
	known  map[string]any
}

// use returns the loader that the caller has at p, which is not closed before calls.RUnlock.
func use(p *C.tensorfs_loader) (*loader, error) {
	l, err := find[loader](unsafe.Pointer(p), "loader")
	if err != nil {
		return nil, err
	}
	l.calls.RLock()
	if l.closed { // after it was found
		l.calls.RUnlock()
		return check[loader](unsafe.Pointer(p), nil, "loader")
	}
	return l, nil
}

// with returns what f gives for a loader of the caller; missing where that fails.
func with[T any](p *C.tensorfs_loader, errp **C.tensorfs_error, missing T, f func(*loader) (T, error)) T {
	l, err := use(p)
	if err != nil {
		return give(errp, missing, missing, err)
	}
	defer l.calls.RUnlock()
	v, err := f(l)
	return give(errp, missing, v, err)
}

// once returns what describe gave for a key the first time, in the loader's memory.
func once[T any](l *loader, key string, describe func(*arena) (T, error)) (T, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if v, ok := l.known[key]; ok {
		return v.(T), nil
	}
	v, err := describe(&l.memory)
	if err == nil {
		l.known[key] = v
	}
	return v, err
}

// described is with and once.
func described[T any](p *C.tensorfs_loader, errp **C.tensorfs_error, key string, describe func(*loader, *arena) (T, error)) T {
	var missing T
	return with(p, errp, missing, func(l *loader) (T, error) {
		return once(l, key, func(a *arena) (T, error) { return describe(l, a) })
	})
}

// listed is describe for arrays. count receives the length.
func listed[T any](p *C.tensorfs_loader, count *C.size_t, errp **C.tensorfs_error, key string, describe func(*loader, *arena) ([]T, error)) *T {
	v := described(p, errp, key, describe)
	if count != nil {
		*count = C.size_t(len(v))
	}
	return unsafe.SliceData(v)
}

//export tensorfsgo_open_with
func tensorfsgo_open_with(model C.tensorfs_string, given unsafe.Pointer, errp **C.tensorfs_error) *C.tensorfs_loader {
	l, err := open(model, given)
	if err != nil {
		fail(errp, err)
		return nil
	}
	self := one[C.tensorfs_loader](&l.memory)
	handles.Store(unsafe.Pointer(self), l)
	return self
}

func open(model C.tensorfs_string, given unsafe.Pointer) (_ *loader, err error) {
	name, err := goString(model, "model")
	if err != nil {
		return nil, err
	}
	o, err := options[C.tensorfs_open_options](given, "tensorfs_open_options", unsafe.Offsetof(C.tensorfs_open_options{}.remote))
	if err != nil {
		return nil, err
	}
	opts := metal.Options{CacheDir: C.GoString(o.cache_dir), I2S: C.GoString(o.i2s)}
	for _, array := range []struct {
		at   *C.tensorfs_string
		n    C.size_t
		what string
		take func(text string) error
	}{
		{o.views, o.n_views, "views", appendTo(&opts.Views)},
		{o.lora, o.n_lora, "lora", appendTo(&opts.LoRA)},
		{o.options, o.n_options, "options", opts.Convert.Take},
	} {
		texts, err := list(array.at, array.n, array.what)
		if err != nil {
			return nil, err
		}
		for _, t := range texts {
			if err := array.take(C.GoString(t)); err != nil {
				return nil, err
			}
		}
	}
	opts.TreeOnly = o.tree_only != 0
	if o.remote != 0 || o.offline != 0 || o.cache_size != 0 {
		c := remote.New(remoteOptions(o.offline != 0, int64(o.cache_size)))
		defer c.Close()
		opts.Model = c.Formats(context.Background())
	}
	for _, n := range []struct {
		to   *int64
		from C.uint64_t
	}{{&opts.OffsetAlign, o.offset_align}, {&opts.TailPad, o.tail_pad}, {&opts.MaxMemory, o.max_memory}, {&opts.CacheLimit, o.cache_limit}} {
		*n.to = int64(min(n.from, 1<<63-1))
	}
	if opts.Device, err = newDevice(o.device, uintptr(o.metal_device)); err != nil {
		return nil, err
	}
	opened, err := metal.Open(name, opts)
	if err != nil {
		return nil, errors.Join(err, opts.Device.Close())
	}
	return &loader{Loader: opened, device: opts.Device, known: map[string]any{}}, nil
}

// appendTo returns a function that appends to a list.
func appendTo(list *[]string) func(string) error {
	return func(text string) error { *list = append(*list, text); return nil }
}

// remoteOptions configure a model that may be on a server.
func remoteOptions(offline bool, size int64) remote.Options {
	o := remote.Options{CacheSize: size, Agent: "libtensorfs/" + version}
	if offline {
		o.Offline = "the option offline"
	}
	return o
}

// newDevice returns the device that was asked for.
func newDevice(kind C.tensorfs_device_kind, handle uintptr) (metal.Device, error) {
	switch {
	case kind == C.TENSORFS_DEVICE_HOST && handle == 0:
		return metal.NewHost(metal.HostOptions{})
	case kind == C.TENSORFS_DEVICE_METAL || kind == C.TENSORFS_DEVICE_DEFAULT && handle != 0:
		return metalDevice(handle)
	case kind == C.TENSORFS_DEVICE_DEFAULT:
		return metal.DefaultDevice()
	}
	return nil, fmt.Errorf("%w: tensorfs_open_options: there is no device %d with an MTLDevice %#x", errInvalid, kind, handle)
}

//export tensorfsgo_close
func tensorfsgo_close(p *C.tensorfs_loader, errp **C.tensorfs_error) C.tensorfs_status {
	if p == nil {
		return C.TENSORFS_OK
	}
	l, err := find[loader](unsafe.Pointer(p), "loader")
	if err != nil {
		return fail(errp, err)
	}
	if !l.calls.TryLock() {
		return fail(errp, fmt.Errorf("%s: %w", tensorfs.Printable(l.Model().Path), errBusy))
	}
	defer l.calls.Unlock()
	if err = l.Close(); errors.Is(err, metal.ErrInUse) {
		return fail(errp, err)
	}
	if !l.closed {
		l.closed = true
		handles.Delete(unsafe.Pointer(p))
		err = errors.Join(err, l.device.Close())
		l.memory.free()
	}
	return fail(errp, err)
}

//export tensorfsgo_get_device
func tensorfsgo_get_device(p *C.tensorfs_loader, errp **C.tensorfs_error) *C.tensorfs_device {
	return described(p, errp, "device", func(l *loader, a *arena) (*C.tensorfs_device, error) {
		d, info := one[C.tensorfs_device](a), l.DeviceInfo()
		*d = C.tensorfs_device{
			kind:               C.TENSORFS_DEVICE_HOST,
			name:               a.string(info.Name),
			registry_id:        C.uint64_t(info.RegistryID),
			page_size:          C.uint64_t(info.PageSize),
			max_buffer_length:  C.uint64_t(info.MaxBufferLength),
			recommended_memory: C.uint64_t(info.RecommendedMemory),
			unified_memory:     truth(info.UnifiedMemory),
		}
		if m, ok := l.device.(interface{ Handle() uintptr }); ok {
			d.kind = C.TENSORFS_DEVICE_METAL
			foreign(&d.handle, m.Handle())
		}
		return d, nil
	})
}

// foreign stores an object of Metal, which is not Go memory.
func foreign(p *unsafe.Pointer, handle uintptr) { *(*uintptr)(unsafe.Pointer(p)) = handle }

//export tensorfsgo_get_model
func tensorfsgo_get_model(p *C.tensorfs_loader, errp **C.tensorfs_error) *C.tensorfs_model {
	return described(p, errp, "model", func(l *loader, a *arena) (*C.tensorfs_model, error) {
		m, info := one[C.tensorfs_model](a), l.Model()
		*m = C.tensorfs_model{a.string(info.Format), a.string(info.Path), a.string(info.Architecture), a.string(info.Layout)}
		return m, nil
	})
}

//export tensorfsgo_get_config
func tensorfsgo_get_config(p *C.tensorfs_loader, errp **C.tensorfs_error) *C.tensorfs_config {
	return described(p, errp, "config", func(l *loader, a *arena) (*C.tensorfs_config, error) {
		return newConfig(a, config.JSON(l.Model()))
	})
}

//export tensorfsgo_views
func tensorfsgo_views(p *C.tensorfs_loader, count *C.size_t, errp **C.tensorfs_error) *C.tensorfs_string {
	return listed(p, count, errp, "views", func(l *loader, a *arena) ([]C.tensorfs_string, error) {
		return a.strings(l.Views()), nil
	})
}

// viewOf returns the name of a view.
func viewOf(view C.tensorfs_string) string {
	if view == nil {
		return "packed"
	}
	return C.GoString(view)
}

//export tensorfsgo_names
func tensorfsgo_names(p *C.tensorfs_loader, view C.tensorfs_string, count *C.size_t, errp **C.tensorfs_error) *C.tensorfs_string {
	name := viewOf(view)
	return listed(p, count, errp, "names\x00"+name, func(l *loader, a *arena) ([]C.tensorfs_string, error) {
		names := l.Names(name)
		if names == nil {
			_, err := l.Info(name, "") // its error lists the available ones
			return nil, err
		}
		return a.strings(names), nil
	})
}

//export tensorfsgo_count
func tensorfsgo_count(p *C.tensorfs_loader, view C.tensorfs_string, errp **C.tensorfs_error) C.size_t {
	return with(p, errp, 0, func(l *loader) (C.size_t, error) { return C.size_t(l.Count(viewOf(view))), nil })
}

// tensorOf returns the tensor that a caller means.
func tensorOf(view, name C.tensorfs_string) (metal.Ref, error) {
	s, err := goString(name, "name")
	return metal.Ref{View: viewOf(view), Name: s}, err
}

//export tensorfsgo_has
func tensorfsgo_has(p *C.tensorfs_loader, view, name C.tensorfs_string, errp **C.tensorfs_error) C.int {
	return with(p, errp, 0, func(l *loader) (C.int, error) {
		ref, err := tensorOf(view, name)
		return truth(l.Has(ref.View, ref.Name)), err
	})
}

//export tensorfsgo_absent
func tensorfsgo_absent(p *C.tensorfs_loader, view, name C.tensorfs_string, errp **C.tensorfs_error) C.tensorfs_string {
	return with(p, errp, nil, func(l *loader) (C.tensorfs_string, error) {
		ref, err := tensorOf(view, name)
		if err != nil {
			return nil, err
		}
		if _, err = l.Info(ref.View, ref.Name); errors.Is(err, metal.ErrAbsent) {
			return l.text(lineOf(err)), nil
		}
		return nil, err
	})
}

// text returns a copy of s that lives as long as the loader.
func (l *loader) text(s string) C.tensorfs_string {
	t, _ := once(l, "text\x00"+s, func(a *arena) (C.tensorfs_string, error) { return a.string(s), nil })
	return t
}

//export tensorfsgo_info
func tensorfsgo_info(p *C.tensorfs_loader, view, name C.tensorfs_string, errp **C.tensorfs_error) *C.tensorfs_tensor_info {
	return with(p, errp, nil, func(l *loader) (*C.tensorfs_tensor_info, error) {
		ref, err := tensorOf(view, name)
		if err != nil {
			return nil, err
		}
		return l.describe(ref)
	})
}
