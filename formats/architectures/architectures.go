package architectures

import (
	_ "embed"
	"slices"
	"sync"
)

//go:embed architectures.txt
var architecturesText string

// Architecture is what the text says of an architecture.
type Architecture struct {
	Name  string
	words map[string][]Item
}

// Items are the items of a word, with those of the architecture that it is like.
func (a *Architecture) Items(word string) []Item { return a.words[word] }

// All returns the architectures in the order of the text: its blocks but for those that
// are there for others to be like, and those of an architecture that has another.
var All = sync.OnceValue(func() []*Architecture {
	all := must(readArchitectures("architectures.txt", architecturesText))
	return slices.DeleteFunc(all, func(a *Architecture) bool { return a.words["class"] == nil || a.words["gguf"] != nil })
})

// must returns what was read of the program's own text, in which a mistake is one of
// the program.
func must[T any](v T, err error) T {
	if err != nil {
		panic("architectures: " + err.Error())
	}
	return v
}

// Find returns the architecture of a name, GGUF's, or nil.
func Find(name string) *Architecture {
	all := All()
	if i := slices.IndexFunc(all, func(a *Architecture) bool { return a.Name == name }); i >= 0 {
		return all[i]
	}
	return nil
}

func readArchitectures(file, text string) (all []*Architecture, err error) {
	blocks, err := readBlocks(file, text)
	if err != nil {
		return nil, err
	}
	for _, b := range blocks {
		a := &Architecture{b.name, b.words}
		for word, items := range b.words {
			for i, x := range items {
				if x.Name != "" && slices.ContainsFunc(items[:i], func(y Item) bool { return x.Name == y.Name && x.When.String() == y.When.String() }) {
					return nil, mistake(file, x.Line, "%s has %s twice", word, x.Name)
				}
			}
		}
		all = append(all, a)
	}
	return all, nil
}
