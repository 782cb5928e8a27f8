package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"
)

const (
	Columns   = 80 // the default width of output
	Narrowest = 40 // a narrower terminal breaks lines itself
)

// File returns the file that w writes to, if it is one or [Checked].
func File(w io.Writer) (*os.File, bool) {
	if c, ok := w.(*Checked); ok {
		w = c.w
	}
	f, ok := w.(*os.File)
	return f, ok
}

// Checked writes to another writer and keeps the first error, because functions that print
// do not check errors.
type Checked struct {
	w  io.Writer
	mu sync.Mutex

	err error
}

// Check returns a writer to w.
func Check(w io.Writer) *Checked { return &Checked{w: w} }

// Write implements io.Writer.
func (c *Checked) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	return n, c.keep(err)
}

// ReadFrom implements io.ReaderFrom: between files the kernel copies.
func (c *Checked) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(c.w, r) // its error may be the reader's, and callers look at it
}

// Err returns the first error of a write.
func (c *Checked) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// keep returns an error in the words of the user, who named no file for the output, and keeps the first.
func (c *Checked) keep(err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*os.PathError](err); ok {
		err = fmt.Errorf("standard output: %w", e.Err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = cmp.Or(c.err, err)
	return err
}

// IsTerminal reports whether what is written to w is shown on a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := File(w)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Width returns the number of columns of the terminal that w is, and [Columns]
// where w is another file or the terminal does not say.
func Width(w io.Writer) int {
	if f, ok := File(w); ok {
		if columns, _, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 {
			return columns
		}
	}
	return Columns
}

// UTF8 reports whether the locale's characters are UTF-8. As in setlocale(3), the
// first of LC_ALL, LC_CTYPE and LANG that is set and not empty decides.
func UTF8() bool {
	locale := strings.ToLower(cmp.Or(os.Getenv("LC_ALL"), os.Getenv("LC_CTYPE"), os.Getenv("LANG")))
	return strings.Contains(locale, "utf-8") || strings.Contains(locale, "utf8")
}
