package testmount

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// Disk is a disk in a file, with a file system of its own and the kernel's usual
// read-ahead, for the time of a test.
type Disk struct {
	Image string // the file
	Dir   string // its mount point
}

// NewDisk makes a disk of so many bytes and mounts it. It skips the test, loudly, if that
// is not possible.
func NewDisk(t testing.TB, n int64) *Disk {
	t.Helper()
	dir := t.TempDir()
	d := &Disk{filepath.Join(dir, "image"), filepath.Join(dir, "disk")}
	if err := errors.Join(os.Mkdir(d.Dir, 0o700), os.WriteFile(d.Image, nil, 0o600), os.Truncate(d.Image, n)); err != nil {
		t.Fatal(err)
	}
	run(t, "mkfs.ext4", "-q", "-F", "-O", "^has_journal", d.Image)
	d.Mount(t)
	t.Cleanup(func() { _ = unix.Unmount(d.Dir, unix.MNT_DETACH) })
	return d
}

// Mount mounts the disk, also after Unmount.
func (d *Disk) Mount(t testing.TB) {
	t.Helper()
	run(t, "mount", "-o", "loop", d.Image, d.Dir)
	var st unix.Stat_t
	err := unix.Stat(d.Dir, &st)
	if err == nil {
		err = os.WriteFile(fmt.Sprintf("/sys/class/bdi/%d:%d/read_ahead_kb", unix.Major(st.Dev), unix.Minor(st.Dev)), []byte("128"), 0)
	}
	if err != nil {
		t.Skipf("NOT TESTED: the read-ahead of a disk in a file cannot be set: %v", err)
	}
}

// Unmount has everything written to the disk, and nothing of it left in memory.
func (d *Disk) Unmount(t testing.TB) {
	t.Helper()
	if err := unix.Unmount(d.Dir, 0); err != nil {
		t.Fatalf("unmounting a disk: %v", err)
	}
}

func run(t testing.TB, name string, args ...string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("NOT TESTED: only root can mount a disk that is in a file")
	}
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Skipf("NOT TESTED: there is no disk in a file: %s: %v: %s", name, err, out)
	}
}
