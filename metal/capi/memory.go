package main

// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"
)

// arena is C memory that is freed together.
type arena []unsafe.Pointer

// errMemory is what a failed allocation panics with, as Go's own do: the program
// cannot go on.
var errMemory = errors.New("tensorfs: out of memory")

// bytes returns n zeroed bytes of C memory.
func (a *arena) bytes(n uintptr) unsafe.Pointer {
	p := C.calloc(1, C.size_t(max(n, 1)))
	if p == nil {
		panic(errMemory)
	}
	*a = append(*a, p)
	return p
}

// array returns a zeroed array in C memory.
func array[T any](a *arena, n int) []T {
	var zero T
	return unsafe.Slice((*T)(a.bytes(uintptr(n)*unsafe.Sizeof(zero))), n)
}

// one returns a zeroed T in C memory.
func one[T any](a *arena) *T { return &array[T](a, 1)[0] }

// string returns a copy of s in C memory.
func (a *arena) string(s string) C.tensorfs_string {
	b := array[byte](a, len(s)+1)
	copy(b, s)
	return C.tensorfs_string(unsafe.Pointer(&b[0]))
}

// strings returns a copy of a list in C memory, with a NULL after the last. It is
// one allocation: a tokenizer has 256,000 tokens.
func (a *arena) strings(list []string) []C.tensorfs_string {
	size := uintptr(len(list)+1) * unsafe.Sizeof(C.tensorfs_string(nil))
	text := size
	for _, s := range list {
		size += uintptr(len(s)) + 1
	}
	p := a.bytes(size)
	out := unsafe.Slice((*C.tensorfs_string)(p), len(list)+1)
	for i, s := range list {
		out[i] = C.tensorfs_string(unsafe.Add(p, text))
		copy(unsafe.Slice((*byte)(unsafe.Add(p, text)), len(s)), s)
		text += uintptr(len(s)) + 1
	}
	return out[:len(list)]
}

// copied returns a copy of a list in C memory.
func copied[T, U ~int64 | ~float64](a *arena, list []T) []U {
	out := array[U](a, len(list))
	for i, v := range list {
		out[i] = U(v)
	}
	return out
}

func (a arena) free() {
	for _, p := range a {
		C.free(p)
	}
}

// errInvalid marks arguments that make no sense.
var errInvalid = errors.New("invalid argument")

// handles holds the caller's objects by address: an address that is missing is NULL, was
// closed or released, or was never valid.
var handles sync.Map

// find returns the T that the caller has at p.
func find[T any](p unsafe.Pointer, what string) (*T, error) {
	v, _ := handles.Load(p)
	return check[T](p, v, what)
}

// take does the same and forgets it, so that only one caller gets it.
func take[T any](p unsafe.Pointer, what string) (*T, error) {
	v, _ := handles.Load(p)
	t, err := check[T](p, v, what)
	if err == nil && !handles.CompareAndDelete(p, v) {
		return check[T](p, nil, what)
	}
	return t, err
}

func check[T any](p unsafe.Pointer, v any, what string) (*T, error) {
	t, ok := v.(*T)
	switch {
	case ok:
		return t, nil
	case p == nil:
		return nil, fmt.Errorf("%w: the %s is NULL: look at the error of the function that should have given it", errInvalid, what)
	}
	return nil, fmt.Errorf("%w: the %s was closed or released, or this library did not make it", errInvalid, what)
}

// options returns the options at p, whose first field is their size; the zero value if p is
// NULL. first is their size in version 1.0: fields that were appended later are 0 in older
// programs.
func options[T any](p unsafe.Pointer, name string, first uintptr) (o T, err error) {
	if p == nil {
		return o, nil
	}
	const most = 4096 // no options are as long
	given, known := uintptr(*(*C.size_t)(p)), unsafe.Sizeof(o)
	if given < first || given > most {
		return o, fmt.Errorf("%w: %s: its size is %d; set it to sizeof(%[2]s), which is %d", errInvalid, name, given, known)
	}
	bytes := unsafe.Slice((*byte)(p), given)
	n := copy(unsafe.Slice((*byte)(unsafe.Pointer(&o)), known), bytes)
	for _, b := range bytes[n:] {
		if b != 0 {
			return o, fmt.Errorf("%w: %s: it asks for what version %s of this library does not know", errInvalid, name, version)
		}
	}
	return o, nil
}

// list returns the array at p that a caller gave.
func list[T any](p *T, n C.size_t, what string) ([]T, error) {
	const most = 1 << 32
	if n > 0 && p == nil || n > most {
		return nil, fmt.Errorf("%w: %d %s at %p", errInvalid, n, what, p)
	}
	return unsafe.Slice(p, int(n)), nil
}

// goString returns a string that must not be NULL.
func goString(s C.tensorfs_string, what string) (string, error) {
	if s == nil {
		return "", fmt.Errorf("%w: the %s is NULL", errInvalid, what)
	}
	return C.GoString(s), nil
}
