package names

import (
	"strings"
	"sync"
)

// apart is the reason why a joined tensor does not hold its parts back to back, by architecture and
// module below the layer.
var apart = sync.OnceValue(func() map[[2]string]string {
	all := map[[2]string]string{}
	for line := range lines("joined") {
		kind, line := cut(line)
		arch, module := cut(line)
		switch kind {
		case "alternate":
			all[[2]string{arch, module}] = inTurns
		case "transpose":
			all[[2]string{arch, module}] = transposed
		default:
			panic("names: joined.txt: " + kind)
		}
	}
	return all
})

// Turned reports whether a Hugging Face file of an architecture stores matrices as [in, out].
func Turned(arch string) bool {
	for of, why := range apart() {
		if of[0] == arch && why == transposed {
			return true
		}
	}
	return false
}

// Why a joined tensor does not hold the rows of its parts back to back.
const (
	inTurns    = "the model interleaves the rows of its parts"
	transposed = "the model stores it transposed, so its parts are columns, not rows"
	ambiguous  = "its shape does not tell whether its parts are rows or columns"
)

// inLayer splits the canonical name of a layer's tensor: "attention.q" and
// ".weight" of "layers.0.attention.q.weight".
func inLayer(name string) (stem, param string, ok bool) {
	rest, ok := strings.CutPrefix(name, "layers.")
	if !ok {
		return "", "", false
	}
	_, rest, _ = strings.Cut(rest, ".")
	dot := max(strings.LastIndexByte(rest, '.'), 0)
	return rest[:dot], rest[dot:], true
}

// Apart returns why the joined tensor of that canonical name does not hold the rows of its
// parts back to back in a Hugging Face file of an architecture; "" if it does. shape is the
// shape of its numbers, dim the width of the model's hidden state, 0 if it is unknown.
//
// Stacks of experts are stored in both orders, [E, 2F, dim] and [E, dim, 2F], by
// different releases of the same program: for these the shape decides.
func Apart(arch, name string, shape []int64, dim int64) string {
	stem, param, ok := inLayer(name)
	if !ok {
		return ""
	}
	if why := apart()[[2]string{arch, stem}]; why != "" && (why != transposed || param == ".weight") {
		return why
	}
	if stem != "ffn.experts.gate_up" || param != ".weight" || len(shape) != 3 || dim == 0 {
		return ""
	}
	switch rows, cols := shape[1] == dim, shape[2] == dim; {
	case cols && !rows:
		return ""
	case rows && !cols:
		return transposed
	}
	return ambiguous
}
