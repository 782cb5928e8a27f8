//go:build !linux

package metal_test

import "testing"

// smapsOf has no counterpart here; the test that calls it skips.
func smapsOf(t *testing.T, pid string, addr uintptr) (rss, pss int) {
	t.Fatal("only Linux has smaps")
	return 0, 0
}

// resident has no counterpart here either.
func resident(t *testing.T, mem []byte) int {
	t.Fatal("only Linux is asked for resident pages")
	return 0
}

// mapped is left to the device's counts here.
func mapped(dir string) error { return nil }
