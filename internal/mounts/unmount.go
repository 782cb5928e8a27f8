package mounts

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/tensorfs/tensorfs"
	"golang.org/x/sys/unix"
)

// removeStale removes the tensorfs mount at a path if its server is gone, and reports
// whether it did. It leaves another mounted file system untouched.
func removeStale(mountpoint string) (bool, error) {
	path, err := resolve(mountpoint)
	if errors.Is(err, iofs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, mountpointError(path, err)
	}
	m, err := Top(path)
	if err != nil || m == nil || !m.Ours() || !m.stale() {
		return false, err
	}
	// Lazily: a program that has its working directory there would be in the way,
	// and there is nothing to wait for.
	if err := m.unmount(true); err != nil {
		return false, fmt.Errorf("%s: its server is gone and the mount cannot be removed: %w", tensorfs.Printable(path), err)
	}
	m.cleanState()
	return true, nil
}

// CleanStale removes the tensorfs mount at a path if its server is gone, reports whether it
// did, and removes the directory that a server made for a mount that is gone. It leaves
// another mounted file system untouched.
func CleanStale(mountpoint string) (bool, error) {
	cleaned, err := removeStale(mountpoint)
	if path, rerr := resolve(mountpoint); err == nil && rerr == nil {
		Leave(path, "")
	}
	return cleaned, err
}

// Unmount unmounts the tensorfs at a path, which another process may be serving. It fails
// with an error that wraps syscall.EBUSY while the mount is in use, unless lazy. A
// directory that the server made for the mount is removed.
func Unmount(mountpoint string, lazy bool) error {
	path, err := resolve(mountpoint)
	if err != nil {
		return mountpointError(path, err)
	}
	m, err := Top(path)
	if err != nil {
		return err
	}
	if m == nil || !m.Ours() {
		if _, err := os.Lstat(path); err != nil {
			return mountpointError(path, err)
		}
		return fmt.Errorf("%s: no tensorfs is mounted there; tensorfs status lists the mounts", tensorfs.Printable(path))
	}
	if err := m.Unmount(lazy); err != nil {
		return err
	}
	// Removing the directory would take the mount away where another mount namespace still has it. The server removes it
	// when the last copy is gone.
	if !slices.ContainsFunc(m.Elsewhere(), func(c Copy) bool { return c.PID != 0 }) {
		Leave(path, "")
	}
	m.cleanState()
	return nil
}

// Unmount unmounts it and leaves its directory. While the mount is in use it fails with an
// error that wraps syscall.EBUSY, unless lazy.
func (m *Mount) Unmount(lazy bool) error { return unmountError(m.Mountpoint, m.unmount(lazy)) }

func (m *Mount) unmount(lazy bool) error {
	if m.Token != "" {
		return unmountNFS(m.Mountpoint, lazy, m.stale())
	}
	return unmountFUSE(m.Mountpoint, lazy)
}

// unmountError explains why a path cannot be unmounted.
func unmountError(mountpoint string, err error) error {
	p := tensorfs.Printable(mountpoint)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EBUSY):
		return Advised{fmt.Sprintf("%s is in use: end the programs that use it (%s names them), or unmount lazily", p, InUseCommand(p)), unix.EBUSY}
	}
	return fmt.Errorf("cannot unmount %s: %w", p, err)
}

// inUse is, for each system, the command that names the programs which use a mount. It
// goes before the mount point.
var inUse = map[string]string{"linux": "fuser -vm", "darwin": "lsof +f --"}

// InUseCommand is the command line that names the programs which use a mount.
func InUseCommand(mountpoint string) string { return inUse[runtime.GOOS] + " " + mountpoint }

// retryBusy repeats an unmount that finds the mount in use, for about 0.6 s: the kernel
// may still be closing the files of a reader that just ended, and a program that lists all
// mounts is in each of them for a moment.
func retryBusy(unmount func() error) error {
	var err error
	for delay := 5 * time.Millisecond; delay < 400*time.Millisecond; delay *= 2 {
		if err = unmount(); !errors.Is(err, syscall.EBUSY) {
			return err
		}
		time.Sleep(delay)
	}
	return err
}
