package architectures

import (
	"fmt"
	"slices"
	"strings"
)

// Item is one thing that a word of an architecture has.
type Item struct {
	Name string // the letters, digits, "_" and "." at the start of the text
	Text string // all of it
	When *Expr  // the condition under which the item holds; nil means always
	Line int    // in architectures.txt
}

// block is an architecture as it is written.
type block struct {
	name, like string
	line       int
	words      map[string][]Item
}

// mistake is an error at a line of a table.
func mistake(file string, line int, format string, args ...any) error {
	return fmt.Errorf("%s:%d: %s", file, line, fmt.Sprintf(format, args...))
}

// knownWords are the words of a block.
var knownWords = strings.Fields(`
	makes prefix again mlx bare first layer last next dropped varies sizes implied
	class writes whole gguf when where tokenizer traits answers only known refuse rope keys needs vocab config heads yarn period ends check agree hf_agree mlx_agree
	tower rows types beside joined text tokens marked within also spelled numbers`)

// ownWords are not taken over from the block that a block is like.
var ownWords = []string{"class", "writes", "gguf", "when", "where", "traits", "yarn", "period", "answers", "bare", "beside", "joined", "text", "tokens", "marked"}

// tensorWords are those about tensors.
var tensorWords = []string{"prefix", "again", "mlx", "bare", "first", "layer", "last", "next", "dropped", "varies", "sizes", "implied"}

// readBlocks reads the architectures of a text, in order. A block that is like another
// starts with the other's lines.
func readBlocks(file, text string) ([]*block, error) {
	var blocks []*block
	var word string // whose items go on
	var depth int   // how far its line is indented
	var when *Expr  // the condition that its items have
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, " \r\n")
		if at := strings.IndexByte(line, '#'); at >= 0 {
			line = strings.TrimRight(line[:at], " ")
		}
		rest := strings.TrimLeft(line, " ")
		indent := len(line) - len(rest)
		switch {
		case strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r > '~' }):
			return nil, mistake(file, n, "only printable ASCII is allowed")
		case rest == "":
			continue
		case indent == 0:
			b, err := newBlock(file, n, rest)
			if err != nil {
				return nil, err
			}
			if slices.ContainsFunc(blocks, func(other *block) bool { return other.name == b.name }) {
				return nil, mistake(file, n, "%s is there twice", b.name)
			}
			blocks, word, depth = append(blocks, b), "", 0
			continue
		case len(blocks) == 0:
			return nil, mistake(file, n, "a line before the first architecture")
		}
		b := blocks[len(blocks)-1]
		if word == "" || indent <= depth {
			if word, rest, _ = strings.Cut(rest, " "); !slices.Contains(knownWords, word) {
				return nil, mistake(file, n, "unknown word %q", word)
			}
			depth, when = indent, nil
		}
		var items []Item
		var err error
		if items, when, err = readItems(file, n, rest, when); err != nil {
			return nil, err
		}
		b.words[word] = append(b.words[word], items...)
	}
	for _, b := range blocks {
		if err := b.ofAnother(file); err != nil {
			return nil, err
		}
		if err := b.inherit(file, blocks); err != nil {
			return nil, err
		}
	}
	return blocks, nil
}

// newBlock reads the first line of a block.
func newBlock(file string, n int, line string) (*block, error) {
	f := strings.Fields(line)
	switch {
	case len(f) == 2 && f[0] == "arch":
		return &block{name: f[1], line: n, words: map[string][]Item{}}, nil
	case len(f) == 4 && f[0] == "arch" && f[2] == "like":
		return &block{name: f[1], like: f[3], line: n, words: map[string][]Item{}}, nil
	}
	return nil, mistake(file, n, "%q is not \"arch NAME\" or \"arch NAME like OTHER\"", line)
}

