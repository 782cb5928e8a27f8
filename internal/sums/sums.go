package sums

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
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
	OK     bool // false if the line does not belong to a list
}

// Lines are the lines of a list but for comments and empty ones. With the last comes an
// error where the list ends early: of its reader, or a line longer than MaxLine.
func Lines(r io.Reader) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		lines, number := bufio.NewScanner(r), 0
		lines.Buffer(make([]byte, 4096), MaxLine)
		for lines.Scan() {
			number++
			b := bytes.TrimSuffix(lines.Bytes(), []byte("\r"))
			if len(b) == 0 || b[0] == '#' {
				continue
			}
			line := Line{Number: number}
			line.Name, line.Sum, line.OK = parse(string(b))
			if !yield(line, nil) {
				return
			}
		}
		err := lines.Err()
		if errors.Is(err, bufio.ErrTooLong) {
			err = fmt.Errorf("line %d is longer than %d bytes: it is not a list of sha256sum", number+1, MaxLine)
		}
		if err != nil {
			yield(Line{}, err)
		}
	}
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
		if strings.Contains(quotes.Replace(name), `\`) {
			return "", sum, false
		}
		name = unquoted.Replace(name)
	}
	if len(digits) != hex.EncodedLen(len(sum)) || name == "" {
		return "", sum, false
	}
	_, err := hex.Decode(sum[:], []byte(digits))
	return name, sum, err == nil
}

// Of a quoted name, unquoted puts back what escaped replaced, and quotes finds all of it.
var (
	unquoted = strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\r`, "\r")
	quotes   = strings.NewReplacer(`\\`, "", `\n`, "", `\r`, "")
)
