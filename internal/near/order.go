package near

import "strings"

// Compare orders names and paths as people count: numbers in them by their values, so
// that layers.2 comes before layers.10, and what is in a directory right after it. It
// is for what is shown to people; programs get the order of bytes.
func Compare(a, b string) int {
	x, y := a, b
	for x != "" && y != "" {
		i, j := digits(x), digits(y)
		if i > 0 && j > 0 {
			// Without zeros in front the longer number is the greater, however long it is.
			m, n := strings.TrimLeft(x[:i], "0"), strings.TrimLeft(y[:j], "0")
			if len(m) != len(n) {
				return len(m) - len(n)
			}
			if c := strings.Compare(m, n); c != 0 {
				return c
			}
			x, y = x[i:], y[j:]
			continue
		}
		if x[0] != y[0] {
			return rank(x[0]) - rank(y[0])
		}
		x, y = x[1:], y[1:]
	}
	if len(x) != len(y) {
		return len(x) - len(y)
	}
	return strings.Compare(a, b) // 1 and 01 are one number, and two names
}

// digits returns how many digits s begins with.
func digits(s string) int {
	return len(s) - len(strings.TrimLeft(s, "0123456789"))
}

// rank is where a byte stands among others: a slash comes before all that a name
// may have.
func rank(c byte) int {
	if c == '/' {
		return -1
	}
	return int(c)
}
