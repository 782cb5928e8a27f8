package fs

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/tensorfs/tensorfs"
	"golang.org/x/sys/unix"
)

// MountInfo is a line of the mount table.
type MountInfo struct {
	Mountpoint string
	Source     string // path of the model
	Type       string
	Device     string // major:minor

	token string // of a Loopback; "" for FUSE
	port  int    // where it listens, if that is known
}

// Place is where a file system is mounted.
type Place struct {
	Mountpoint string
	PID        int // a process that has the mount, if this one does not; else 0
}

// retryBusy repeats an unmount that finds the mount in use, for about 0.6 s:
// the kernel may still be closing what a reader that just ended had open, and
// somebody who lists all mounts is in each of them for a moment.
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

// mountedAt returns the mount on top of a resolved path, nil where there is none.
func mountedAt(path string) (*MountInfo, error) {
	all, err := namedMounts()
	if err != nil {
		return nil, err
	}
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].Mountpoint == path {
			return &all[i], nil
		}
	}
	return nil, nil
}

// CleanStale removes the tensorfs mount at a path if its server is gone, and
// reports whether it did. It also removes a directory that a server made for a mount
// that is not there any more. If another file system is mounted there it does nothing.
func CleanStale(mountpoint string) (bool, error) {
	cleaned, err := cleanStale(mountpoint)
	if path, rerr := resolve(mountpoint); err == nil && rerr == nil {
		leavePlace(path, "")
	}
	return cleaned, err
}

// Mounts lists the tensorfs mounts in the order of mounting. It touches none of
// them, so it does not hang on one whose server does.
func Mounts() ([]MountInfo, error) {
	all, err := namedMounts()
	if err != nil {
		return nil, err
	}
	var ours []MountInfo
	for _, m := range all {
		if m.ours() {
			ours = append(ours, m)
		}
	}
	return ours, nil
}

// Automounts reports whether an automounter waits at a path for somebody to look
// inside. It lets only its own process group pass there while it mounts.
func Automounts(path string) bool {
	path, err := resolve(path)
	if err != nil {
		return false
	}
	m, err := mountedAt(path)
	return err == nil && m != nil && m.Type == autofs
}

// autofs is the type of what waits for somebody to look inside.
const autofs = "autofs"

// resolve returns the absolute path without links. It does not touch a mount at
// the path itself, whose server may be gone.
func resolve(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return path, err
	}
	for range 40 { // as many links as the kernel follows
		if path == "/" {
			return path, nil
		}
		parent, err := filepath.EvalSymlinks(filepath.Dir(path))
		if err != nil {
			return path, err
		}
		path = filepath.Join(parent, filepath.Base(path))
		if m, err := mountedAt(path); err != nil || m != nil {
			return path, err
		}
		target, err := os.Readlink(path)
		if err != nil {
			return path, nil // not a link, or not there: the caller finds out
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(parent, target)
		}
		path = target
	}
	return path, fmt.Errorf("%s: %w", path, syscall.ELOOP)
}

// cleanStale is CleanStale without removing the directory.
func cleanStale(mountpoint string) (bool, error) {
	path, err := resolve(mountpoint)
	if errors.Is(err, iofs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, mountpointError(path, err)
	}
	m, err := mountedAt(path)
	if err != nil || m == nil || !m.ours() || !m.stale() {
		return false, err
	}
	// Lazily: a program that has its working directory there would be in the way,
	// and there is nothing to wait for.
	if err := m.unmountNow(true); err != nil {
		return false, fmt.Errorf("%s: its server is gone and the mount cannot be removed: %w", tensorfs.Printable(path), err)
	}
	m.leaveState()
	return true, nil
}

// stale reports whether the server of a FUSE mount is gone. A server that hangs is not
// gone: the probe waits for it no longer than probeTime.
func stale(path string) bool {
	gone := make(chan bool, 1)
	go func() {
		var st unix.Statfs_t // never answered from a cache
		err := unix.Statfs(path, &st)
		if errors.Is(err, unix.ECONNABORTED) { // it ended while it was asked
			err = unix.Statfs(path, &st)
		}
		gone <- slices.ContainsFunc(thisSystem.gone, func(target error) bool { return errors.Is(err, target) })
	}()
	select {
	case g := <-gone:
		return g
	case <-time.After(probeTime):
		return false
	}
}

// MountAt returns the tensorfs mount at a path, nil where there is none. It does
// not touch the mount.
func MountAt(path string) (*MountInfo, error) {
	path, err := resolve(path)
	if err != nil {
		return nil, mountpointError(path, err)
	}
	m, err := mountedAt(path)
	if err != nil || m == nil || !m.ours() {
		return nil, err
	}
	return m, nil
}

// UnmountPath unmounts the tensorfs at a path, which another process may be
// serving. It fails with an error that wraps syscall.EBUSY while the mount is
// in use, unless lazy. A directory that the server made for the mount is removed.
func UnmountPath(mountpoint string, lazy bool) error {
	path, err := resolve(mountpoint)
	if err != nil {
		return mountpointError(path, err)
	}
	m, err := mountedAt(path)
	if err != nil {
		return err
	}
	if m == nil || !m.ours() {
		if _, err := os.Lstat(path); err != nil {
			return mountpointError(path, err)
		}
		return fmt.Errorf("%s: no tensorfs is mounted there; tensorfs status lists the mounts", tensorfs.Printable(path))
	}
	if err := m.unmount(lazy); err != nil {
		return err
	}
	leavePlace(path, "")
	m.leaveState()
	return nil
}

// ours reports whether it is a tensorfs.
func (m *MountInfo) ours() bool { return m.Type == fsType || m.token != "" }

// stale reports whether the server of a mount is gone.
func (m *MountInfo) stale() bool {
	if m.token == "" {
		return stale(m.Mountpoint)
	}
	_, err := m.askLoopback()
	return errors.Is(err, syscall.ENOTCONN)
}

// unmount unmounts it.
func (m *MountInfo) unmount(lazy bool) error { return unmountError(m.Mountpoint, m.unmountNow(lazy)) }

func (m *MountInfo) unmountNow(lazy bool) error {
	if m.token == "" {
		return unmountNow(m.Mountpoint, lazy)
	}
	return unmountLoopback(m.Mountpoint, lazy, m.stale())
}

// unmount unmounts a FUSE mount.
func unmount(mountpoint string, lazy bool) error {
	return unmountError(mountpoint, unmountNow(mountpoint, lazy))
}

// unmountError says why a path cannot be unmounted.
func unmountError(mountpoint string, err error) error {
	if errors.Is(err, unix.EBUSY) {
		return advised{fmt.Sprintf("%s is in use: end the programs that use it (%s names them), or unmount lazily", tensorfs.Printable(mountpoint), InUseCommand(tensorfs.Printable(mountpoint))), unix.EBUSY}
	}
	if err != nil {
		return fmt.Errorf("cannot unmount %s: %w", tensorfs.Printable(mountpoint), err)
	}
	return nil
}
