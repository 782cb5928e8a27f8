package tokenizer

import (
	"errors"
	"fmt"
	"math"
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
func (s *source) sentencepiece(v *Vocabulary, text []byte) error {
	m, err := parsePieces(text, s.Rows)
	switch {
	case err != nil:
		return fmt.Errorf(pieceName+": %w", err)
	case len(m.list) == 0:
		return errors.New(pieceName + ": it has no tokens, so it is not SentencePiece's")
	case m.algorithm != algorithmUnigram && m.algorithm != algorithmBPE:
		return fmt.Errorf(pieceName+": its algorithm is number %d of SentencePiece, which llama.cpp does not have", m.algorithm)
	case !m.escapeSpace:
		return errors.New(pieceName + ": its tokens have spaces as they are (escape_whitespaces is false), and llama.cpp's do not")
	}
	v.Model, v.Pre = "llama", "default"
	s.beginLlama(v)
	if m.charsmap {
		v.Notes = append(v.Notes, "llama.cpp does not normalize characters as the source's SentencePiece does: text with unusual forms of them has other tokens")
	}
	if m.trim {
		v.Notes = append(v.Notes, "llama.cpp does not remove repeated spaces as the source's SentencePiece does: text with them has other tokens")
	}
	if err := v.rows(s.Rows, len(m.list), true); err != nil {
		return err
	}
	for id, p := range m.list {
		kind := normal // also what the user defined: added_tokens_decoder says so again
		switch int32(min(p.kind, math.MaxInt32)) {
		case unknown, control, unused, byteToken:
			kind = int32(p.kind)
		}
		v.set(id, p.text, kind, p.score)
	}
	s.piecePrefix(v, m.dummyPrefix)
	return s.addPieces(v)
}

// piecePrefix says whether a space is put before a text, where that has to be said.
func (s *source) piecePrefix(v *Vocabulary, dummy bool) {
	prefix, said := boolean(s.settings.Raw("add_prefix_space"))
	switch arch := s.Architecture; {
	case arch == "gemma" || arch == "gemma2" || arch == "gemma3":
		v.Flags[flagPrefix] = false
	case arch == "llama" && said:
		v.Flags[flagPrefix] = prefix
	case !dummy:
		v.Flags[flagPrefix] = false
	}
}

// addPieces adds the tokens of other files. Those that the embedding has no row
// for are left out.
func (s *source) addPieces(v *Vocabulary) error {
	err := s.addedFile(func(a addedToken, in bool) error {
		if in {
			v.set(a.id, a.content, userDefined, addedScore)
		}
		return nil
	})
	if err == nil {
		err = s.decoder(func(a addedToken) {
			kind, text := addedType(a)
			v.set(a.id, text, kind, addedScore)
		})
	}
	if err != nil || s.Architecture != "phi3" || s.document == nil {
		return err
	}
	for _, a := range s.document.added {
		kind, text := plainType(a)
		v.set(a.id, text, kind, addedScore)
	}
	return nil
}

// addedFile calls add for the tokens of added_tokens.json; in says that the
// embedding has a row for one.
func (s *source) addedFile(add func(a addedToken, in bool) error) error {
	added, err := s.object(addedName)
	if err != nil {
		return err
	}
	for text, r := range added.All() {
		id, in, err := rowOf(r.String(), s.Rows)
		if err != nil {
			return fmt.Errorf(addedName+": the id of %s is %w", tensorfs.Quote(text), err)
		}
		if err := add(addedToken{id, text, false}, in); err != nil {
			return err
		}
	}
	return nil
}

// decoder calls add for the tokens of added_tokens_decoder that the embedding has
// a row for.
func (s *source) decoder(add func(a addedToken)) error {
	const name = "added_tokens_decoder"
	if r := s.settings.Raw(name); r.Kind() != '{' && s.settings.Has(name) {
		return errors.New(settingsName + ": " + name + " is not an object")
	}
	for key, r := range s.settings.Object(name).All() {
		id, in, err := rowOf(key, s.Rows)
		content := r.Member("content")
		special, ok := boolean(r.Member("special"))
		switch {
		case err != nil:
			return fmt.Errorf(settingsName+": "+name+": %w", err)
		case content.Kind() != '"' || !ok && r.Member("special").Kind() != 0:
			return fmt.Errorf(settingsName+": "+name+": the token %d has no content, or its special is of a wrong JSON type", id)
		case in:
			add(addedToken{id, content.Text(), special})
		}
	}
	return nil
}

// parsePieces reads SentencePiece's protobuf. Nothing is allocated but texts of
// the file and rows.
func parsePieces(text []byte, rows int) (*pieces, error) {
	m := &pieces{algorithm: algorithmUnigram, dummyPrefix: true, trim: true, escapeSpace: true}
	err := fields(text, func(message protowire.Number, _ uint64, b []byte) error {
		p := piece{kind: uint64(normal)}
		if message > 3 {
			return nil
		}
		err := fields(b, func(field protowire.Number, number uint64, b []byte) error {
			switch [2]protowire.Number{message, field} {
			case [2]protowire.Number{1, 1}:
				p.text = string(b)
			case [2]protowire.Number{1, 2}:
				p.score = math.Float32frombits(uint32(number))
			case [2]protowire.Number{1, 3}:
				p.kind = number
			case [2]protowire.Number{2, 3}:
				m.algorithm = number
			case [2]protowire.Number{3, 2}:
				m.charsmap = len(b) > 0
			case [2]protowire.Number{3, 3}:
				m.dummyPrefix = number != 0
			case [2]protowire.Number{3, 4}:
				m.trim = number != 0
			case [2]protowire.Number{3, 5}:
				m.escapeSpace = number != 0
			}
			return nil
		})
		switch {
		case err != nil || message != 1:
			return err
		case len(m.list) == rows:
			return fmt.Errorf("it has more tokens than the embedding has rows, %d", rows)
		case !utf8.ValidString(p.text):
			return fmt.Errorf("its token %d, %s, is not UTF-8", len(m.list), tensorfs.Quote(p.text))
		}
		m.list = append(m.list, p)
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

var errPieces = errors.New("it is not a message of SentencePiece, or is cut off")
