// Package sizes reads numbers of bytes as people write them.
package sizes

import (
	"strconv"
	"strings"
)

// Parse reads a number of bytes with an optional unit of powers of 1024, such as 512M,
// 8GiB, 200g, 24 GB or 1.5T. Half a byte does not count. ok is false if the text is not a
// size, or the size is too large.
func Parse(s string) (n int64, ok bool) {
	digits := strings.TrimRight(strings.ToUpper(s), "IB")
	shift := 0
	if n := len(digits); n > 0 {
		if i := strings.IndexByte("KMGT", digits[n-1]); i >= 0 {
			shift, digits = 10*(i+1), digits[:n-1]
		}
	}
	if digits != "" && len(digits) < len(s) { // a unit follows
		digits = strings.TrimSuffix(digits, " ")
	}
	digits, part, fraction := strings.Cut(digits, ".")
	whole, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || whole > (1<<62)>>shift {
		return 0, false
	}
	n = int64(whole) << shift
	if !fraction {
		return n, true
	}
	thousandths, err := strconv.ParseUint((part + "000")[:3], 10, 16)
	if err != nil || part == "" || len(part) > 3 || shift == 0 {
		return 0, false
	}
	return n + int64(thousandths)<<shift/1000, true
}
