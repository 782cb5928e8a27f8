package memory

import (
	"os"
	"syscall"
	"testing"
)

// Dir returns a directory in memory, if the system has one with room, for tests of what is written
// durably: on a disk they would wait for it most of their time. The tests of internal/export and of
// internal/cache write to the disk.
func Dir(t testing.TB) string {
	t.Helper()
	var st syscall.Statfs_t
	if err := syscall.Statfs("/dev/shm", &st); err != nil || st.Bavail*uint64(st.Bsize) < 64<<20 {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp("/dev/shm", "tensorfs-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}
