package main

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/internal/remote/plain"
)

// publicName is what the user named a model without what nobody else may see: the
// user, password, query and fragment of an address. Every message has names from here;
// what an error says about another argument goes through publicText.
func publicName(model string) string {
	if !formats.IsName(model) {
		return model
	}
	return plain.Shown(model)
}

// printableName is publicName for messages.
func printableName(model string) string { return tensorfs.Printable(publicName(model)) }

// Parts of addresses in a text, also of such as became paths of files, where two slashes
// are one: what stands before the @, and what follows the question mark.
var (
	addressUser  = lazyRegexp(`([A-Za-z][A-Za-z0-9+.-]*:/+)[^/?#\s]*@`)
	addressQuery = lazyRegexp(`([A-Za-z][A-Za-z0-9+.-]*:/+[^?#\s"']*)(\?|#)(?:\.\.\.)?[^\s"']*?([:;,.)?]*(?:[\s"']|$))`)
)

// lazyRegexp compiles an expression when it is used for the first time: most commands
// succeed, and should not wait for it.
func lazyRegexp(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}

// publicText is a message without what nobody else may see: of addresses among the
// arguments of the command line, however they are written, and of all others.
func publicText(text string, args []string) string {
	for _, arg := range args {
		_, value, isFlag := strings.Cut(arg, "=")
		if !isFlag || !strings.HasPrefix(arg, "-") {
			value = arg
		}
		shown := publicName(value)
		if shown == value {
			continue
		}
		for _, written := range []string{value, filepath.Clean(value)} {
			quoted := strconv.Quote(written)
			text = strings.ReplaceAll(text, written, shown)
			text = strings.ReplaceAll(text, quoted[1:len(quoted)-1], shown)
		}
	}
	text = addressUser().ReplaceAllString(text, "$1")
	return addressQuery().ReplaceAllString(text, "$1$2...$3")
}
