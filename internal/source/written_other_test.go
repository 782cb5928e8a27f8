//go:build !linux

package source

import (
	"testing"

	"golang.org/x/sys/unix"
)

// needWatch skips a test of what only a queue of writes tells.
func needWatch(t *testing.T, _ *Mapped) {
	t.Helper()
	t.Skip("NOT TESTED: this system keeps no queue of writes")
}

func fallocate(int, int64, int64) error { return unix.ENOTSUP }
