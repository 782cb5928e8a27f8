package tokenizer

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tensorfs/tensorfs"
)

// tiktoken reads the vocabulary of a file of tiktoken: a line for each token, with its bytes in
// base64 and its rank, which is its id. It is false if the class has no such file.
func (s *source) tiktoken(v *Vocabulary) bool {
	name := s.class.file
	if name == "" || s.err != nil {
		return false
	}
	text := s.read(name, maxFile)
	if text == nil {
		return false
	}
	d := &document{failure: &s.failure, file: name, rows: s.Rows}
	v.Model, v.Pre = BytesModel, s.class.pre
	ranks := d.ranks(text, s.class.lines)
	if d.err == nil && len(ranks) > s.Rows {
		d.fail("it has %d tokens, and the embedding %d rows", len(ranks), s.Rows)
	}
	special := s.class.special(len(ranks))
	if s.tables(v, s.Rows, len(ranks)+len(special)); s.err != nil {
		return true
	}
	for id, text := range ranks {
		v.Tokens[id], v.Types[id] = inLetters([]byte(text)), normal
	}
	s.reserve(v, special, len(ranks))
	whole := 0
	if v.Merges, whole = d.lastMerges(ranks); whole > 0 {
		v.Notes = append(v.Notes, fmt.Sprintf("of the tokens of %s, %d are not two tokens of lower ranks together: as from llama.cpp's converter, they have no merge, and llama.cpp gives no text such a token, as tiktoken does", name, whole))
	}
	d.distinct(v.Tokens, "a token has one id")
	return true
}

// ranks returns the bytes of tokens by their ranks, or in the order of their lines.
func (d *document) ranks(text []byte, lines bool) (list []string) {
	list = make([]string, 0, bytes.Count(text, []byte("\n"))+1)
	seen := map[string]bool{}
	for line := range bytes.Lines(text) {
		token, rank, _ := strings.Cut(strings.TrimSpace(string(line)), " ")
		if token == "" && rank == "" {
			continue
		}
		b, err := base64.StdEncoding.DecodeString(token)
		if lines && seen[string(b)] {
			continue
		}
		if n, err2 := strconv.Atoi(rank); err != nil || err2 != nil || len(b) == 0 || n != len(list) && !lines {
			d.fail("its line %d, %s, is not the bytes of a token and the rank %d", len(list)+1, tensorfs.Quote(string(line)), len(list))
			return nil
		}
		if list = append(list, string(b)); lines {
			seen[string(b)] = true
		}
	}
	return list
}

// reserve names the special tokens after the ranks, and ids that no token has.
func (s *source) reserve(v *Vocabulary, special []string, base int) {
	for id := base; id < len(v.Tokens); id++ {
		if n := id - base; n < len(special) {
			v.Tokens[id], v.Types[id] = special[n], control
		} else {
			v.Tokens[id], v.Types[id] = padName(id), unused
		}
	}
	s.decoder(len(v.Tokens), func(a addedToken) {
		if a.id >= base && a.id < base+len(special) {
			v.Tokens[a.id] = a.content
		}
	})
	if at := slices.Index(v.Tokens[base:], s.class.bos); at >= 0 {
		v.Special["bos"] = base + at
	}
	if s.habit.NamedEnd {
		if at := slices.Index(v.Tokens[base:], s.settings.Raw("eos_token").Text()); at >= 0 {
			v.Special["eos"] = base + at
		}
	}
}

// lastMerges returns a merge for each token: of the two parts that are left of its bytes after all
// merges to tokens of lower ranks; and of how many tokens more parts are left, which have no merge.
func (d *document) lastMerges(ranks []string) (merges []Merge, whole int) {
	if d.err != nil {
		return nil, 0
	}
	x, work := d.distinct(ranks, "a token has one rank"), 0
	var cuts, pairs []int32 // where each part begins; the rank of it and the next part together, or -1
	for rank, text := range ranks {
		if work += len(text) * (len(text) + 64); work > maxWork {
			d.fail("its tokens are too many or too long to find their merges from their ranks")
		}
		if d.err != nil {
			return nil, 0
		}
		cuts, pairs = cuts[:0], pairs[:0]
		for at := range len(text) + 1 {
			cuts = append(cuts, int32(at))
		}
		both := func(i int) int32 { return x.indexOfText(text[cuts[i]:cuts[i+2]]) }
		for i := range len(text) - 1 {
			pairs = append(pairs, both(i))
		}
		for len(pairs) > 0 {
			low := -1
			for i, of := range pairs {
				if of >= 0 && of < int32(rank) && (low < 0 || of < pairs[low]) {
					low = i
				}
			}
			if low < 0 {
				break
			}
			cuts = append(cuts[:low+1], cuts[low+2:]...)
			pairs = append(pairs[:low], pairs[low+1:]...)
			if low > 0 {
				pairs[low-1] = both(low - 1)
			}
			if low < len(pairs) {
				pairs[low] = both(low)
			}
		}
		switch len(pairs) {
		case 0: // a byte
		case 1:
			merges = append(merges, Merge{inLetters([]byte(text[:cuts[1]])), inLetters([]byte(text[cuts[1]:]))})
		default:
			whole++
		}
	}
	return merges, whole
}
