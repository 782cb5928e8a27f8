package names

import (
	"slices"
	"strings"
	"sync"
)

// Spellings returns how files of GGUF, or of Hugging Face, may spell a canonical name,
// in the order of the tables, those of one parameter alone last, and without wrappers. Both
// have {n} and {e} in the place of numbers, and the last part of a parameter:
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

// inverse has the first line of each canonical name.
var inverse = sync.OnceValue(func() map[string]*line {
	first := make(map[string]*line, 1000)
	list := spellingLines()
	for i := range slices.Backward(list) {
		l := &list[i]
		l.next, first[l.canonical] = first[l.canonical], l
	}
	return first
})
