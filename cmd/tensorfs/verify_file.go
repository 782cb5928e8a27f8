package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/sums"
)

// newList begins a list of digests at a path, or on standard output for "-". It refuses to
// replace a file that is not a list: an argument may be in the wrong place. write writes
// all of the list and then renames it to the path. Until then, and after discard, the old
// file stays.
func newList(name string, stdout io.Writer) (write func(list []byte) error, discard func(), err error) {
	if name == "-" {
		return func(list []byte) error { _, err := stdout.Write(list); return err }, func() {}, nil
	}
	if real, err := filepath.EvalSymlinks(name); err == nil {
		name = real
	}
	path, flags, perm := beside(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, os.FileMode(0o666)
	st, err := os.Stat(name)
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return nil, nil, tensorfs.PathError(name, err)
	case st.IsDir():
		return nil, nil, fmt.Errorf("%s is a directory; name a file for the list", tensorfs.Printable(name))
	case !st.Mode().IsRegular(): // a pipe, or /dev/stdout
		path, flags = name, os.O_WRONLY
	default:
		if err := isList(name); err != nil {
			return nil, nil, err
		}
		perm = st.Mode().Perm()
	}
	f, err := os.OpenFile(path, flags, perm)
	switch {
	case err != nil && path == name:
		return nil, nil, tensorfs.PathError(name, err)
	case err != nil:
		return nil, nil, fmt.Errorf("%s: the list cannot be written there: %w; name a file in a directory that you may write to",
			tensorfs.Printable(name), errors.Unwrap(err))
	case path == name:
		return func(list []byte) error { _, err := f.Write(list); return err }, func() { _ = f.Close() }, nil
	}
	discard = func() {
		_ = f.Close()       // what was not written does not count
		_ = os.Remove(path) // best effort: its temporary name belongs to no list
	}
	if st != nil { // also the bits that the mask took away
		if err := f.Chmod(perm); err != nil {
			discard()
			return nil, nil, tensorfs.PathError(name, err)
		}
	}
	return func(list []byte) error {
		_, err := f.Write(list)
		if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
			err = os.Rename(path, name)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", tensorfs.Printable(name), err)
		}
		return nil
	}, discard, nil
}

// beside is the path of a new file that gets a name when it is whole.
func beside(name string) string { return filepath.Join(filepath.Dir(name), ".tensorfs-"+rand.Text()) }

// isList returns an error unless a file is empty or begins with a line of a list.
func isList(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return tensorfs.PathError(name, err)
	}
	defer f.Close()
	for line, err := range sums.Lines(f) {
		if err == nil && line.OK {
			break
		}
		return fmt.Errorf("%s exists and is not a list of digests; name another file, or remove it first", tensorfs.Printable(name))
	}
	return nil
}
