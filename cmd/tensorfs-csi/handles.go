package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Directories are opened once, without links on their way, and used by these handles: a path may lead elsewhere a moment later.

// asHandle opens a directory to name it, and not to read it.
const asHandle = unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC

// openDirectory opens the directory of an absolute path that has no links.
func openDirectory(path string) (fd int, err error) {
	return openAt(unix.AT_FDCWD, path, unix.RESOLVE_NO_SYMLINKS)
}

// openBelow opens a directory of a mount, which has no links and no other mounts on the way.
func openBelow(root int, path string) (fd int, err error) {
	return openAt(root, path, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS|unix.RESOLVE_NO_XDEV)
}

func openAt(dir int, path string, resolve uint64) (fd int, err error) {
	for {
		fd, err = unix.Openat2(dir, path, &unix.OpenHow{Flags: asHandle, Resolve: resolve})
		switch {
		case err == nil:
			return fd, nil
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN): // something was renamed in between
			continue
		}
		return -1, &os.PathError{Op: "open", Path: path, Err: err}
	}
}

// pathOfHandle is a path of an open file that no link leads away from.
func pathOfHandle(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }

// placeOf returns the path at which the kernel has an open file now.
func placeOf(fd int) (string, error) {
	path, err := os.Readlink(pathOfHandle(fd))
	if err == nil && !filepath.IsAbs(path) {
		err = fmt.Errorf("%s: it is in no directory", path)
	}
	return path, err
}

// openTarget opens the directory at which a volume is bound.
func openTarget(target string) (fd int, err error) {
	fd, err = openDirectory(target)
	if errors.Is(err, unix.ELOOP) {
		err = status.Errorf(codes.FailedPrecondition, "target path %s: a part of it is a symbolic link", target)
	}
	return fd, err
}
