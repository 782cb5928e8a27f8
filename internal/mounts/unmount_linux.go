package mounts

import (
	"os"
	"os/exec"

	"golang.org/x/sys/unix"
)

// unmountNFS unmounts an NFS mount. If its server is gone, programs that wait
// for it are told so.
func unmountNFS(mountpoint string, lazy, gone bool) error {
	flags := unix.UMOUNT_NOFOLLOW
	if lazy || gone {
		flags |= unix.MNT_DETACH
	}
	if gone {
		flags |= unix.MNT_FORCE
	}
	return retryBusy(func() error { return unix.Unmount(mountpoint, flags) })
}

// unmountFUSE unmounts what is mounted at a path.
func unmountFUSE(mountpoint string, lazy bool) error {
	if os.Geteuid() == 0 {
		flags := unix.UMOUNT_NOFOLLOW
		if lazy {
			flags |= unix.MNT_DETACH
		}
		return retryBusy(func() error { return unix.Unmount(mountpoint, flags) })
	}
	helper, err := fusermount()
	if err != nil {
		return err
	}
	args := []string{"-u"}
	if lazy {
		args = append(args, "-z")
	}
	args = append(args, "--", mountpoint)
	return retryBusy(func() error { return run(exec.Command(helper, args...)) })
}
