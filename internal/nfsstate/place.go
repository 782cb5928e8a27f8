package nfsstate

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tensorfs/tensorfs"
	"golang.org/x/sys/unix"
)

// Bits that the mode of a directory must not have.
const (
	private = 0o077 // only the owner reads it
	// Unshared means that only the owner writes to it.
	Unshared = 0o022
)

// Own returns an error unless a path is a directory of this user, not a link to one, whose
// mode lacks the bits of without. Other users then cannot change what is there.
func Own(dir string, without uint32) error {
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return err
	}
	switch {
	case st.Mode&unix.S_IFMT == unix.S_IFLNK:
		return errors.New("it is a link, not a directory")
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return errors.New("it is not a directory")
	case int(st.Uid) != os.Geteuid():
		return fmt.Errorf("it belongs to user %d, not to you", st.Uid)
	case uint32(st.Mode)&without != 0:
		return fmt.Errorf("it has mode %04o, so other users can reach it", st.Mode&0o7777)
	}
	return nil
}

// RuntimeDir returns the directory of the user's session, XDG_RUNTIME_DIR, "" if it is not
// set. A directory that other users could change is an error: su and sudo -E leave the
// variable of another user.
func RuntimeDir() (string, error) {
	dir := os.Getenv("XDG_RUNTIME_DIR")
	if !filepath.IsAbs(dir) { // as its specification demands
		return "", nil
	}
	err := Own(dir, Unshared)
	if errors.Is(err, unix.ENOENT) {
		err = errors.New("there is no such directory")
	}
	if err != nil {
		return "", fmt.Errorf("XDG_RUNTIME_DIR is %s: %w", tensorfs.Printable(dir), err)
	}
	return dir, nil
}
