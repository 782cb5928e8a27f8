package architectures

import (
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
)

// A program needs one or two blocks, and reading all of them takes milliseconds. So it
// reads the heads of all blocks, which say what they are of, and the rest of a block, with
// the blocks that it takes lines from, when it is asked for.

// Find returns the architecture of a name, GGUF's, or nil.
func Find(name string) *Architecture {
	if !slices.ContainsFunc(heads(), func(h head) bool { return h.name == name && h.gguf == name && h.classes != nil }) {
		return nil
	}
	return architectureBlocks.get([]string{name}, func(names []string) map[string]*Architecture {
		all := must(readArchitectures("architectures.txt", needed(names...), modules()))
		return map[string]*Architecture{name: all[len(all)-1]}
	})[0]
}

// Said reports whether one of the blocks of an architecture, by GGUF's name, has an item of a word
// of ownWords. It reads no whole block: every model asks.
func Said(gguf, word, item string) bool {
	for said := range itemsOf(gguf, word) {
		if said == item {
			return true
		}
	}
	return false
}

// itemsOf returns the items that the blocks of an architecture have of a word of ownWords.
func itemsOf(gguf, word string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, h := range heads() {
			if h.classes == nil || h.gguf != gguf {
				continue
			}
			for item := range ownItems(h.text, word) {
				if !yield(item) {
					return
				}
			}
		}
	}
}

// OfGGUF returns the settings of the blocks of an architecture, by GGUF's name.
func OfGGUF(name string) []*Settings {
	return settingsWhere(func(h head) bool { return h.gguf == name })
}

// OfClass returns the settings of the blocks that have a class that is true for is.
func OfClass(is func(Class) bool) []*Settings {
	return settingsWhere(func(h head) bool { return slices.ContainsFunc(h.classes, is) })
}

// FittingGGUF returns the description of a GGUF file by its architecture's name: the first whose
// condition holds, else the first without a condition, nil without either. If makes is not "",
// only descriptions count for which tensorfs makes gguf, hf or mlx.
func FittingGGUF(name, makes string, env *Env) *Settings {
	return fitting(func(h head) bool { return h.gguf == name }, func(h head) string { return h.when }, makes, env)
}

// FittingClass does the same for a config.json, by its class.
func FittingClass(is func(Class) bool, makes string, env *Env) *Settings {
	return fitting(func(h head) bool { return slices.ContainsFunc(h.classes, is) }, func(h head) string { return h.where }, makes, env)
}

func fitting(is func(head) bool, condition func(head) string, makes string, env *Env) (usual *Settings) {
	for _, h := range heads() {
		text := condition(h)
		if h.classes == nil || !is(h) || text == "" && usual != nil || text != "" && !must(ParseExpr(text)).HoldsIn(env) {
			continue
		}
		s := h.settings()
		switch {
		case makes != "" && !s.Makes(makes):
		case text != "":
			return s
		default:
			usual = s
		}
	}
	return usual
}

// Latent reports whether heads of an architecture, by GGUF's name, keep k and v
// compressed, in one vector that all of them share.
func Latent(gguf string) bool {
	return slices.ContainsFunc(OfGGUF(gguf), func(s *Settings) bool { return s.Word("heads") == "latent" })
}

func settingsWhere(is func(head) bool) []*Settings {
	var names []string
	for _, h := range heads() {
		if h.classes != nil && is(h) {
			names = append(names, h.name)
		}
	}
	return settingsBlocks.get(names, readNeeded)
}

// settings reads the block.
func (h head) settings() *Settings { return settingsBlocks.get([]string{h.name}, readNeeded)[0] }

// readNeeded reads blocks and the blocks that they take from, each once.
func readNeeded(names []string) map[string]*Settings {
	read := map[string]*Settings{}
	for _, s := range must(readSettings("architectures.txt", needed(names...))) {
		read[s.Name] = s
	}
	return read
}

// head is a block of the text with the words by which it is looked up.
type head struct {
	name, text  string
	gguf        string
	when, where string // conditions, "" without them
	classes     []Class
}

// heads are the heads of all blocks, in their order. Every command pays for them, so nothing else
// is read of the text.
var heads = sync.OnceValue(func() []head {
	const begin = "\narch "
	_, text, ok := strings.Cut(architecturesText, begin)
	list := make([]head, 0, strings.Count(text, begin)+1)
	for ok {
		var block string
		block, text, ok = strings.Cut(text, begin)
		name := nameOfBlock(block)
		h := head{name: name, text: "arch " + block + "\n", gguf: name}
		for item := range ownItems(block, "class") {
			h.classes = append(h.classes, classOf(item))
		}
		for item := range ownItems(block, "gguf") {
			h.gguf = item
		}
		h.when = strings.Join(slices.Collect(ownItems(block, "when")), " ")
		h.where = strings.Join(slices.Collect(ownItems(block, "where")), " ")
		list = append(list, h)
	}
	return list
})

// nameOfBlock returns the name at the start of a block, up to the first blank.
func nameOfBlock(block string) string { return block[:strings.IndexAny(block+"\n", " \n")] }

// ownItems returns the items that a block has for a word whose items have no conditions.
func ownItems(block, word string) iter.Seq[string] {
	return func(yield func(string) bool) {
		begin := "\n  " + word + " "
		for at := strings.Index(block, begin); at >= 0; at = strings.Index(block, begin) {
			block = block[at+len(begin):]
			line, rest, _ := strings.Cut(block, "\n")
			for {
				line, _, _ = strings.Cut(line, "#")
				for item := range strings.FieldsSeq(line) {
					if !yield(item) {
						return
					}
				}
				if !strings.HasPrefix(rest, "   ") { // otherwise the line goes on
					break
				}
				line, rest, _ = strings.Cut(rest, "\n")
			}
		}
	}
}

// needed is the text of blocks, each after the blocks that it is like or takes lists from.
func needed(names ...string) string {
	want := map[string]bool{}
	for _, name := range names {
		want[name] = true
	}
	var blocks []string
	for _, h := range slices.Backward(heads()) { // a block takes from the blocks before it
		if !want[h.name] {
			continue
		}
		blocks = append(blocks, h.text)
		first, _, _ := strings.Cut(h.text, "\n")
		if _, other, ok := strings.Cut(first, " like "); ok {
			want[other] = true
		}
		for _, after := range strings.Split(h.text, "like(")[1:] {
			other, _, _ := strings.Cut(after, ")")
			want[other] = true
		}
	}
	slices.Reverse(blocks)
	return strings.Join(blocks, "")
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

// get returns blocks by their names. It reads the blocks that are not there yet together.
func (k *kept[T]) get(names []string, read func(names []string) map[string]T) []T {
	k.mu.Lock()
	defer k.mu.Unlock()
	missing := slices.DeleteFunc(slices.Clone(names), func(name string) bool { _, ok := k.blocks[name]; return ok })
	if len(missing) > 0 {
		all := read(missing)
		maps.Copy(all, k.blocks) // whose blocks have users
		k.blocks = all
	}
	list := make([]T, len(names))
	for i, name := range names {
		list[i] = k.blocks[name]
	}
	return list
}
