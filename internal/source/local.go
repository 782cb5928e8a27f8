package source

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/tensorfs/tensorfs"
)

// Abs returns the absolute path of path, and the absolute path of its target through
// symbolic links, "" if the target does not exist.
func Abs(path string) (abs, real string, err error) {
	if abs, err = filepath.Abs(path); err != nil {
		return "", "", err
	}
	if real, err = filepath.EvalSymlinks(abs); err != nil {
		real = ""
	}
	return abs, real, nil
}

// HasDir reports whether there is a directory at path.
func HasDir(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.IsDir()
}

// Room returns an error when the process may not open n more files, n being the
// number of files in the model at path. Go raised the limit as far as it is
// allowed to when the program started.
func Room(path string, n int) error {
	const others = 64 // files that the process needs besides them
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || uint64(n)+others <= uint64(limit.Cur) {
		return nil
	}
	return &tensorfs.FormatError{File: path, Offset: -1, Kind: syscall.EMFILE,
		Problem: fmt.Sprintf("the model has %d blobs, and each stays open, but this process may open %d files", n, limit.Cur),
		Advice:  fmt.Sprintf("raise the limit with 'ulimit -n %d'", n+others)}
}

// Exists reports whether there is anything at a path, even a link that leads nowhere.
func Exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
