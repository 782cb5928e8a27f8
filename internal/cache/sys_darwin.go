package cache

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// bootID names this boot of the machine.
func bootID() (string, error) { return unix.Sysctl("kern.bootsessionuuid") }

// remoteFileSystem names the file system of dir where it cannot hold a cache.
func remoteFileSystem(st *unix.Statfs_t) string {
	name := unix.ByteSliceToString(st.Fstypename[:])
	if st.Flags&unix.MNT_LOCAL == 0 || strings.Contains(name, "fuse") {
		return name
	}
	return ""
}

// preallocate makes a file of n zeros.
func preallocate(f *os.File, n int64) error { return f.Truncate(n) }

// syncData makes a file's bytes durable.
func syncData(f *os.File) error { return f.Sync() }

// canPunch says that parts of a file can be given back to the disk. Entries that
// are in use keep what they have; they take no more when the budget is used up.
const canPunch = false

func punch(*os.File, int64, int64) error { return unix.ENOTSUP }

// lockBytes does nothing: there are no locks of open files here, and those of
// processes end when any descriptor of the file is closed. Two processes may then
// fetch the same bytes, which is harmless.
func lockBytes(*os.File, int64, int64, bool) (ok bool, err error) { return true, nil }
