package names

import (
	"strings"
	"sync"
)

// Spellings returns how files of GGUF, or of Hugging Face, may spell a canonical name,
// in the order of the tables and without wrappers. Both have {n} and {e} in the place of
// numbers, and the last part of a parameter: "layers.{n}.attention.q.weight".
func Spellings(layout Layout, canonical string) []string {
	return inverse()[layout == GGUF][canonical]
}

// inverse is what the tables say, by canonical names; true is GGUF's.
var inverse = sync.OnceValue(func() map[bool]map[string][]string {
	of := map[bool]map[string][]string{true: {}, false: {}}
	for _, table := range spellingFiles {
		for line := range lines(table) {
			ecosystem, line := cut(line)
			spelling, line := cut(line)
			canonical, _ := cut(line)
			list := of[ecosystem == "gguf"]
			for _, param := range []string{"weight", "bias"} {
				name := strings.Replace(canonical, "{s}", param, 1)
				list[name] = append(list[name], strings.Replace(spelling, "{s}", param, 1))
				if name == canonical {
					break
				}
			}
		}
	}
	return of
})
