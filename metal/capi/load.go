package main

/*
#include "shim.h"

static int call_progress(tensorfs_progress f, uint64_t done, uint64_t total, void *context) {
	return f(done, total, context);
}
*/
import "C"

import (
	"context"
	"fmt"
	"unsafe"

	"github.com/tensorfs/tensorfs/metal"
)

// load loads a set with the options at given. It is in a file without exported functions,
// because only such a file may define a C function.
func load(l *loader, refs []metal.Ref, given unsafe.Pointer) (*metal.Set, error) {
	o, err := options[C.tensorfs_load_options](given, "tensorfs_load_options", unsafe.Sizeof(C.tensorfs_load_options{}))
	if err != nil {
		return nil, err
	}
	if o.cache > C.TENSORFS_CACHE_READ_WRITE || o.workers < 0 {
		return nil, fmt.Errorf("%w: tensorfs_load_options: there is no cache mode %d with %d workers", errInvalid, o.cache, o.workers)
	}
	opts := metal.LoadOptions{Workers: int(o.workers), Cache: metal.CacheMode(o.cache), Resident: o.resident != 0}
	if o.progress != nil {
		opts.Progress = func(done, total int64) error {
			if C.call_progress(o.progress, C.uint64_t(done), C.uint64_t(total), o.context) != 0 {
				return fmt.Errorf("the progress function ended it: %w", context.Canceled)
			}
			return nil
		}
	}
	return l.Load(context.Background(), refs, opts)
}
