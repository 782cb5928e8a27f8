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

// replacement is a list that gets its name when it is complete. Until then, and
// after a failure, there is what was there before.
type replacement struct {
	to   io.Writer // of what is no regular file
	file *os.File
	path string
}

// newReplacement begins a list at a path, or on standard output for "-". It refuses
// to replace what is not a list: an argument may be in the wrong place.
func newReplacement(name string, v *verification) (*replacement, error) {
	if name == "-" {
		return &replacement{to: v.stdout}, nil
	}
	if real, err := filepath.EvalSymlinks(name); err == nil {
		name = real
	}
	perm := os.FileMode(0o666)
	st, err := os.Stat(name)
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return nil, tensorfs.PathError(name, err)
	case st.IsDir():
		return nil, fmt.Errorf("%s is a directory; name a file for the list", tensorfs.Printable(name))
	case !st.Mode().IsRegular(): // a pipe, or /dev/stdout
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			return nil, tensorfs.PathError(name, err)
		}
		return &replacement{to: f, file: f}, nil
	default:
		if err := isList(name); err != nil {
			return nil, err
		}
		perm = st.Mode().Perm()
	}
	path := filepath.Join(filepath.Dir(name), ".tensorfs-"+rand.Text())
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return nil, fmt.Errorf("%s: the list cannot be written there: %w; name a file in a directory that you may write to", tensorfs.Printable(name), errors.Unwrap(err))
	}
	r := &replacement{to: f, file: f, path: name}
	if st != nil { // also the bits that the mask took away
		if err := f.Chmod(perm); err != nil {
			r.discard()
			return nil, tensorfs.PathError(name, err)
		}
	}
	return r, nil
}

// isList returns an error unless a file is empty or begins with a line of a list.
func isList(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return tensorfs.PathError(name, err)
	}
	defer f.Close()
	lines := sums.NewScanner(f)
	if lines.Scan() && !lines.Line().OK || lines.Err() != nil {
		return fmt.Errorf("%s exists and is not a list of digests; name another file, or remove it first", tensorfs.Printable(name))
	}
	return nil
}

// write writes all of the list and gives it its name.
func (r *replacement) write(list []byte) error {
	_, err := r.to.Write(list)
	if r.path == "" {
		return err
	}
	temporary := r.file.Name()
	err = errors.Join(err, r.file.Sync(), r.file.Close())
	if err == nil {
		err = os.Rename(temporary, r.path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("%s: %w", tensorfs.Printable(r.path), err), os.Remove(temporary))
	}
	r.file = nil
	return nil
}

// discard gives up a list that was not written.
func (r *replacement) discard() {
	if r.file == nil {
		return
	}
	_ = r.file.Close() // nothing of it counts
	if r.path != "" {
		_ = os.Remove(r.file.Name()) // best effort: it is named as nobody's
	}
	r.file = nil
}
