package main

/*
#include "tensorfs.h"

static void call_progress(tensorfs_progress f, int64_t done, int64_t total, void *context) {
	f(done, total, context);
}
*/
import "C"

import (
	"context"
	"unsafe"

	"github.com/tensorfs/tensorfs/metal"
)

// prefetch is tensorfs_prefetch. It stands in a file without exported functions,
// because only such a file may define a C function.
func prefetch(l *loader, view string, names []*C.char, progress C.tensorfs_progress, arg unsafe.Pointer) error {
	refs := make([]metal.Ref, len(names))
	for i, name := range names {
		refs[i] = metal.Ref{View: view, Name: C.GoString(name)}
	}
	var report func(done, total int64)
	if progress != nil {
		report = func(done, total int64) { C.call_progress(progress, C.int64_t(done), C.int64_t(total), arg) }
	}
	return l.Prefetch(context.Background(), refs, report)
}
