package main

// #include "shim.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"unsafe"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/models"
	"github.com/tensorfs/tensorfs/metal"
)

// version is the library's.
var version = fmt.Sprintf("%d.%d.%d", C.TENSORFS_VERSION_MAJOR, C.TENSORFS_VERSION_MINOR, C.TENSORFS_VERSION_PATCH)

// errNotLoaded marks a tensor that a set does not have.
var errNotLoaded = errors.New("is not in this set: add its name to the list that is loaded")

// errBusy marks the end of a loader that other threads use, or the progress function of a load.
var errBusy = errors.New("calls about the model are running: close it after they have returned")

// statuses map errors to statuses; the first match counts.
var statuses = []struct {
	err    error
	status C.tensorfs_status
}{
	{errInvalid, C.TENSORFS_INVALID},
	{models.ErrOption, C.TENSORFS_INVALID},
	{metal.ErrAbsent, C.TENSORFS_ABSENT},
	{errNotLoaded, C.TENSORFS_ABSENT},
	{metal.ErrNoDevice, C.TENSORFS_NO_DEVICE},
	{metal.ErrMemory, C.TENSORFS_NO_MEMORY},
	{metal.ErrInUse, C.TENSORFS_IN_USE},
	{errBusy, C.TENSORFS_IN_USE},
	{metal.ErrClosed, C.TENSORFS_INVALID},
	{context.Canceled, C.TENSORFS_CANCELLED},
	{tensorfs.ErrChanged, C.TENSORFS_CHANGED},
	{tensorfs.ErrMissing, C.TENSORFS_NOT_FOUND},
	{tensorfs.ErrFormat, C.TENSORFS_MALFORMED},
	{tensorfs.ErrUnsupported, C.TENSORFS_UNSUPPORTED},
	{errors.ErrUnsupported, C.TENSORFS_UNSUPPORTED},
	{fs.ErrNotExist, C.TENSORFS_NOT_FOUND},
	// What the files of a mount give when it is lost.
	{syscall.ENOTCONN, C.TENSORFS_CHANGED},
	{syscall.ESTALE, C.TENSORFS_CHANGED},
	{syscall.EIO, C.TENSORFS_CHANGED},
}

// fail puts err into *out and returns its status.
func fail(out **C.tensorfs_error, err error) C.tensorfs_status {
	if err == nil {
		return C.TENSORFS_OK
	}
	status := C.tensorfs_status(C.TENSORFS_FAILED)
	for _, s := range statuses {
		if errors.Is(err, s.err) {
			status = s.status
			break
		}
	}
	text := lineOf(err)
	C.tensorfsgo_fail(out, C.int(status), (*C.char)(unsafe.Pointer(unsafe.StringData(text))), C.size_t(len(text)))
	return status
}

// lineOf is an error as one line: joined errors have a line each. It drops the name of the
// loader's package, which means nothing to programs in C.
func lineOf(err error) string {
	return strings.TrimPrefix(strings.ReplaceAll(err.Error(), "\n", "; "), "metal: ")
}

// give returns the value, or puts the error into *out and returns missing.
func give[T any](out **C.tensorfs_error, missing, value T, err error) T {
	if err != nil {
		fail(out, err)
		return missing
	}
	return value
}

func truth(b bool) C.int {
	if b {
		return 1
	}
	return 0
}