// readItems reads the items of a line, which have a condition until another one is
// there, and returns the last one. Items are apart by spaces; parentheses keep theirs.
func readItems(file string, n int, text string, when *Expr) (items []Item, last *Expr, err error) {
	for {
		text = strings.TrimLeft(text, " ")
		if text == "" {
			return items, when, nil
		}
		if condition, ok := strings.CutPrefix(text, "["); ok {
			condition, rest, ok := strings.Cut(condition, "]")
			if !ok {
				return nil, nil, mistake(file, n, "a condition without its end")
			}
			when, text = nil, rest
			if condition != "" {
				if when, err = ParseExpr(condition); err != nil {
					return nil, nil, mistake(file, n, "%s", err)
				}
			}
			continue
		}
		item, rest, ok := cutItem(text)
		if !ok {
			return nil, nil, mistake(file, n, "parentheses do not match")
		}
		items = append(items, Item{nameOf(item), item, when, n})
		text = rest
	}
}

// cutItem returns the first item of a line, and the rest of the line.
func cutItem(text string) (item, rest string, ok bool) {
	end, depth := 0, 0
	for ; end < len(text) && (depth > 0 || text[end] != ' '); end++ {
		switch text[end] {
		case '(':
			depth++
		case ')':
			depth--
		}
	}
	return text[:end], text[end:], depth == 0
}

func isNameByte(c byte) bool {
	return c == '_' || c == '.' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

func nameOf(text string) string {
	i := 0
	for i < len(text) && isNameByte(text[i]) {
		i++
	}
	return text[:i]
}

// ofAnother refuses tensors in a block that shares another block's architecture: they are
// looked up by GGUF's name, so they would never be read.
func (b *block) ofAnother(file string) error {
	if b.words["gguf"] == nil {
		return nil
	}
	for _, word := range tensorWords {
		if _, ok := b.words[word]; ok {
			return mistake(file, b.line, "%s: %s is not allowed here, because block %s already describes the tensors", b.name, word, b.words["gguf"][0].Text)
		}
	}
	return nil
}

// inherit gives a block the lines of the one that it is like, which is before it.
func (b *block) inherit(file string, blocks []*block) error {
	if b.like == "" {
		for _, items := range b.words {
			for _, x := range items {
				if isChange(x) {
					return mistake(file, x.Line, "%s changes an architecture, and %s is like none", x.Text, b.name)
				}
			}
		}
		return nil
	}
	i := slices.IndexFunc(blocks, func(other *block) bool { return other.name == b.like })
	if i < 0 || blocks[i].line >= b.line {
		return mistake(file, b.line, "%s is like %s, which is not before it", b.name, b.like)
	}
	words := map[string][]Item{}
	for word, items := range blocks[i].words {
		if !slices.Contains(ownWords, word) {
			words[word] = items
		}
	}
	for word, items := range b.words {
		changes := 0
		for _, x := range items {
			if isChange(x) {
				changes++
			}
		}
		var err error
		switch changes {
		case 0:
			words[word] = items
		case len(items):
			words[word], err = changed(file, words[word], items)
		default:
			first := items[0]
			err = mistake(file, first.Line, "%s mixes changes with other items", word)
		}
		if err != nil {
			return err
		}
	}
	b.words = words
	return nil
}

func isChange(x Item) bool {
	return len(x.Text) > 1 && strings.IndexByte("+-@", x.Text[0]) >= 0 && isNameByte(x.Text[1])
}

// changed makes the changes to a copy of a list of items. An item after "@NAME" stays
// after the items that were put there before it.
func changed(file string, list, changes []Item) ([]Item, error) {
	list = slices.Clone(list)
	place := -1 // where items are put, -1 for the end
	for _, c := range changes {
		text := c.Text[1:]
		named := func(x Item) bool {
			return x.Name == nameOf(text) && (x.When.String() == c.When.String() || c.Text[0] != '+')
		}
		at := slices.IndexFunc(list, named)
		if at < 0 && c.Text[0] != '+' {
			return nil, mistake(file, c.Line, "there is no %s to change", text)
		}
		switch c.Text[0] {
		case '-':
			list, place = slices.DeleteFunc(list, named), -1
		case '@':
			place = at + 1
			for place < len(list) && named(list[place]) {
				place++
			}
		case '+':
			item := Item{nameOf(text), text, c.When, c.Line}
			switch {
			case at >= 0:
				list[at] = item
			case place >= 0:
				list = slices.Insert(list, place, item)
				place++
			default:
				list = append(list, item)
			}
		}
	}
	return list, nil
}
