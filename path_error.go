package tensorfs

import (
	"errors"
	"io/fs"
	"syscall"
)

// pathErrors says what system errors about paths mean and what to do about them.
var pathErrors = []struct {
	is              error
	problem, advice string
}{
	{fs.ErrNotExist, "no such file or directory", "check the path"},
	{fs.ErrPermission, "no permission to read it", "change its mode or run as its owner"},
	{syscall.ELOOP, "its symbolic links form a loop", "name the file itself"},
	{syscall.ENOTDIR, "a parent of it is not a directory", "check the path"},
	{syscall.ENAMETOOLONG, "its name is longer than file names can be", "check the path"},
	{syscall.ENXIO, "it is a socket or device, not a regular file", "name a model file"},
	{syscall.EMFILE, "too many files are open", "raise the limit with 'ulimit -n'"},
	{syscall.ENFILE, "too many files are open on this system", "close some programs"},
}

// PathError explains a system error about a path. The result matches that error in errors.Is.
func PathError(path string, err error) *FormatError {
	e := &FormatError{File: path, Offset: -1, Advice: "check the path", Kind: err}
	for _, p := range pathErrors {
		if errors.Is(err, p.is) {
			e.Problem, e.Advice, e.Kind = p.problem, p.advice, p.is
			return e
		}
	}
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err
	}
	e.Problem = "it cannot be opened: " + err.Error()
	return e
}

// NoDirectory returns the error for a directory that cannot be made, or not written to.
func NoDirectory(dir string, err error) *FormatError {
	e := &FormatError{File: dir, Offset: -1, Advice: "name another directory", Kind: err}
	why, ok := errors.AsType[*fs.PathError](err)
	if ok && why.Path != "" {
		e.File = why.Path // it may be one above
	}
	if errors.Is(err, syscall.ENOTDIR) {
		e.Problem = "it is not a directory"
		return e
	}
	e.Problem = "nothing can be written there"
	if ok {
		e.Problem += ": " + why.Err.Error()
	}
	return e
}

// NotRegular returns the error for a path that is not a regular file.
func NotRegular(path string, mode fs.FileMode) *FormatError {
	return &FormatError{File: path, Offset: -1, Problem: "it is " + fileKind(mode) + ", not a regular file", Advice: "name a model file"}
}

func fileKind(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "a directory"
	case m&fs.ModeNamedPipe != 0:
		return "a FIFO"
	case m&fs.ModeSocket != 0:
		return "a socket"
	}
	return "a device"
}
