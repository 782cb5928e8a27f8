package tokenizer

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tensorfs/tensorfs"
)

const keyMerges = "tokenizer.ggml.merges"

// mergePair is two tokens that become one.
type mergePair struct{ left, right int32 }

// saidMerges reads the merges of the file. Those that are there again and those of
// tokens that do not exist are left out: llama.cpp never uses them, and Hugging
// Face's library refuses a file that has one.
func (s *stored) saidMerges() (merges []mergePair, said bool, err error) {
	seen := map[mergePair]struct{}{}
	var joined []byte
	said, err = s.each(keyMerges, maxMerges, func(i int, v any) error {
		line, ok := v.(string)
		if !ok {
			return errWrongType
		}
		if !utf8.ValidString(line) {
			return fmt.Errorf("the merge %d, %s, is not UTF-8, and tokenizer.json can hold no other text", i, tensorfs.Quote(line))
		}
		at := -1
		if line != "" { // the first character of a token may be a space
			at = strings.IndexByte(line[1:], ' ') + 1
		}
		if at < 1 {
			return nil
		}
		left, _ := s.index.find(line[:at])
		if left < 0 {
			return nil
		}
		right, _ := s.index.find(line[at+1:])
		if right < 0 {
			return nil
		}
		joined = append(append(joined[:0], line[:at]...), line[at+1:]...)
		if whole, _ := s.index.findBytes(joined); whole < 0 {
			return nil
		}
		m := mergePair{left, right}
		if _, again := seen[m]; !again {
			seen[m] = struct{}{}
			merges = append(merges, m)
		}
		return nil
	})
	return merges, said, err
}

// maxWork bounds the bytes that are compared to find merges: for each token, its
// length times as much and a bit. Gemma's 262,144 tokens need a tenth.
const maxWork = 1 << 30

// scoredMerges returns the merges that do what scores do: of all pairs, the one
// whose token has the highest score becomes one. Every way to cut a token in two
// is a merge.
func (s *stored) scoredMerges() ([]mergePair, error) {
	type ranked struct {
		key   uint64 // low ones first: high score, long left, long right
		order int32  // that of their tokens
		mergePair
	}
	t := &s.tokens
	list := make([]ranked, 0, 2*len(t.texts)) // large vocabularies have twice as many merges as tokens
	work := 0
	for id, text := range t.texts {
		if !joins(t.types[id]) {
			continue
		}
		if work += len(text) * (len(text) + 64); work > maxWork {
			return nil, fmt.Errorf("its tokens are too many or too long to find their merges from their scores")
		}
		chars, n := utf8.RuneCountInString(text), 0 // no more than 2^15, by the limit of work
		for at := range text {
			if n++; at == 0 {
				continue
			}
			left, _ := s.index.find(text[:at])
			if left < 0 || !joins(t.types[left]) {
				continue
			}
			right, _ := s.index.find(text[at:])
			if right < 0 || !joins(t.types[right]) {
				continue
			}
			key := uint64(descending(t.scores[id]))<<32 | uint64(math.MaxUint16-(n-1))<<16 | uint64(math.MaxUint16-(chars-n+1))
			list = append(list, ranked{key, int32(len(list)), mergePair{left, right}})
		}
		if len(list) > maxMerges {
			return nil, fmt.Errorf("its scores make more than %d merges", maxMerges)
		}
	}
	slices.SortFunc(list, func(a, b ranked) int {
		if c := cmp.Compare(a.key, b.key); c != 0 {
			return c
		}
		return cmp.Compare(a.order, b.order)
	})
	merges := make([]mergePair, len(list))
	for i := range list {
		merges[i] = list[i].mergePair
	}
	return merges, nil
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
