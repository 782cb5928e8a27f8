// Package sizes reads numbers of bytes as people write them.
package sizes

import (
	"strconv"
	"strings"
)

// Parse reads a number of bytes with an optional unit of powers of 1024, such as 512M, 8GiB or 200g. ok is false where
// it is none, or too many.
func Parse(s string) (n int64, ok bool) {
	digits := strings.TrimRight(strings.ToUpper(s), "IB")
	shift := 0
	if n := len(digits); n > 0 {
		if i := strings.IndexByte("KMGT", digits[n-1]); i >= 0 {
			shift, digits = 10*(i+1), digits[:n-1]
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || n > (1<<62)>>shift {
		return 0, false
	}
	return n << shift, true
}
