package gguf

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// TestUnreadable opens a file that its reader may not read. Root reads
// everything, so the thread becomes another user for the filesystem.
func TestUnreadable(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "m.gguf")
	if err := os.WriteFile(path, []byte("GGUF"), 0); err != nil {
		t.Fatal(err)
	}
	var err, skip error
	done := make(chan struct{})
	go func() {
		defer close(done)
		if os.Geteuid() == 0 {
			for d := dir; d != filepath.Dir(d) && d != filepath.Clean(os.TempDir()); d = filepath.Dir(d) {
				if skip = os.Chmod(d, 0o755); skip != nil {
					return
				}
			}
			runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
			if _, skip = unix.SetfsuidRetUid(65534); skip != nil {
				return
			}
		}
		if _, skip = os.Stat(path); skip == nil {
			_, err = Open(path)
		}
	}()
	<-done
	if skip != nil {
		t.Skipf("no other user can be had: %v", skip)
	}
	if !errors.Is(err, fs.ErrPermission) {
		t.Fatal(err)
	}
	checkLine(t, dir, err)
}
