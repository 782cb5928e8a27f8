package tokenizer

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tensorfs/tensorfs"
)

// byteSpace is a space in the alphabet of bytes.
const byteSpace = "\u0120"

// mergeLines returns merges as GGUF has them. A space inside of a token becomes its
// character in bytes' alphabet.
func mergeLines(merges []Merge) []string {
	lines := make([]string, len(merges))
	for i, m := range merges {
		lines[i] = strings.ReplaceAll(m.Left, " ", byteSpace) + " " + strings.ReplaceAll(m.Right, " ", byteSpace)
	}
	return lines
}

// merges reads the merges of metadata. It leaves out repeated merges and merges of tokens
// that do not exist: llama.cpp never uses them, and Hugging Face's library refuses a file
// with one. If the metadata lacks merges, SentencePiece's follow from the scores.
func (m *metadata) merges(v *Vocabulary) {
	seen := map[[2]int32]struct{}{}
	said := m.each(keyMerges, maxMerges, func(i int, value any) bool {
		line, ok := value.(string)
		if !utf8.ValidString(line) {
			m.fail("the merge %d, %s, is not UTF-8, and tokenizer.json can hold no other text", i, tensorfs.Quote(line))
		}
		at := -1
		if line != "" { // the first character of a token may be a space
			at = strings.IndexByte(line[1:], ' ') + 1
		}
		if at < 1 {
			return ok
		}
		pair := [2]int32{v.index.indexOfText(line[:at]), v.index.indexOfText(line[at+1:])}
		if pair[0] < 0 || pair[1] < 0 || v.index.indexOfText(line[:at]+line[at+1:]) < 0 {
			return true
		}
		if _, again := seen[pair]; !again {
			seen[pair] = struct{}{}
			v.Merges = append(v.Merges, Merge{v.Tokens[pair[0]], v.Tokens[pair[1]]})
		}
		return true
	})
	switch {
	case said || m.err != nil:
	case v.Model != charsModel:
		m.fail("the file has no %s", keyMerges)
	default:
		m.scoredMerges(v)
	}
}

// maxWork bounds the bytes that are compared to find merges: for each token, its
// length times as much and a bit. Gemma's 262,144 tokens need a tenth.
const maxWork = 1 << 30

// scoredMerges makes the merges that do what scores do: of all pairs, the one
// whose token has the highest score becomes one. Every way to cut a token in two
// is a merge.
func (m *metadata) scoredMerges(v *Vocabulary) {
	type ranked struct {
		key         uint64 // low ones first: high score, long left, long right
		order       int32  // order of their tokens
		left, right int32
	}
	list := make([]ranked, 0, 2*len(v.Tokens)) // large vocabularies have twice as many merges as tokens
	work := 0
	for id, text := range v.Tokens {
		if !joins(v.Types[id]) {
			continue
		}
		if work += len(text) * (len(text) + 64); work > maxWork {
			m.fail("its tokens are too many or too long to find their merges from their scores")
			return
		}
		chars, n := utf8.RuneCountInString(text), 0 // no more than 2^15, by the limit of work
		for at := range text {
			if n++; at == 0 {
				continue
			}
			left := v.index.indexOfText(text[:at])
			if left < 0 || !joins(v.Types[left]) {
				continue
			}
			right := v.index.indexOfText(text[at:])
			if right < 0 || !joins(v.Types[right]) {
				continue
			}
			key := uint64(descending(v.Scores[id]))<<32 | uint64(math.MaxUint16-(n-1))<<16 | uint64(math.MaxUint16-(chars-n+1))
			list = append(list, ranked{key, int32(len(list)), left, right})
		}
		if len(list) > maxMerges {
			m.fail("its scores make more than %d merges", maxMerges)
			return
		}
	}
	slices.SortFunc(list, func(a, b ranked) int {
		if c := cmp.Compare(a.key, b.key); c != 0 {
			return c
		}
		return cmp.Compare(a.order, b.order)
	})
	v.Merges = make([]Merge, len(list))
	for i, r := range list {
		v.Merges[i] = Merge{v.Tokens[r.left], v.Tokens[r.right]}
	}
}

// joins reports whether tokens of a type take part in merges.
func joins(kind int32) bool { return kind != unknown && kind != control && kind != byteToken }

// descending returns a number that is the lower the higher the score is.
func descending(score float32) uint32 {
	if score == 0 {
		score = 0 // there are two
	}
	bits := math.Float32bits(score)
	if bits>>31 != 0 {
		return bits
	}
	return ^bits & math.MaxInt32
}
