package mounts

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"path/filepath"

	"github.com/tensorfs/tensorfs"
)

// Advised is an error whose text is complete for the user. The text of its cause would
// confuse after the advice, so only programs see the cause.
type Advised struct {
	Text  string
	Cause error
}

func (e Advised) Error() string { return e.Text }

// Unwrap returns the cause.
func (e Advised) Unwrap() error { return e.Cause }

// ErrNoMountpoint is the error that there is no directory at the path.
var ErrNoMountpoint = errors.New("the mount point does not exist")

// ErrMounted is the error that a tensorfs is mounted at the path already.
var ErrMounted = errors.New("a tensorfs is mounted there already")

// noDirectory is the error for a directory that is not there.
type noDirectory struct{ path string }

func (e noDirectory) Error() string {
	p := tensorfs.Printable(e.path)
	return fmt.Sprintf("%s does not exist; mkdir -p %s makes it", p, p)
}

// Is makes it ErrNoMountpoint, and the system's error too.
func (e noDirectory) Is(target error) bool {
	return target == ErrNoMountpoint || target == iofs.ErrNotExist
}

// mountedThere is the error for a mount point that is in use.
type mountedThere struct{ source string }

func (e mountedThere) Error() string {
	return tensorfs.Printable(e.source) + " is mounted there already"
}

// Is makes it ErrMounted.
func (e mountedThere) Is(target error) bool { return target == ErrMounted }

// mountpointError explains what is wrong with a path, from the system's error.
func mountpointError(path string, err error) error {
	p := tensorfs.Printable(path)
	var at *iofs.PathError
	if errors.As(err, &at) {
		err = at.Err
	}
	switch {
	case errors.Is(err, iofs.ErrPermission):
		closed := filepath.Dir(path)
		if at != nil {
			closed = filepath.Dir(at.Path)
		}
		return Advised{fmt.Sprintf("%s: cannot enter %s; choose another directory, or let yourself in with chmod", p, tensorfs.Printable(closed)), iofs.ErrPermission}
	case errors.Is(err, iofs.ErrNotExist):
		return fmt.Errorf("%s %w", p, noSuch{})
	}
	return fmt.Errorf("%s: %w", p, err)
}

// noSuch is the system's error for a name that is not there, in other words.
type noSuch struct{}

func (noSuch) Error() string        { return "does not exist" }
func (noSuch) Is(target error) bool { return target == iofs.ErrNotExist }
