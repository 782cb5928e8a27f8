package tokenizer

import (
	"fmt"
	"hash/maphash"
	"strconv"
	"strings"

	"github.com/tensorfs/tensorfs"
)

// Types of tokens, as llama.cpp numbers them.
const (
	unset int32 = iota // an id that no token has
	normal
	unknown
	control
	userDefined
	unused
	byteToken
)

// padScore is the score of ids that no token has.
const padScore = -10000

// tokens is the table of tokens by id.
type tokens struct {
	texts   []string
	types   []int32
	scores  []float32 // nil for models without
	phantom bool      // fill ids as the converter does for WordPiece
}

// spare is how many ids that no token has are named in any case, and perToken how
// many more for each token. Embeddings are padded by some hundreds.
const (
	spare    = 1 << 16
	perToken = 8
)

// inProportion refuses an embedding of far more rows than there are tokens. Tables
// have as many, and a row that takes a byte in the file costs a hundred in them.
func inProportion(rows, known int) error {
	if rows > spare+perToken*known {
		return fmt.Errorf("the embedding has %d rows, and the tokenizer has %d tokens for them", rows, known)
	}
	return nil
}

// newTokens returns a table of n rows for so many tokens.
func newTokens(n, known int, scores bool) (tokens, error) {
	if err := inProportion(n, known); err != nil {
		return tokens{}, err
	}
	t := tokens{texts: make([]string, n), types: make([]int32, n)}
	if scores {
		t.scores = make([]float32, n)
	}
	return t, nil
}

// set sets a token; a score is ignored where the model has none.
func (t *tokens) set(id int, text string, kind int32, score float32) {
	t.texts[id], t.types[id] = text, kind
	if t.scores != nil {
		t.scores[id] = score
	}
}

// finish names the ids that no token has, and checks that no two tokens are
// equal: llama.cpp stops the whole process where they are.
func (t *tokens) finish() error {
	prefix := ""
	if t.phantom {
		prefix = space
	}
	pads := 0
	for _, kind := range t.types {
		if kind == unset {
			pads++
		}
	}
	if pads > 0 {
		var all []byte
		ends := make([]int, 0, pads)
		for id, kind := range t.types {
			if kind == unset {
				all = append(strconv.AppendInt(append(append(all, prefix...), "[PAD"...), int64(id), 10), ']')
				ends = append(ends, len(all))
			}
		}
		names, start, next := string(all), 0, 0
		for id, kind := range t.types {
			if kind == unset {
				t.set(id, names[start:ends[next]], unused, padScore)
				start = ends[next]
				next++
			}
		}
	}
	x := newIndex(t.texts)
	for id := range t.texts {
		if other, ok := x.add(int32(id)); !ok {
			return fmt.Errorf("the tokens %d and %d are both %s, and llama.cpp takes no two that are equal", other, id, tensorfs.Quote(t.texts[id]))
		}
	}
	return nil
}

// space is what stands for a space in the texts of SentencePiece's tokens.
const space = "\u2581"

// addedType returns the type of a token that was added to a vocabulary, and its
// text as llama.cpp looks for it: SentencePiece's sign for a space never stands in a
// text to be tokenized.
func addedType(text string, special bool) (int32, string) {
	if special || looksSpecial(text) {
		return control, text
	}
	return userDefined, strings.ReplaceAll(text, space, " ")
}

// looksSpecial reports whether a text is that of a control token, for files that
// do not say so: rules of the converter.
func looksSpecial(text string) bool {
	switch text {
	case "<pad>", "<mask>", "<2mass>", "[@BOS@]":
		return true
	}
	for _, around := range [][2]string{{"<|", "|>"}, {"<｜", "｜>"}, {"<unused", ">"}} {
		if strings.HasPrefix(text, around[0]) && strings.HasSuffix(text, around[1]) {
			return true
		}
	}
	return false
}

// index finds texts. It has a few bytes for each, unlike a map.
type index struct {
	texts []string
	slots []int32 // 1 + which of texts, open addressing
}

var seed = maphash.MakeSeed()

// newIndex returns an index for texts, none of which is in it.
func newIndex(texts []string) *index {
	size := 8
	for size < 2*len(texts) {
		size *= 2
	}
	return &index{texts, make([]int32, size)}
}

// find returns which of the texts is equal, or -1 and its place.
func (x *index) find(text string) (i int32, slot int) {
	mask := len(x.slots) - 1
	for slot = int(maphash.String(seed, text)) & mask; x.slots[slot] != 0; slot = (slot + 1) & mask {
		if i := x.slots[slot] - 1; x.texts[i] == text {
			return i, slot
		}
	}
	return -1, slot
}

// findBytes is find for bytes.
func (x *index) findBytes(text []byte) (i int32, slot int) {
	mask := len(x.slots) - 1
	for slot = int(maphash.Bytes(seed, text)) & mask; x.slots[slot] != 0; slot = (slot + 1) & mask {
		if i := x.slots[slot] - 1; x.texts[i] == string(text) {
			return i, slot
		}
	}
	return -1, slot
}

// add adds one of the texts, unless one that is equal is there: that is returned.
func (x *index) add(i int32) (int32, bool) {
	other, slot := x.find(x.texts[i])
	if other >= 0 {
		return other, false
	}
	x.slots[slot] = i + 1
	return i, true
}
