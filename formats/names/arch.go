package names

import (
	"strings"
	"sync"
)

type archTable struct {
	class, modelType map[string]string
	permute          map[string]bool
	alternate        map[[2]string]bool // architecture and stem below the layer
}

var archs = sync.OnceValue(func() *archTable {
	t := &archTable{make(map[string]string, 256), make(map[string]string, 128), make(map[string]bool, 32), make(map[[2]string]bool)}
	for line := range lines("architectures") {
		kind, line := cut(line)
		value, arch := cut(line)
		switch kind {
		case "class":
			t.class[value] = arch
		case "type":
			t.modelType[value] = arch
		case "permute":
			t.permute[value] = true
		case "alternate":
			t.alternate[[2]string{value, arch}] = true
		default:
			panic("names: architectures.txt: " + kind)
		}
	}
	return t
})

// Arch returns GGUF's name of an architecture from what a config.json says:
// architectures[0], the more exact of the two, and model_type. Either may be
// empty. The result is empty where neither is known.
func Arch(architecture, modelType string) string {
	if a, ok := archs().class[architecture]; ok {
		return a
	}
	return archs().modelType[modelType]
}

// PermutesQK reports whether GGUF files of an architecture hold the rows of
// attention.q and attention.k in another order than Hugging Face files do:
// within a head of D rows, row j*2+s of GGUF is row s*D/2+j of Hugging Face.
func PermutesQK(arch string) bool { return archs().permute[arch] }

// Alternates reports whether a Hugging Face file of an architecture holds the
// tensor of that canonical name, which is several in one, with the rows of its
// parts in turns: the first rows of q, k and v, the next rows of q, k and v.
func Alternates(arch, name string) bool {
	rest, ok := strings.CutPrefix(name, "layers.")
	if !ok {
		return false
	}
	_, rest, _ = strings.Cut(rest, ".")
	stem := rest[:max(strings.LastIndexByte(rest, '.'), 0)]
	return archs().alternate[[2]string{arch, stem}]
}
