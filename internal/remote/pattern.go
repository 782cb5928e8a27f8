package remote

import (
	"regexp"
	"sync"
)

// Pattern compiles a regular expression when it is first needed: otherwise every start
// of the program would pay for the expressions of all protocols.
func Pattern(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
