package architectures

import (
	_ "embed"
	"slices"
	"strings"
	"sync"
)

//go:embed names.txt
var namesText string

// named are the rows of names.txt, and the names that the descriptions have beside them.
type named struct {
	class, modelType map[string]string
	heads            map[[2]string]bool // by architecture and module
	whole            map[string]bool
}

var allNamed = sync.OnceValue(func() *named {
	n := &named{map[string]string{}, map[string]string{}, map[[2]string]bool{}, map[string]bool{}}
	for line := range strings.Lines(namesText) {
		line, _, _ = strings.Cut(line, "#")
		f := strings.Fields(line)
		switch {
		case len(f) == 0:
		case len(f) == 3 && f[0] == "class":
			n.class[f[1]] = f[2]
		case len(f) == 3 && f[0] == "type":
			n.modelType[f[1]] = strings.TrimSuffix(f[2], "-")
		case len(f) == 3 && f[0] == "heads":
			n.heads[[2]string{f[1], f[2]}] = true
		case len(f) == 2 && f[0] == "whole":
			n.whole[f[1]] = true
		default:
			panic("architectures: names.txt: " + line)
		}
	}
	add := func(all map[string]string, key, name string) {
		if _, known := all[key]; !known && key != "" {
			all[key] = name
		}
	}
	for _, conditional := range []bool{false, true} { // of two blocks of a class, the one without a condition counts
		for _, h := range heads() {
			for _, c := range h.classes {
				if (h.where != "") == conditional {
					add(n.class, c.Name, h.gguf)
					add(n.modelType, c.ModelType, h.gguf)
				}
			}
		}
	}
	return n
})

// NameOf returns GGUF's name of an architecture by two fields of config.json: architectures[0],
// which is the more exact one, and model_type. Either may be empty. The name is empty if neither
// is known.
func NameOf(class, modelType string) string {
	if name, ok := allNamed().class[class]; ok {
		return name
	}
	return allNamed().modelType[modelType]
}

// IsWhole reports whether a class counts although a config.json names another class in text_config:
// the model's language model is not of that class.
func IsWhole(class string) bool { return allNamed().whole[class] }

// Reordered reports whether GGUF files of an architecture have the rows of the tensor with that
// canonical name in another order than Hugging Face files: a head's rotary pairs are rows 2i and
// 2i+1 there, and rows i and i+D/2 here.
func Reordered(gguf, canonical string) bool {
	rest, ok := strings.CutPrefix(canonical, "layers.")
	_, rest, inLayer := strings.Cut(rest, ".")
	module, isWeight := strings.CutSuffix(rest, ".weight")
	module, isBias := strings.CutSuffix(module, ".bias")
	if !ok || !inLayer || !isWeight && !isBias {
		return false
	}
	a := Find(gguf)
	return allNamed().heads[[2]string{gguf, module}] ||
		a != nil && slices.ContainsFunc(a.MovesOf(canonical), func(m Move) bool { return m.Effect() == Heads })
}
