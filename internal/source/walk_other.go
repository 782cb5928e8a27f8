//go:build !linux

package source

import "golang.org/x/sys/unix"

const handleOnly = unix.O_RDONLY | unix.O_NONBLOCK

// openPart opens the name in a directory, whatever it is, and returns what a symbolic link
// there contains. Of a link fd is -1.
func openPart(dir int, name string) (fd int, st unix.Stat_t, target string, err error) {
	if err = unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return -1, st, "", err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		var after unix.Stat_t
		if target, err = readLink(dir, name); err == nil {
			err = unix.Fstatat(dir, name, &after, unix.AT_SYMLINK_NOFOLLOW)
		}
		if err == nil && (after.Ino != st.Ino || after.Dev != st.Dev || after.Ctim != st.Ctim) {
			err = unix.ESTALE
		}
		return -1, st, target, err
	}
	if fd, err = openat(dir, name, handleOnly|unix.O_NOFOLLOW); err != nil {
		return -1, st, "", err
	}
	if err = unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return -1, st, "", err
	}
	return fd, st, "", nil
}

func isMagic(int) bool { return false }
