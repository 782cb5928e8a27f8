package cli

import (
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/tensorfs/tensorfs"
)

// Exit codes.
const (
	ExitOK     = 0
	ExitFailed = 1
	ExitUsage  = 2

	ExitTrouble = 2 // of diff, whose 1 means that models differ
)

// UsageError is a command line that cannot be understood.
type UsageError struct{ Err error }

// Error returns what is wrong with the command line.
func (e UsageError) Error() string { return e.Err.Error() }

// IsA reports whether an error is of a type.
func IsA[T error](err error) bool {
	_, ok := errors.AsType[T](err)
	return ok
}

// TroubleError is a failure of a command whose exit status 1 means something else.
type TroubleError struct{ Err error }

// Error returns what failed.
func (e TroubleError) Error() string { return e.Err.Error() }

// PrintError prints an error of a command line.
func PrintError(stderr io.Writer, err error, args []string) {
	Complain(stderr, "tensorfs: "+ErrorLine(err, args))
}

// Complain prints a message: as one line, which a terminal gets folded at words.
func Complain(w io.Writer, message string) { fmt.Fprintln(w, Folded(w, message)) }

// Folded returns text that is written to w, folded at words if that is a terminal.
func Folded(w io.Writer, text string) string {
	if !IsTerminal(w) {
		return text
	}
	return Fold(text, Width(w)-1, "  ")
}

// ErrorLine returns an error of a command line as one line. It cuts the middle out of very
// long words, such as a name of 5,000 letters.
func ErrorLine(err error, args []string) string {
	words := strings.Split(tensorfs.OneLine(PublicText(err.Error(), args)), " ")
	for i := range words {
		words[i] = Shorten(words[i], longestWord)
	}
	return strings.Join(words, " ")
}

const longestWord = 400

// Reported marks a failure that the command has already printed.
type Reported struct{ Err error }

// Error returns the message that was printed.
func (r Reported) Error() string { return r.Err.Error() }

// Unwrap returns what was reported, which decides the exit code.
func (r Reported) Unwrap() error { return r.Err }

// SystemError is the system's error for a file whose name the user never saw.
func SystemError(err error) error {
	if e, ok := errors.AsType[*iofs.PathError](err); ok {
		return e.Err
	}
	if e, ok := errors.AsType[*os.LinkError](err); ok {
		return e.Err
	}
	return err
}

// IgnorePipe lets a reader like head stop early.
func IgnorePipe(err error) error {
	if errors.Is(err, syscall.EPIPE) {
		return nil
	}
	return err
}
