package fs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/tensorfs/tensorfs/internal/testing/testmount"
	"golang.org/x/sys/unix"
)

// kernelBefore reports whether the kernel is older than a version.
func kernelBefore(t *testing.T, major, minor int) bool {
	t.Helper()
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		t.Fatal(err)
	}
	var a, b int
	if _, err := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &a, &b); err != nil {
		t.Fatal(err)
	}
	return a < major || a == major && b < minor
}

// TestIDMapped: the owners of a mount can be mapped, as container runtimes do for each volume of a pod that has a user
// namespace of its own, and such a pod reads the same bytes.
func TestIDMapped(t *testing.T) {
	needFUSE(t)
	if os.Geteuid() != 0 {
		t.Skip("not as root: only root maps the owners of a mount")
	}
	dir := tempDir(t)
	mnt, plain, at := filepath.Join(dir, "mnt"), filepath.Join(dir, "plain"), filepath.Join(dir, "at")
	if err := errors.Join(os.Chmod(dir, 0o755), os.Mkdir(mnt, 0o755), os.Mkdir(plain, 0o755), os.Mkdir(at, 0o755)); err != nil {
		t.Fatal(err)
	}
	if err := testmount.MapOwners(t, dir, plain); err != nil {
		t.Skipf("this kernel does not map the owners of a plain directory: %v", err)
	}
	serveAt(t, mnt, "small", "small", "extra=allow_other")
	switch err := testmount.MapOwners(t, mnt, at); {
	case errors.Is(err, unix.EINVAL) && kernelBefore(t, 6, 12):
		t.Skip("this kernel does not map the owners of FUSE mounts")
	case err != nil:
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(at, "b/f"), &st); err != nil || st.Uid != testmount.MappedRoot {
		t.Errorf("the owner is %d, %v", st.Uid, err)
	}
	cmd := exec.Command("cat", filepath.Join(at, "b/f"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: testmount.MappedRoot, Gid: testmount.MappedRoot}}
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "ff" {
		t.Errorf("%q, %v", out, err)
	}
}
