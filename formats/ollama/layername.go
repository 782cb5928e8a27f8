package ollama

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/tensorfs/tensorfs"
)

// nameProblem explains why the name of a layer or a tensor could be mistaken for a path
// that leads somewhere else; "" if it could not. Any other text is fine: names become file
// names only after escaping, which also shortens them.
func nameProblem(name string) string {
	if name == "" {
		return "is empty"
	}
	if !utf8.ValidString(name) {
		return tensorfs.Quote(name) + " is not UTF-8"
	}
	if i := strings.IndexFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }); i >= 0 {
		return fmt.Sprintf("%s has a control character at byte %d", tensorfs.Quote(name), i)
	}
	for e := range strings.SplitSeq(name, "/") {
		switch e {
		case "":
			return tensorfs.Quote(name) + " starts or ends with a slash, or has two in a row"
		case ".", "..":
			return tensorfs.Quote(name) + " has the path element " + e
		}
	}
	return ""
}
