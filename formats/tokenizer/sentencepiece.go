package tokenizer

import (
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/tensorfs/tensorfs"
	"google.golang.org/protobuf/encoding/protowire"
)

// addedScore is the score of tokens that were added to SentencePiece's.
const addedScore = -1000

// piece is a token of SentencePiece. Its types have the numbers that llama.cpp
// took over.
type piece struct {
	text  string
	score float32
	kind  uint64
}

// pieces is what a tokenizer.model holds: SentencePiece's ModelProto.
//
//	1 pieces: 1 text, 2 score, 3 type
//	2 trainer_spec: 3 model_type
//	3 normalizer_spec: 2 precompiled_charsmap, 3 add_dummy_prefix,
//	                   4 remove_extra_whitespaces, 5 escape_whitespaces
type pieces struct {
	list                           []piece
	algorithm                      uint64
	charsmap                       bool
	dummyPrefix, trim, escapeSpace bool
}

// Algorithms of SentencePiece.
const (
	algorithmUnigram = 1
	algorithmBPE     = 2
)

// sentencepiece reads a tokenizer.model and what was added to it.
func (s *source) sentencepiece(text []byte) (*vocabulary, error) {
	m, err := parsePieces(text, s.Rows)
	if err != nil {
		return nil, fmt.Errorf(pieceName+": %w", err)
	}
	v := &vocabulary{model: "llama", pre: "default", flags: s.llamaFlags()}
	switch {
	case len(m.list) == 0:
		return nil, fmt.Errorf(pieceName + ": it has no tokens, so it is not SentencePiece's")
	case m.algorithm != algorithmUnigram && m.algorithm != algorithmBPE:
		return nil, fmt.Errorf(pieceName+": its algorithm is number %d of SentencePiece, which llama.cpp does not have", m.algorithm)
	case !m.escapeSpace:
		return nil, fmt.Errorf(pieceName + ": its tokens have spaces as they are (escape_whitespaces is false), and llama.cpp's do not")
	}
	if m.charsmap {
		v.notes = append(v.notes, "llama.cpp does not normalize characters as the source's SentencePiece does: text with unusual forms of them has other tokens")
	}
	if m.trim {
		v.notes = append(v.notes, "llama.cpp does not remove repeated spaces as the source's SentencePiece does: text with them has other tokens")
	}
	if v.tokens, err = newTokens(s.Rows, len(m.list), true); err != nil {
		return nil, err
	}
	for id, p := range m.list {
		kind := normal // also what the user defined: added_tokens_decoder says so again
		switch int32(min(p.kind, math.MaxInt32)) {
		case unknown, control, unused, byteToken:
			kind = int32(p.kind)
		}
		v.tokens.set(id, p.text, kind, p.score)
	}
	if err := s.addPieces(&v.tokens); err != nil {
		return nil, err
	}
	if prefix, ok := s.piecePrefix(m.dummyPrefix); ok {
		v.extra = append(v.extra, tensorfs.Meta{Key: "tokenizer.ggml.add_space_prefix", Value: prefix})
	}
	return v, nil
}

// piecePrefix returns whether a space is put before a text, where that has to be
// said.
func (s *source) piecePrefix(dummy bool) (prefix, say bool) {
	switch s.Architecture {
	case "gemma", "gemma2", "gemma3":
		return false, true
	case "llama":
		if prefix, ok := boolean(s.settings.Raw("add_prefix_space")); ok {
			return prefix, true
		}
	}
	return false, !dummy
}

// addPieces adds the tokens of other files. Those that the embedding has no row
// for are left out.
func (s *source) addPieces(t *tokens) error {
	added, err := s.object(addedName)
	if err != nil {
		return err
	}
	for text, r := range added.All() {
		id, in, err := s.rowOf(r.String())
		if err != nil {
			return fmt.Errorf(addedName+": the id of %s: %w", tensorfs.Quote(text), err)
		}
		if in {
			t.set(id, text, userDefined, addedScore)
		}
	}
	err = s.decoder(func(id int, content string, special bool) {
		kind, text := addedType(content, special)
		t.set(id, text, kind, addedScore)
	})
	if err != nil || s.Architecture != "phi3" || s.document == nil {
		return err
	}
	for _, a := range s.document.added {
		kind := userDefined
		if a.special {
			kind = control
		}
		t.set(a.id, a.content, kind, addedScore)
	}
	return nil
}

