package mounts

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// readTable lists the mounts as the kernel remembers them. It asks no server, so it
// does not hang on one that is gone.
func readTable() ([]Mount, error) {
	n, err := unix.Getfsstat(nil, unix.MNT_NOWAIT)
	if err != nil {
		return nil, fmt.Errorf("cannot read the mount table: %w", err)
	}
	buf := make([]unix.Statfs_t, n+16) // room for mounts that are added in between
	if n, err = unix.Getfsstat(buf, unix.MNT_NOWAIT); err != nil {
		return nil, fmt.Errorf("cannot read the mount table: %w", err)
	}
	var all []Mount
	for _, st := range buf[:min(n, len(buf))] {
		all = append(all, bsdMount(unix.ByteSliceToString(st.Mntfromname[:]), unix.ByteSliceToString(st.Mntonname[:]), unix.ByteSliceToString(st.Fstypename[:])))
	}
	return all, nil
}

// Server returns the process that serves an NFS mount, and 0 for FUSE: only the server
// itself can say which process it is.
func (m *Mount) Server() int { return m.nfsServer() }

// Elsewhere returns nothing: a file system is mounted once.
func (m *Mount) Elsewhere() []Copy { return nil }

// openParent opens a directory to lock it and to make and remove what is in it.
func openParent(path string) (int, error) {
	return unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
}

// dirID tells a directory from all others, also from a later one of the same name.
func dirID(dir int, name string) (string, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d %d %d.%09d", st.Dev, st.Ino, st.Btim.Sec, st.Btim.Nsec), nil
}

// unmountNFS unmounts an NFS mount. Without its server it has to be forced, or it
// would wait for it.
func unmountNFS(mountpoint string, lazy, gone bool) error {
	return unmountFUSE(mountpoint, lazy || gone)
}

// unmountFUSE unmounts what is mounted at a path.
func unmountFUSE(mountpoint string, lazy bool) error {
	flags := 0
	if lazy {
		flags = unix.MNT_FORCE // there is no lazy unmount
	}
	return retryBusy(func() error { return unix.Unmount(mountpoint, flags) })
}

// beneath would open the directory that is covered by what is mounted on it.
func (p *Point) beneath() (*os.File, error) { return nil, unix.ENOTSUP }
