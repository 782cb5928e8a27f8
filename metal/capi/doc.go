// Command capi is package metal for programs in C, C++, Objective-C and Swift:
//
//	go build -buildmode=c-archive -o libtensorfs.a ./metal/capi
//	cc -I metal/capi engine.c libtensorfs.a -lpthread -o engine
//
// The interface is tensorfs.h beside this file, written by hand; libtensorfs.h,
// which the go command writes beside the archive, is not needed. The compiler
// compares the two whenever the archive is built, so they cannot drift apart.
//
// On a Mac add -framework CoreFoundation. Without cgo this package is an empty
// program.
package main

func main() {}
