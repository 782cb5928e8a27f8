package tensorfs

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
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

// ChangedError says which file of a model changed after it was opened.
type ChangedError struct {
	File string // its path
	Why  string // how that was noticed; "" where its size or times say so
	Kind error  // what the system calls it, nil where that is nothing in particular
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

// FormatError says what is wrong with a file and where.
type FormatError struct {
	File    string // path as the user gave it, or the shard's
	Tensor  string // source name; "" where no tensor is concerned
	Offset  int64  // byte offset in File; negative where there is none to name
	Problem string // what is wrong, with the numbers
	Advice  string // what to do; "" for the usual one
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
	b.WriteString(Printable(e.File))
	b.WriteString(": ")
	if e.Tensor != "" {
		fmt.Fprintf(&b, "tensor %s: ", Quote(e.Tensor))
	}
	b.WriteString(e.Problem)
	if e.Offset >= 0 {
		fmt.Fprintf(&b, " (at byte %d)", e.Offset)
	}
	advice := e.Advice
	if advice == "" {
		advice = "the file is damaged or incomplete: fetch it again"
	}
	b.WriteString("; ")
	b.WriteString(advice)
	return b.String()
}

// Unwrap returns the kind of the error.
func (e *FormatError) Unwrap() error {
	if e.Kind != nil {
		return e.Kind
	}
	return ErrFormat
}
