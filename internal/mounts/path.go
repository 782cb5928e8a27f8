package mounts

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// Resolve returns the absolute path of a mount point without links. It does not touch the mount.
func Resolve(path string) (string, error) { return resolve(path) }

// resolve returns the absolute path without links. It does not touch a mount at
// the path itself, whose server may be gone.
func resolve(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return path, err
	}
	for range 40 { // as many links as the kernel follows
		if path == "/" {
			return path, nil
		}
		parent, err := filepath.EvalSymlinks(filepath.Dir(path))
		if err != nil {
			return path, err
		}
		path = filepath.Join(parent, filepath.Base(path))
		if m, err := Top(path); err != nil || m != nil {
			return path, err
		}
		target, err := os.Readlink(path)
		if err != nil {
			return path, nil // not a link, or not there: the caller finds out
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(parent, target)
		}
		path = target
	}
	return path, fmt.Errorf("%s: %w", path, syscall.ELOOP)
}
