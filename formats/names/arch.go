package names

import (
	"strings"
	"sync"
)

type archTable struct {
	class, modelType map[string]string
	apart            map[[2]string]string // by architecture and stem below the layer: why
	reordered        map[[2]string]bool   // by architecture and stem below the layer
}

var archs = sync.OnceValue(func() *archTable {
	t := &archTable{make(map[string]string, 256), make(map[string]string, 128), make(map[[2]string]string), make(map[[2]string]bool)}
	for line := range lines("architectures") {
		kind, line := cut(line)
		value, arch := cut(line)
		switch kind {
		case "class":
			t.class[value] = arch
		case "type":
			t.modelType[value] = arch
		case "alternate":
			t.apart[[2]string{value, arch}] = inTurns
		case "transpose":
			t.apart[[2]string{value, arch}] = transposed
		case "reorder":
			t.reordered[[2]string{value, arch}] = true
		default:
			panic("names: architectures.txt: " + kind)
		}
	}
	return t
})

// Arch returns GGUF's name of an architecture from two fields of config.json:
// architectures[0], the more exact of the two, and model_type. Either may be empty. The
// result is empty if neither is known.
func Arch(architecture, modelType string) string {
	if a, ok := archs().class[architecture]; ok {
		return a
	}
	return archs().modelType[modelType]
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

// Reordered reports whether GGUF files of an architecture have the rows of the
// tensor of that canonical name in another order than Hugging Face files: a head's
// rotary pairs are rows 2i and 2i+1 there, and rows i and i+D/2 here.
func Reordered(arch, name string) bool {
	stem, param, ok := inLayer(name)
	return ok && (param == ".weight" || param == ".bias") && archs().reordered[[2]string{arch, stem}]
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
	if why := archs().apart[[2]string{arch, stem}]; why != "" && (why != transposed || param == ".weight") {
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
