package fs

import (
	"errors"
	"syscall"
	"time"
)

// MountInfo is a line of the mount table.
type MountInfo struct {
	Mountpoint string
	Source     string // path of the model
	Type       string
	Device     string // major:minor
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
	all, err := readMounts()
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
