package names

import (
	"slices"
	"strings"
	"sync"
)

// Spellings returns how files of GGUF, or of Hugging Face, may spell a canonical name: in
// the order of the tables, spellings of a single parameter last, without wrappers. Both
// have {n} and {e} for numbers, and the last part of a parameter:
// "layers.{n}.attention.q.weight".
func Spellings(layout Layout, canonical string) (list []string) {
	end := param([]byte(canonical))
	for _, pattern := range []string{strings.TrimSuffix(canonical, end) + "{s}", canonical} {
		for l := inverse()[pattern]; l != nil && (end != "" || pattern == canonical); l = l.next {
			if l.gguf == (layout == GGUF) {
				list = append(list, strings.Replace(l.spelling, "{s}", end, 1))
			}
		}
	}
	return list
}

// named is an entry in the list of lines for one canonical name.
type named struct {
	line
	next *named
}

// inverse has the first line of each canonical name. The lines are copied: spellings are
// read while names are looked up.
var inverse = sync.OnceValue(func() map[string]*named {
	first := make(map[string]*named, 1000)
	list := spellingLines()
	all := make([]named, len(list))
	for i, line := range slices.Backward(list) {
		all[i] = named{line, first[line.canonical]}
		first[line.canonical] = &all[i]
	}
	return first
})
