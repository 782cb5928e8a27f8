package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/cli"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2

	exitTrouble = 2 // of diff, whose 1 means that models differ
)

// usageError is a command line that cannot be understood.
type usageError struct{ Err error }

// Error says what is wrong with the command line.
func (e usageError) Error() string { return e.Err.Error() }

// isA reports whether an error is of a type.
func isA[T error](err error) bool {
	_, ok := errors.AsType[T](err)
	return ok
}

// troubleError is a failure of a command whose exit status 1 means something else.
type troubleError struct{ Err error }

// Error says what failed.
func (e troubleError) Error() string { return e.Err.Error() }

// printError prints an error of a command line.
func printError(stderr io.Writer, err error, args []string) {
	complain(stderr, "tensorfs: "+errorLine(err, args))
}

// complain prints a message: as one line, which a terminal gets folded at words.
func complain(w io.Writer, message string) { fmt.Fprintln(w, folded(w, message)) }

// folded returns text that is written to w, folded at words if that is a terminal.
func folded(w io.Writer, text string) string {
	if !cli.IsTerminal(w) {
		return text
	}
	return cli.Fold(text, cli.Width(w)-1, "  ")
}

// errorLine returns an error of a command line as a line. Of words that nobody reads to
// the end, such as a name of 5,000 letters, it has how they begin and end.
func errorLine(err error, args []string) string {
	words := strings.Split(tensorfs.OneLine(publicText(err.Error(), args)), " ")
	for i := range words {
		words[i] = cli.Shorten(words[i], longestWord)
	}
	return strings.Join(words, " ")
}

const longestWord = 400

// reported marks a failure that the command has already printed.
type reported struct{ Err error }

// Error returns the message that was printed.
func (r reported) Error() string { return r.Err.Error() }

// Unwrap returns what was reported, which decides the exit code.
func (r reported) Unwrap() error { return r.Err }
