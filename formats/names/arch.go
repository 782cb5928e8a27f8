package names

import "sync"

type archTable struct {
	class, modelType map[string]string
	permute          map[string]bool
}

var archs = sync.OnceValue(func() *archTable {
	t := &archTable{make(map[string]string, 256), make(map[string]string, 128), make(map[string]bool, 32)}
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
