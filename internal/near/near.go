// Package near finds the names that a mistyped name may mean, lists names in messages, and
// orders them for people.
//
// The names may come from any source: a directory of 100,000 files costs a fraction of a
// second, and a message stays one line of bounded length.
package near

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
)

// maxName is the longest name that is compared: no file's is longer.
const maxName = 255

// Names returns the names of have that are near want, the nearest first and at most
// max: names that differ from it in few letters (two letters that changed places
// are one difference), then names that begin with it, then names that contain it,
// if it has three letters or more. Upper and lower case are the same here. The
// order of have makes no difference.
func Names(want string, have []string, max int) []string {
	if want == "" || len(want) > maxName || max <= 0 {
		return nil
	}
	a := lower(nil, want)
	limit := min(len(a)-1, 1+len(a)/6, 4) // one letter is as near to any other
	type found struct {
		name  string
		score int
	}
	order := func(x, y found) int {
		if x.score != y.score {
			return x.score - y.score
		}
		if len(x.name) != len(y.name) {
			return len(x.name) - len(y.name)
		}
		return strings.Compare(x.name, y.name)
	}
	var best []found
	var b []byte
	var d differences
	for _, name := range have {
		if len(name) > maxName {
			continue
		}
		b = lower(b[:0], name)
		x := found{name, d.count(a, b, limit)}
		if x.score > limit {
			switch at := bytes.Index(b, a); {
			case at == 0 && len(a) > 1:
			case at > 0 && len(a) > 2:
				x.score++
			default:
				continue
			}
		}
		i, same := slices.BinarySearchFunc(best, x, order)
		if i == max || same {
			continue
		}
		if len(best) == max {
			best = best[:max-1]
		}
		best = slices.Insert(best, i, x)
	}
	var out []string
	for _, x := range best {
		out = append(out, x.name)
	}
	return out
}

// lower appends s in lower case, as far as ASCII goes.
func lower(dst []byte, s string) []byte {
	for i := range len(s) {
		c := s[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		dst = append(dst, c)
	}
	return dst
}

// differences counts them, in memory that it keeps: three rows of the usual table.
// before[j] are the differences between a[:i-2] and b[:j], last[j] between a[:i-1] and
// b[:j].
type differences struct{ before, last, this [maxName + 1]int }

// count returns how many letters must be inserted, removed, replaced or swapped
// with the next to make b of a; limit+1 where these are more than limit.
func (d *differences) count(a, b []byte, limit int) int {
	if len(a)-len(b) > limit || len(b)-len(a) > limit {
		return limit + 1
	}
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	before, last, this := d.before[:len(b)+1], d.last[:len(b)+1], d.this[:len(b)+1]
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		// Only here can the differences be limit or fewer.
		from, to := max(i-limit, 1), min(i+limit, len(b))
		least := limit + 1
		this[from-1] = limit + 1
		if from == 1 {
			this[0] = i
			least = i
		}
		for j := from; j <= to; j++ {
			n := last[j-1]
			if a[i-1] != b[j-1] {
				n++
			}
			n = min(n, this[j-1]+1)
			if j < i+limit {
				n = min(n, last[j]+1)
			}
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				n = min(n, before[j-2]+1)
			}
			this[j] = n
			least = min(least, n)
		}
		if least > limit {
			return limit + 1
		}
		before, last, this = last, this, before
	}
	return min(last[len(b)], limit+1)
}

// maxList is where List stops: a message is a line.
const maxList = 300

// List joins names for a message, each printable: "a, b, c". What is too much for
// a line is counted: "a, b and 12 more".
func List(names []string) string { return joinNames(names, ", ") }

// Either joins names for a message as List does, with "or" before the last: "a, b or c".
func Either(names []string) string { return joinNames(names, " or ") }

// All joins names for a message as List does, with "and" before the last: "a, b and c".
func All(names []string) string { return joinNames(names, " and ") }

// Question asks whether one of the names was meant: "did you mean a, b or c?". It
// is "" without names.
func Question(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "did you mean " + joinNames(names, " or ") + "?"
}

// joinNames joins names, with something else before the last.
func joinNames(names []string, last string) string {
	var b strings.Builder
	for i, name := range names {
		name = tensorfs.Printable(name)
		switch {
		case i == 0:
		case b.Len()+len(name) > maxList:
			fmt.Fprintf(&b, " and %d more", len(names)-i)
			return b.String()
		case i == len(names)-1:
			b.WriteString(last)
		default:
			b.WriteString(", ")
		}
		b.WriteString(name)
	}
	return b.String()
}
