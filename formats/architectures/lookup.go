package architectures

import (
	"slices"
	"strings"
	"sync"
)

// A program needs one or two blocks, and reading all of them takes milliseconds. So it
// reads the heads of all blocks, which say what they are of, and the rest of a block, with
// the blocks that it takes lines from, when it is asked for.

// Find returns the architecture of a name, GGUF's, or nil.
func Find(name string) *Architecture {
	if !slices.ContainsFunc(sections(), func(s section) bool { return s.name == name && s.has("class") && !s.has("gguf") }) {
		return nil
	}
	return architectureBlocks.get(name, func() *Architecture {
		all := must(readArchitectures("architectures.txt", needed(name), modules()))
		return all[len(all)-1]
	})
}

// OfGGUF returns the settings of the blocks of an architecture, by GGUF's name.
func OfGGUF(name string) []*Settings {
	return settingsWhere(func(s *Settings) bool { return s.GGUF == name })
}

// OfClass returns the settings of the blocks that have a class that is true for is.
func OfClass(is func(Class) bool) []*Settings {
	return settingsWhere(func(s *Settings) bool { return slices.ContainsFunc(s.Classes, is) })
}

// Latent reports whether heads of an architecture, by GGUF's name, keep k and v
// compressed, in one vector that all of them share.
func Latent(gguf string) bool {
	return slices.ContainsFunc(OfGGUF(gguf), func(s *Settings) bool { return s.Word("heads") == "latent" })
}

func settingsWhere(is func(*Settings) bool) (list []*Settings) {
	for _, head := range heads() {
		if is(head) {
			list = append(list, settingsBlocks.get(head.Name, func() *Settings {
				all := must(readSettings("architectures.txt", needed(head.Name)))
				return all[len(all)-1]
			}))
		}
	}
	return list
}

// heads are the settings of all blocks that have a class, read no further than the words
// that no block takes from another.
var heads = sync.OnceValue(func() []*Settings {
	var b strings.Builder
	for _, s := range sections() {
		b.WriteString("arch " + s.name + "\n")
		own := false
		for line := range strings.Lines(s.text) {
			if word, _, _ := strings.Cut(strings.TrimPrefix(line, "  "), " "); word != "" { // otherwise the line goes on
				own = slices.Contains(ownWords, word)
			}
			if own {
				b.WriteString(line)
			}
		}
	}
	return must(readSettings("architectures.txt", b.String()))
})

// section is a block of the text, with the number of lines before it.
type section struct {
	name, text string
	before     int
}

// has reports whether a block has a line that begins with a word.
func (s section) has(word string) bool { return strings.Contains(s.text, "\n  "+word+" ") }

var sections = sync.OnceValue(func() (list []section) {
	const begin = "\narch "
	before, text, ok := strings.Cut(architecturesText, begin)
	for line := strings.Count(before, "\n") + 1; ok; {
		before, text, ok = strings.Cut(text, begin)
		name, _, _ := strings.Cut(before, "\n")
		name, _, _ = strings.Cut(name, " ")
		list = append(list, section{name, "arch " + before + "\n", line})
		line += strings.Count(before, "\n") + 1
	}
	return list
})

// needed is the text up to a block, with empty lines instead of the blocks that it is
// not like and takes no lists from.
func needed(name string) string {
	want := map[string]bool{name: true}
	var blocks []section
	for _, s := range slices.Backward(sections()) { // a block takes from those before it
		if !want[s.name] {
			continue
		}
		blocks = append(blocks, s)
		head, _, _ := strings.Cut(s.text, "\n")
		if _, other, ok := strings.Cut(head, " like "); ok {
			want[other] = true
		}
		for _, after := range strings.Split(s.text, "like(")[1:] {
			other, _, _ := strings.Cut(after, ")")
			want[other] = true
		}
	}
	text, lines := "", 0
	for _, s := range slices.Backward(blocks) {
		text += strings.Repeat("\n", s.before-lines) + s.text
		lines = s.before + strings.Count(s.text, "\n")
	}
	return text
}

// kept are blocks that were read.
type kept[T any] struct {
	mu     sync.Mutex
	blocks map[string]T
}

var (
	architectureBlocks kept[*Architecture]
	settingsBlocks     kept[*Settings]
)

func (k *kept[T]) get(name string, read func() T) T {
	k.mu.Lock()
	defer k.mu.Unlock()
	b, ok := k.blocks[name]
	if !ok {
		if k.blocks == nil {
			k.blocks = map[string]T{}
		}
		b = read()
		k.blocks[name] = b
	}
	return b
}
