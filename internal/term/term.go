package term

import (
	"cmp"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// Columns is the width that output is made for where nobody says otherwise.
const Columns = 80

// Is reports whether what is written to w is shown on a terminal.
func Is(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Width returns the number of columns of the terminal that w is, and [Columns]
// where w is another file or the terminal does not say.
func Width(w io.Writer) int {
	if f, ok := w.(*os.File); ok {
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
