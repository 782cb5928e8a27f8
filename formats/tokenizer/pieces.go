package tokenizer

import (
	"math"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// pieceFile returns a tokenizer.model of SentencePiece's BPE, nil of all else. Its scores
// say more than the merges that follow from them, and programs that convert models ask for
// it. These take tokens of the user that look special for control tokens, so a vocabulary
// with one has none.
func (v *Vocabulary) pieceFile() []byte {
	if v.Model != charsModel {
		return nil
	}
	for id, token := range v.Tokens {
		if v.Types[id] == userDefined && looksSpecial(token) {
			return nil
		}
	}
	text := func(b []byte, n protowire.Number, text string) []byte {
		return protowire.AppendString(protowire.AppendTag(b, n, protowire.BytesType), text)
	}
	number := func(b []byte, n protowire.Number, value int) []byte {
		return protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), uint64(value))
	}
	size := 0
	for _, token := range v.Tokens {
		size += len(token) + 16
	}
	b, one := make([]byte, 0, size), []byte(nil)
	hasUnknown := slices.Contains(v.Types, unknown)
	for id, token := range v.Tokens {
		kind := v.Types[id]
		switch {
		case kind == userDefined: // which are looked for where spaces are signs by now
			token = strings.ReplaceAll(token, " ", space)
		case id == v.role("unk") && !hasUnknown: // SentencePiece wants one
			kind = unknown
		}
		one = protowire.AppendFixed32(protowire.AppendTag(text(one[:0], 1, token), 2, protowire.Fixed32Type), math.Float32bits(v.Scores[id]))
		one = number(one, 3, int(kind))
		b = protowire.AppendBytes(protowire.AppendTag(b, 1, protowire.BytesType), one)
	}
	trainer, normalizer := number(number(nil, 3, algorithmBPE), 4, len(v.Tokens)), text(nil, 1, "identity")
	if v.bytes() {
		trainer = number(trainer, 35, 1)
	}
	for i, role := range []string{"unk", "bos", "eos", "pad"} {
		trainer = number(trainer, protowire.Number(40+i), v.role(role))
	}
	prefix, said := v.Flags[flagPrefix]
	for i, flag := range []bool{prefix || !said, false, true} { // add_dummy_prefix, remove_extra_whitespaces, escape_whitespaces
		normalizer = number(normalizer, protowire.Number(3+i), map[bool]int{true: 1}[flag])
	}
	return text(text(b, 2, string(trainer)), 3, string(normalizer))
}
