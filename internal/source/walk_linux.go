package source

import "golang.org/x/sys/unix"

// handleOnly opens a file or directory without the right to read it.
const handleOnly = unix.O_PATH

// openPart opens the name in a directory, whatever it is, and returns what a symbolic link
// there contains. Both are of one inode.
func openPart(dir int, name string) (fd int, st unix.Stat_t, target string, err error) {
	// O_DIRECTORY makes an automounter mount what belongs there.
	fd, err = openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_DIRECTORY)
	if err == unix.ENOTDIR || err == unix.ELOOP {
		fd, err = openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW)
	}
	if err != nil {
		return -1, st, "", err
	}
	if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
		target, err = readLink(fd, "")
	}
	if err != nil {
		unix.Close(fd)
		return -1, st, "", err
	}
	return fd, st, target, nil
}

// isMagic reports whether a link is one of the kernel's, whose text is only for people: a
// process's files and directories in /proc.
func isMagic(fd int) bool {
	var st unix.Statfs_t
	return unix.Fstatfs(fd, &st) == nil && st.Type == unix.PROC_SUPER_MAGIC
}
