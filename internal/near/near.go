// Package near finds the names that somebody who mistyped one may have meant.
package near

import (
	"cmp"
	"slices"
	"strings"
)

// longest bounds the names that are compared letter by letter.
const longest = 256

// Names returns at most max names of have that are near want, the nearest first:
// those that differ in few letters, and those that contain it. The order of have makes no difference.
func Names(want string, have []string, max int) []string {
	type found struct {
		name     string
		distance int
	}
	var all []found
	limit := 1 + min(len(want), longest)/6
	for _, name := range have {
		if len(want) > longest || len(name) > longest {
			continue
		}
		n := distance(strings.ToLower(want), strings.ToLower(name), limit)
		if n > limit && len(want) > 2 && strings.Contains(strings.ToLower(name), strings.ToLower(want)) {
			n = limit
		}
		if n <= limit {
			all = append(all, found{name, n})
		}
	}
	slices.SortFunc(all, func(a, b found) int {
		return cmp.Or(a.distance-b.distance, len(a.name)-len(b.name), strings.Compare(a.name, b.name))
	})
	var names []string
	for _, f := range all[:min(len(all), max)] {
		names = append(names, f.name)
	}
	return names
}

// distance is how many letters have to be added, removed or replaced to make b of
// a; limit+1 for more than limit.
func distance(a, b string, limit int) int {
	if len(a)-len(b) > limit || len(b)-len(a) > limit {
		return limit + 1
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		corner := row[0]
		row[0] = i + 1
		least := row[0]
		for j := range len(b) {
			n := corner
			if a[i] != b[j] {
				n = 1 + min(corner, row[j], row[j+1])
			}
			corner, row[j+1] = row[j+1], n
			least = min(least, n)
		}
		if least > limit {
			return limit + 1
		}
	}
	return row[len(b)]
}
