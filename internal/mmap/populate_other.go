//go:build !linux

package mmap

import "os"

// populate is left to page faults, which are guarded.
func populate([]byte, int64, int64) error { return nil }

// dropCache has no counterpart here.
func dropCache(*os.File, []byte, int64) {}
