package sums

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Sum is a SHA-256.
type Sum [sha256.Size]byte

// String returns the 64 digits.
func (s Sum) String() string { return hex.EncodeToString(s[:]) }

// escaped are the characters that would break a line, as sha256sum writes them.
var escaped = strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`)

// Append appends a line of a list.
func Append(dst []byte, sum Sum, name string) []byte {
	shown := escaped.Replace(name)
	if shown != name {
		dst = append(dst, '\\')
	}
	dst = append(hex.AppendEncode(dst, sum[:]), "  "...)
	return append(append(dst, shown...), '\n')
}

// MaxLine bounds a line of a list. Linux has no path as long, however it is
// escaped.
const MaxLine = 1 << 14

// Line is a line of a list.
type Line struct {
	Number int // from 1 on
	Name   string
	Sum    Sum
	OK     bool // false for a line that is none of a list
}

// Scanner reads a list. Comments and empty lines are passed over.
type Scanner struct {
	lines  *bufio.Scanner
	number int
	line   Line
}

// NewScanner returns a Scanner of r.
func NewScanner(r io.Reader) *Scanner {
	s := &Scanner{lines: bufio.NewScanner(r)}
	s.lines.Buffer(make([]byte, 4096), MaxLine)
	return s
}

// Scan goes to the next line and reports whether there is one.
func (s *Scanner) Scan() bool {
	for s.lines.Scan() {
		s.number++
		b := bytes.TrimSuffix(s.lines.Bytes(), []byte("\r"))
		if len(b) == 0 || b[0] == '#' {
			continue
		}
		s.line = Line{Number: s.number}
		s.line.Name, s.line.Sum, s.line.OK = parse(string(b))
		return true
	}
	return false
}

// Line returns the line that Scan went to.
func (s *Scanner) Line() Line { return s.line }

// Err returns the error that ended the list early: of its reader, or a line longer
// than MaxLine.
func (s *Scanner) Err() error {
	err := s.lines.Err()
	if errors.Is(err, bufio.ErrTooLong) {
		return fmt.Errorf("line %d is longer than %d bytes: it is not a list of sha256sum", s.number+1, MaxLine)
	}
	return err
}

// parse takes a line apart.
func parse(line string) (name string, sum Sum, ok bool) {
	line, quoted := strings.CutPrefix(strings.TrimLeft(line, " \t"), `\`)
	var digits string
	if tagged, is := strings.CutPrefix(line, "SHA256 ("); is {
		end := strings.LastIndex(tagged, ") = ")
		if end < 0 {
			return "", sum, false
		}
		name, digits = tagged[:end], tagged[end+len(") = "):]
	} else {
		if digits, name, ok = strings.Cut(line, " "); !ok {
			return "", sum, false
		}
		if name != "" && (name[0] == ' ' || name[0] == '*') {
			name = name[1:]
		}
	}
	if quoted {
		if name, ok = unescape(name); !ok {
			return "", sum, false
		}
	}
	if len(digits) != hex.EncodedLen(len(sum)) || name == "" {
		return "", sum, false
	}
	_, err := hex.Decode(sum[:], []byte(digits))
	return name, sum, err == nil
}

// unescape is the way back from escaped. It is false for a backslash before
// anything else.
func unescape(name string) (string, bool) {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(name, `\`)
		b.WriteString(before)
		if !found {
			return b.String(), true
		}
		if after == "" {
			return "", false
		}
		i := strings.IndexByte(`\nr`, after[0])
		if i < 0 {
			return "", false
		}
		b.WriteByte("\\\n\r"[i])
		name = after[1:]
	}
}
