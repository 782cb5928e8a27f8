package remote

import (
	"regexp"
	"sync"
)

// Pattern compiles a regular expression when it is first needed: every start of the
// program would pay for those of protocols that it does not speak this time.
func Pattern(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
