package fs

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/tensorfs/tensorfs"
	"golang.org/x/sys/unix"
)

// sourcePrefix marks a tensorfs in the mount table, where macFUSE shows all its
// file systems under one type.
const sourcePrefix = subtype + ":"

// Mounts lists the tensorfs mounts.
func Mounts() ([]MountInfo, error) {
	n, err := unix.Getfsstat(nil, unix.MNT_NOWAIT)
	if err != nil {
		return nil, fmt.Errorf("cannot read the mount table: %w", err)
	}
	buf := make([]unix.Statfs_t, n)
	if n, err = unix.Getfsstat(buf, unix.MNT_NOWAIT); err != nil {
		return nil, fmt.Errorf("cannot read the mount table: %w", err)
	}
	var ours []MountInfo
	for _, st := range buf[:min(n, len(buf))] {
		source, ok := strings.CutPrefix(unix.ByteSliceToString(st.Mntfromname[:]), sourcePrefix)
		if !ok {
			continue
		}
		ours = append(ours, MountInfo{
			Mountpoint: unix.ByteSliceToString(st.Mntonname[:]),
			Source:     source,
			Type:       unix.ByteSliceToString(st.Fstypename[:]),
		})
	}
	return ours, nil
}

// readMounts lists the mounts that could be in the way.
func readMounts() ([]MountInfo, error) { return Mounts() }

// cleanStale is CleanStale without removing the directory.
func cleanStale(mountpoint string) (bool, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(mountpoint, &st); !errors.Is(err, unix.ENOTCONN) && !errors.Is(err, unix.ENXIO) {
		return false, nil
	}
	m, err := mountedAt(mountpoint)
	if err != nil || m == nil {
		return false, err
	}
	return true, unix.Unmount(mountpoint, unix.MNT_FORCE)
}

// resolve returns the absolute path with all links resolved that can be followed.
func resolve(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return path, err
	}
	real, err := filepath.EvalSymlinks(path)
	if err == nil {
		return real, nil
	}
	parent, err := filepath.EvalSymlinks(filepath.Dir(path))
	return filepath.Join(parent, filepath.Base(path)), err
}

// MountAt returns the tensorfs mount at a path, nil where there is none.
func MountAt(path string) (*MountInfo, error) {
	path, err := resolve(path)
	if err != nil {
		return nil, err
	}
	return mountedAt(path)
}

// Server returns 0: only the server itself can say which process it is.
func (m MountInfo) Server() int { return 0 }

// Elsewhere returns nothing: a mount has one place.
func (m MountInfo) Elsewhere() []Place { return nil }

// UnmountPath unmounts the tensorfs at a path, which another process may be
// serving.
func UnmountPath(mountpoint string, lazy bool) error {
	path, err := resolve(mountpoint)
	if err != nil {
		return err
	}
	m, err := mountedAt(path)
	if err != nil {
		return err
	}
	if m == nil {
		return fmt.Errorf("%s: no tensorfs is mounted there; tensorfs status lists the mounts", tensorfs.Printable(path))
	}
	if err := unmount(path, lazy); err != nil {
		return err
	}
	leavePlace(path, "")
	return nil
}

// ours reports whether it is a tensorfs: no other mounts are listed.
func (m *MountInfo) ours() bool { return true }

// openParent opens a directory to lock it and to make and remove what is in it.
func openParent(path string) (int, error) {
	return unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
}

// dirID tells a directory from all others, also from later ones in its place.
func dirID(dir int, name string) (string, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d %d %d.%09d", st.Dev, st.Ino, st.Btim.Sec, st.Btim.Nsec), nil
}

// unmount unmounts what is mounted at a path.
func unmount(mountpoint string, lazy bool) error {
	flags := 0
	if lazy {
		flags = unix.MNT_FORCE // there is no lazy unmount
	}
	err := retryBusy(func() error { return unix.Unmount(mountpoint, flags) })
	if err != nil {
		return fmt.Errorf("cannot unmount %s: %w", tensorfs.Printable(mountpoint), err)
	}
	return nil
}
