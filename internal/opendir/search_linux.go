package opendir

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// searchFlags open a directory that this user may go through but not list.
const searchFlags = unix.O_PATH

// linkOpen gives an open file another name.
func linkOpen(fd int, dir int, name string) error {
	return unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), dir, name, unix.AT_SYMLINK_FOLLOW)
}

// renameNew renames, and fails if the new name is taken.
func renameNew(from int, name string, to int, as string) error {
	err := unix.Renameat2(from, name, to, as, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) {
		return unix.ENOSYS // this file system cannot
	}
	return err
}