// decoder calls add for the tokens of added_tokens_decoder that the embedding has
// a row for.
func (s *source) decoder(add func(id int, content string, special bool)) error {
	const name = "added_tokens_decoder"
	r := s.settings.Raw(name)
	if k := r.Kind(); k != '{' && k != 0 && k != 'n' {
		return fmt.Errorf(settingsName + ": " + name + " is not an object")
	}
	for key, r := range s.settings.Object(name).All() {
		id, in, err := s.rowOf(key)
		content := r.Member("content")
		special, ok := boolean(r.Member("special"))
		switch {
		case err != nil:
			return fmt.Errorf(settingsName+": "+name+": %w", err)
		case content.Kind() != '"' || !ok && r.Member("special").Kind() != 0:
			return fmt.Errorf(settingsName+": "+name+": the token %d has no content, or its special is of a wrong JSON type", id)
		case in:
			add(id, content.Text(), special)
		}
	}
	return nil
}

// rowOf reads an id, and whether the embedding has a row for it.
func (o *Options) rowOf(text string) (id int, in bool, err error) {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return 0, false, fmt.Errorf("%s is not a number of a row", tensorfs.Quote(text))
		}
	}
	if text == "" {
		return 0, false, fmt.Errorf("an id is empty")
	}
	id, err = strconv.Atoi(text)
	if err != nil || id >= o.Rows { // beyond any int
		return o.Rows, false, nil
	}
	return id, true, nil
}

// parsePieces reads SentencePiece's protobuf. Nothing is allocated but texts of
// the file and rows.
func parsePieces(text []byte, rows int) (*pieces, error) {
	m := &pieces{algorithm: algorithmUnigram, dummyPrefix: true, trim: true, escapeSpace: true}
	err := fields(text, func(n protowire.Number, _ uint64, b []byte) error {
		switch n {
		case 1:
			if len(m.list) == rows {
				return fmt.Errorf("it has more tokens than the embedding has rows, %d", rows)
			}
			p := piece{kind: uint64(normal)}
			err := fields(b, func(n protowire.Number, number uint64, b []byte) error {
				switch n {
				case 1:
					p.text = string(b)
				case 2:
					p.score = math.Float32frombits(uint32(number))
				case 3:
					p.kind = number
				}
				return nil
			})
			if err != nil {
				return err
			}
			if !utf8.ValidString(p.text) {
				return fmt.Errorf("its token %d, %s, is not UTF-8", len(m.list), tensorfs.Quote(p.text))
			}
			m.list = append(m.list, p)
		case 2:
			return fields(b, func(n protowire.Number, number uint64, _ []byte) error {
				if n == 3 {
					m.algorithm = number
				}
				return nil
			})
		case 3:
			return fields(b, func(n protowire.Number, number uint64, b []byte) error {
				switch n {
				case 2:
					m.charsmap = len(b) > 0
				case 3:
					m.dummyPrefix = number != 0
				case 4:
					m.trim = number != 0
				case 5:
					m.escapeSpace = number != 0
				}
				return nil
			})
		}
		return nil
	})
	return m, err
}

// fields calls do for the fields of a message: with the number of a varint or of
// 32 or 64 bits, or with the bytes of a text or of a message inside.
func fields(b []byte, do func(n protowire.Number, number uint64, b []byte) error) error {
	for len(b) > 0 {
		n, kind, size := protowire.ConsumeTag(b)
		if size < 0 {
			return errPieces
		}
		b = b[size:]
		var number uint64
		var inside []byte
		switch kind {
		case protowire.VarintType:
			number, size = protowire.ConsumeVarint(b)
		case protowire.Fixed32Type:
			var v uint32
			v, size = protowire.ConsumeFixed32(b)
			number = uint64(v)
		case protowire.Fixed64Type:
			number, size = protowire.ConsumeFixed64(b)
		case protowire.BytesType:
			inside, size = protowire.ConsumeBytes(b)
		default: // groups, which SentencePiece does not have
			return errPieces
		}
		if size < 0 {
			return errPieces
		}
		b = b[size:]
		if err := do(n, number, inside); err != nil {
			return err
		}
	}
	return nil
}

var errPieces = fmt.Errorf("it is not a message of SentencePiece, or is cut off")
