//go:build !linux

package metal

import "testing"

// smapsOf has no counterpart here; the tests that call it skip.
func smapsOf(t *testing.T, pid string, addr uintptr) (rss, pss int) {
	t.Fatal("only Linux has smaps")
	return 0, 0
}
