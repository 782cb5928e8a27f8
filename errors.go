package tensorfs

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
)

// Errors that callers tell apart.
var (
	// ErrFormat marks a file that breaks the rules of its format.
	ErrFormat = errors.New("malformed")
	// ErrUnsupported marks a sound file that tensorfs cannot serve.
	ErrUnsupported = errors.New("unsupported")
	// ErrMissing marks a model that lacks a file: it was not fetched to the end. It is an ErrFormat and an fs.ErrNotExist.
	ErrMissing error = missing{}
	// ErrChanged marks a file that was modified or truncated after it was opened.
	ErrChanged = errors.New("file changed since it was opened")
)

// missing is the type of ErrMissing.
type missing struct{}

func (missing) Error() string   { return "a file is missing" }
func (missing) Unwrap() []error { return []error{ErrFormat, fs.ErrNotExist} }

// ChangedError names a file of a model that changed after it was opened.
type ChangedError struct {
	File string // its path
	Why  string // how that was noticed; "" where its size or times say so
	Kind error  // the system's error, nil if none applies
}

// Error returns one line with what to do.
func (e *ChangedError) Error() string {
	why := ""
	if e.Why != "" {
		why = e.Why + ": "
	}
	return fmt.Sprintf("%s: %s%v; open it again (unmount and mount, if it is mounted)", Printable(e.File), why, ErrChanged)
}

// Unwrap returns ErrChanged and the kind of the error.
func (e *ChangedError) Unwrap() []error {
	if e.Kind == nil {
		return []error{ErrChanged}
	}
	return []error{ErrChanged, e.Kind}
}

// FormatError describes what is wrong with a file, and where.
type FormatError struct {
	File    string // path as the user gave it, or the shard's
	Tensor  string // name in the source; "" if no tensor is concerned
	Offset  int64  // byte offset in File; negative if unknown
	Problem string // what is wrong, with the numbers
	Advice  string // what to do; if "", fetching the file again is advised only if Kind means wrong bytes
	Kind    error  // ErrFormat (also when nil), ErrUnsupported, ErrMissing, or what the system said
}

// Unsupported returns the error of a file, of a model's name or of a setting that is
// sound and of no use: what is in the way, and what to do.
func Unsupported(file, problem, advice string) error {
	return &FormatError{File: file, Offset: -1, Problem: problem, Advice: advice, Kind: ErrUnsupported}
}

// Error returns one line: file, tensor, offset, problem, advice. Text from the
// file is quoted, so no control byte reaches a terminal.
func (e *FormatError) Error() string {
	var b strings.Builder
	if e.File != "" {
		b.WriteString(Printable(e.File))
		b.WriteString(": ")
	}
	if e.Tensor != "" {
		fmt.Fprintf(&b, "tensor %s: ", Quote(e.Tensor))
	}
	b.WriteString(e.Problem)
	if e.Offset >= 0 {
		fmt.Fprintf(&b, " (at byte %d)", e.Offset)
	}
	advice := e.Advice
	if kind := e.Unwrap(); advice == "" && (kind == ErrFormat || kind == ErrMissing) {
		advice = "the file is damaged or incomplete: fetch it again"
	}
	if advice != "" {
		b.WriteString("; ")
		b.WriteString(advice)
	}
	return b.String()
}

// Unwrap returns the kind of the error.
func (e *FormatError) Unwrap() error {
	if e.Kind != nil {
		return e.Kind
	}
	return ErrFormat
}

// pathErrors explains system errors about paths, with what to do about each.
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
	if e, ok := errors.AsType[*FormatError](err); ok { // its text names the path already
		return e
	}
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
