package tokenizer

import (
	"hash/maphash"
	"strings"

	"github.com/tensorfs/tensorfs"
)

// Vocabulary is a tokenizer, whatever it was read from: what the files of a
// Hugging Face directory and the metadata of a GGUF file say in their own ways.
// [ReadFiles] and [ReadKeys] make one; Keys and Files say it in the two ways.
type Vocabulary struct {
	Model   string         // as GGUF calls it: one of BytesModel and the following ones, or none
	Pre     string         // llama.cpp's name for how texts are cut into words
	Tokens  []string       // by id, as Hugging Face spells them
	Own     int            // how many of the tokens of a tokenizer.json are its model's, not added ones; 0 without the file
	Types   []int32        // by id
	Scores  []float32      // by id; nil if the model has no scores
	Merges  []Merge        // in order of priority; nil if the model has no merges
	Special map[string]int // ids by what the tokens are for: bos, eos, ...; -1 for a token that does not exist
	Flags   map[string]bool
	// Segments is how many kinds of text the model tells apart, 0 where nothing is
	// said of that.
	Segments  int
	Charsmap  []byte // SentencePiece's table of characters
	Templates []Template
	// Notes say in what llama.cpp differs from the files of Hugging Face.
	Notes []string

	spacesAfter bool   // special tokens take the spaces after them with them
	context     int64  // the length of the model's
	index       *index // of Tokens; nil until they are known to be distinct
}

// Merge is two tokens that become one.
type Merge struct{ Left, Right string }

// Template is a chat template. The name of the usual one is "default".
type Template struct{ Name, Text string }

// Models of tokenizers as GGUF calls them; doc.go has their forms.
const (
	BytesModel  = "gpt2"
	charsModel  = "llama"
	textModel   = "gemma4"
	wordsModel  = "bert"
	piecesModel = "t5"
	linesModel  = "plamo2"
	worldModel  = "rwkv"
)

// noModel is the model of a vocabulary without tokens, of a model that has no
// tokenizer.
const noModel = "none"

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

// spare is how many ids that no token has are named in any case, and perToken how
// many more for each token. Embeddings are padded by some hundreds.
const (
	spare    = 1 << 16
	perToken = 8
)

// inProportion refuses an embedding of far more rows than there are tokens. Tables
// have as many, and a row that takes a byte in the file costs a hundred in them.
func (f *failure) inProportion(rows, known int) {
	if rows > spare+perToken*known {
		f.fail("the embedding has %d rows, and the tokenizer has %d tokens for them", rows, known)
	}
}

// tables makes tables of n rows for so many tokens.
func (f *failure) tables(v *Vocabulary, n, known int) {
	if f.inProportion(n, known); f.err == nil {
		v.Tokens, v.Types = make([]string, n), make([]int32, n)
	}
}

// space replaces a space in the texts of SentencePiece's tokens.
const space = "\u2581"

// addedType returns the type of a token that was added to a vocabulary, and its text as
// llama.cpp looks for it: texts to be tokenized never contain SentencePiece's sign for a
// space.
func addedType(a addedToken) (int32, string) {
	if a.special || looksSpecial(a.content) {
		return control, a.content
	}
	return userDefined, strings.ReplaceAll(a.content, space, " ")
}

// plainType is addedType for models that look for such a token as it is written.
func plainType(a addedToken) (int32, string) {
	if a.special {
		return control, a.content
	}
	return userDefined, a.content
}

// looksSpecial reports whether a text looks like a control token, for files that do not
// mark it: rules of the converter.
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

// newIndex returns an empty index for texts.
func newIndex(texts []string) *index {
	size := 8
	for size < 2*len(texts) {
		size *= 2
	}
	return &index{texts, make([]int32, size)}
}

// distinct returns an index of the texts of tokens. Equal texts are an error.
func (f *failure) distinct(texts []string, why string) *index {
	x := newIndex(texts)
	for id, text := range texts {
		if other, ok := x.add(int32(id)); !ok && f.err == nil {
			f.fail("the tokens %d and %d are both %s, and %s", other, id, tensorfs.Quote(text), why)
		}
	}
	return x
}

// indexOfText returns which of the texts is equal, or -1.
func (x *index) indexOfText(text string) int32 {
	i, _ := x.locate(text)
	return i
}

// locate is find with the slot of a text, or the one that is free for it.
func (x *index) locate(text string) (i int32, slot int) {
	mask := len(x.slots) - 1
	for slot = int(maphash.String(seed, text)) & mask; x.slots[slot] != 0; slot = (slot + 1) & mask {
		if i := x.slots[slot] - 1; x.texts[i] == text {
			return i, slot
		}
	}
	return -1, slot
}

// add adds one of the texts, unless one that is equal is there: that is returned.
func (x *index) add(i int32) (int32, bool) {
	other, slot := x.locate(x.texts[i])
	if other >= 0 {
		return other, false
	}
	x.slots[slot] = i + 1
	return i, true
}
