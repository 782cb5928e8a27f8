package tensorfs

import (
	"context"
	"runtime"
	"runtime/debug"
	"slices"
)

// Memory is where a [Viewer] keeps its bytes: the mapping of a file, whose pages
// can be lost while they are read. Implementations are comparable.
type Memory interface {
	// Check returns an error once the memory no longer holds what it held when
	// the file was opened.
	Check() error
	// Lost returns the error for a page lost at addr, nil if addr is not in this memory.
	Lost(addr uintptr) error
}

// View returns the bytes [off, off+n) of d for reading under [Guard]: without
// copying if d is a [Viewer], or a [Section] of one, that has them in memory, otherwise
// in buf, which grows as needed.
func View(d Data, off, n int64, buf *[]byte) ([]byte, Memory, error) {
	return ViewContext(context.Background(), d, off, n, buf)
}

// ViewContext is View, but stops when ctx ends if the bytes are copied from a
// [ContextReaderAt].
func ViewContext(ctx context.Context, d Data, off, n int64, buf *[]byte) ([]byte, Memory, error) {
	if err := CheckRange(d, off, n); err != nil {
		return nil, nil, err
	}
	d, off = unwrap(d, off)
	if v, ok := d.(Viewer); ok {
		if b, memory, err := v.View(off, n); b != nil || err != nil {
			return b, memory, err
		}
	}
	*buf = slices.Grow((*buf)[:0], int(n))[:n]
	return *buf, nil, ReadFullContext(ctx, d, *buf, off)
}

// Guard calls fn, which reads bytes returned by calls of View. memory has one element for
// each of those calls, nil if the bytes were copied.
//
//	View  |--codes--|     View  |--scales--|     the pages are brought in
//	Guard    fn reads both, writes the result
//	      Check of each file, once
//
// A page lost while fn runs makes Guard return an error, so fn must not hold
// locks, start goroutines that read the bytes, or have lasting effects that
// matter when half done: its work counts only if Guard returns nil. Any other
// panic, including a fault elsewhere, propagates.
func Guard(fn func() error, memory ...Memory) (err error) {
	defer lost(debug.SetPanicOnFault(true), memory, &err)
	if err := fn(); err != nil {
		return err
	}
	for i, m := range memory {
		if m == nil || slices.Contains(memory[:i], m) {
			continue
		}
		if err := m.Check(); err != nil {
			return err
		}
	}
	return nil
}

// lost is the function that Guard defers.
func lost(old bool, memory []Memory, err *error) {
	debug.SetPanicOnFault(old)
	r := recover()
	if r == nil {
		return
	}
	if fault, ok := r.(interface {
		runtime.Error
		Addr() uintptr
	}); ok {
		for _, m := range memory {
			if m == nil {
				continue
			}
			if *err = m.Lost(fault.Addr()); *err != nil {
				return
			}
		}
	}
	panic(r)
}
