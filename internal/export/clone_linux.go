package export

import (
	"os"

	"github.com/tensorfs/tensorfs/internal/opendir"
	"golang.org/x/sys/unix"
)

// cloneFile makes a file of that name that shares the blocks of an open one:
// btrfs, XFS, bcachefs, ZFS and some network file systems can.
func cloneFile(dir *opendir.Dir, src int, name string) (*os.File, error) {
	f, err := dir.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return nil, err
	}
	if err := unix.IoctlFileClone(int(f.Fd()), src); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// kernelCopy copies up to n bytes at off in the kernel, and returns how many. 0 means that
// the caller has to copy them in another way, which also finds any error.
func kernelCopy(src int, dst *os.File, off, n int64) int64 {
	from, to := off, off
	copied, err := unix.CopyFileRange(src, &from, int(dst.Fd()), &to, int(n), 0)
	if err != nil {
		return 0
	}
	return int64(copied)
}
