package mounts

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// openParent opens a directory to lock it and to make and remove what is in it.
// One that cannot be read is not locked.
func openParent(path string) (int, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.EACCES) {
		fd, err = unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	}
	return fd, err
}

// dirID tells a directory from all others, also from a later one of the same name.
func dirID(dir int, name string) (string, error) {
	var st unix.Statx_t
	if err := unix.Statx(dir, name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, unix.STATX_INO|unix.STATX_BTIME, &st); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d:%d %d %d.%09d", st.Dev_major, st.Dev_minor, st.Ino, st.Btime.Sec, st.Btime.Nsec), nil
}

// beneath opens the directory that is covered by what is mounted on it.
func (p *Point) beneath() (*os.File, error) {
	// A copy of the mount with the directory above has nothing mounted in it.
	above, err := unix.OpenTree(p.dir, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	if err != nil {
		return nil, err
	}
	defer unix.Close(above)
	fd, err := unix.Openat(above, p.name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), p.Path), nil
}
