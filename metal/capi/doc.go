// Command capi is packages metal and metal for programs in C, C++, Objective-C,
// Swift and Python, as libtensorfs. scripts/build-capi builds and installs it.
//
// The interface is tensorfs.h, written by hand. Each of its functions is in shim.c,
// and calls the exported Go function of its name, unless the process is a child that
// fork() made: there Go's threads are missing. The compiler compares the header with
// the functions in C, and these with the ones in Go.
//
// What a caller holds (a loader, a tensor, a set, a plan) is an address in C memory
// and a value in the table of handles. So an address that is NULL, or was released,
// is an error and no access. What a caller reads is in arenas of C memory: the loader's
// for descriptions, and the tensor's and the set's own.
//
// Without cgo this package is an empty program.
package main

func main() {}
