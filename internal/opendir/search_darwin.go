package opendir

import "golang.org/x/sys/unix"

// searchFlags open a directory that this user may go through but not list: O_EXEC, which
// means search for directories.
const searchFlags = 0x40000000

// linkOpen gives an open file another name, which this system cannot.
func linkOpen(int, int, string) error { return unix.ENOSYS }

// renameNew renames, and fails if the new name is taken.
func renameNew(from int, name string, to int, as string) error {
	err := unix.RenameatxNp(from, name, to, as, unix.RENAME_EXCL)
	if err == unix.ENOTSUP || err == unix.EINVAL {
		return unix.ENOSYS // this file system cannot
	}
	return err
}
