package names

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

const (
	maxEscaped = 200 // leaves room for a view's suffix below the 255 of file systems
	cutEscaped = 180
)

// Escape returns a file name for any name of a tensor or a metadata key. Names
// that are different stay different, whatever bytes they have.
//
// Printable ASCII without / % \ : ~ and blanks stays; every other byte and a
// leading dot become %XX, the empty name becomes a single %. A result of more
// than 200 bytes is cut after about 180 and gets ~ and 16 hex digits of the
// SHA-256 of the name.
func Escape(name string) string {
	if name == "" {
		return "%"
	}
	if len(name) <= maxEscaped && name[0] != '.' && !strings.ContainsFunc(name, func(r rune) bool { return r >= 0x80 || !plain(byte(r)) }) {
		return name
	}
	const digits = "0123456789ABCDEF"
	b := make([]byte, 0, maxEscaped+3)
	keep := 0 // what fits in cutEscaped bytes without cutting a %XX
	for i := 0; i < len(name) && len(b) <= maxEscaped; i++ {
		if c := name[i]; plain(c) && (i > 0 || c != '.') {
			b = append(b, c)
		} else {
			b = append(b, '%', digits[c>>4], digits[c&15])
		}
		if len(b) <= cutEscaped {
			keep = len(b)
		}
	}
	if len(b) > maxEscaped {
		return string(b[:keep]) + "~" + digest(name)[:16]
	}
	return string(b)
}

// plain reports whether a byte after the first in a name needs no escape.
func plain(c byte) bool {
	return c > ' ' && c < 0x7f && c != '/' && c != '%' && c != '\\' && c != ':' && c != '~'
}

func digest(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:])
}
