package names

import (
	"strings"
	"sync"
)

// Fusion names tensors whose rows can stand one after the other as one tensor.
// All names are canonical and have {n} and {e} in the place of numbers, which
// are the same in every part.
type Fusion struct {
	Out       string
	Parts     []string // in row order
	Stacked   bool     // parts are [experts, rows, cols]: for each expert the rows of every part
	InsteadOf string   // only where this one, with the same numbers, cannot be had; "" for always
}

// Fusions returns the table of fused groups; those with InsteadOf come behind
// the one they stand in for. The caller must not change it.
func Fusions() []Fusion { return fusions() }

var fusions = sync.OnceValue(func() []Fusion {
	var fs []Fusion
	for line := range lines("fusions") {
		w := strings.Fields(line)
		f := Fusion{Out: w[0]}
		for i := 2; i < len(w); i++ { // w[1] is "="
			switch w[i] {
			case "stacked":
				f.Stacked = true
			case "instead-of":
				i++
				f.InsteadOf = w[i]
			default:
				f.Parts = append(f.Parts, w[i])
			}
		}
		if strings.HasSuffix(f.Out, "{s}") {
			fs = append(fs, f.of("weight"), f.of("bias"))
		} else {
			fs = append(fs, f)
		}
	}
	return fs
})

// of returns the fusion with {s} replaced.
func (f Fusion) of(param string) Fusion {
	f.Out = strings.TrimSuffix(f.Out, "{s}") + param
	parts := make([]string, len(f.Parts))
	for i, p := range f.Parts {
		parts[i] = strings.TrimSuffix(p, "{s}") + param
	}
	f.Parts = parts
	return f
}
