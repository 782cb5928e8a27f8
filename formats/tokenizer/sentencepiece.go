package tokenizer

import (
	"math"
	"unicode/utf8"

	"github.com/tensorfs/tensorfs"
	"google.golang.org/protobuf/encoding/protowire"
)

// addedScore is the score of tokens that were added to SentencePiece's.
const addedScore = -1000

// Algorithms of SentencePiece.
const (
	algorithmUnigram = 1
	algorithmBPE     = 2
)

// sentencepiece reads SentencePiece's file, a ModelProto, and what was added to it. Its
// types have the numbers that llama.cpp took over.
//
//	1 pieces: 1 text, 2 score, 3 type
//	2 trainer_spec: 3 model_type
//	3 normalizer_spec: 2 precompiled_charsmap, 3 add_dummy_prefix,
//	                   4 remove_extra_whitespaces, 5 escape_whitespaces
func (s *source) sentencepiece(v *Vocabulary, text []byte) {
	var texts []string
	var scores []float32
	var types []int32
	var charsmap []byte
	algorithm, dummyPrefix, trim, escapeSpace := uint64(algorithmUnigram), true, true, true
	s.fields(text, func(message protowire.Number, _ uint64, b []byte) {
		if message > 3 {
			return
		}
		text, score, kind := "", float32(0), normal
		s.fields(b, func(field protowire.Number, number uint64, b []byte) {
			switch 10*message + min(field, 9) {
			case 11:
				text = string(b)
			case 12:
				score = math.Float32frombits(uint32(number))
			case 13: // normal tokens may also be user-defined: added_tokens_decoder marks them
				kind = normal
				if number == uint64(unknown) || number == uint64(control) || number == uint64(unused) || number == uint64(byteToken) {
					kind = int32(number)
				}
			case 23:
				algorithm = number
			case 32:
				charsmap = b
			case 33:
				dummyPrefix = number != 0
			case 34:
				trim = number != 0
			case 35:
				escapeSpace = number != 0
			}
		})
		switch {
		case message != 1 || s.err != nil:
			return
		case len(texts) == s.Rows:
			s.fail("%s: it has more tokens than the embedding has rows, %d", s.pieces, s.Rows)
		case !utf8.ValidString(text):
			s.fail("%s: its token %d, %s, is not UTF-8", s.pieces, len(texts), tensorfs.Quote(text))
		}
		texts, scores, types = append(texts, text), append(scores, score), append(types, kind)
	})
	switch {
	case len(texts) == 0:
		s.fail("%s: it has no tokens, so it is not SentencePiece's", s.pieces)
	case algorithm != algorithmUnigram && algorithm != algorithmBPE:
		s.fail("%s: its algorithm is number %d of SentencePiece, which llama.cpp does not support", s.pieces, algorithm)
	case !escapeSpace:
		s.fail("%s: its tokens have spaces as they are (escape_whitespaces is false), and llama.cpp's do not", s.pieces)
	}
	v.Pre = "default"
	if unigram := algorithm == algorithmUnigram && s.habit.Model == piecesModel; unigram {
		v.Model, v.Charsmap, v.Flags[flagPrefix], v.Flags[flagTrim] = piecesModel, charsmap, dummyPrefix, trim
		v.Flags[flagEOS], v.Flags[flagBOS], v.Flags[flagSEP] = s.document == nil, s.document == nil && s.habit.Shifted, s.document == nil && s.habit.Shifted
		s.segments(v)
	} else {
		s.likeLlama(v, dummyPrefix, trim, charsmap)
	}
	if s.habit.Shifted && len(texts) > 2 {
		texts = append([]string{"<s>", "<pad>", "</s>", "<unk>"}, texts[3:]...)
		scores = append(make([]float32, 4), scores[3:]...)
		types = append([]int32{control, control, control, unknown}, types[3:]...)
	}
	if s.tables(v, s.Rows, len(texts)); s.err != nil {
		return
	}
	v.Scores = make([]float32, s.Rows)
	copy(v.Tokens, texts)
	copy(v.Scores, scores)
	copy(v.Types, types)
	for id := len(texts); s.habit.Shifted && id < s.Rows; id++ { // named before they were shifted
		v.Tokens[id], v.Types[id], v.Scores[id] = padName(id-1), unused, padScore
	}
	if s.habit.After != nil {
		s.after(v, len(texts))
		return
	}
	s.addPieces(v)
}

// after names the first of n tokens as code beside the model does, and the tokens behind them.
func (s *source) after(v *Vocabulary, n int) {
	if n < len(s.habit.First) || s.Rows < n+len(s.habit.After) {
		s.fail("%s: it has %d tokens, which do not fit an embedding of %d rows", s.pieces, n, s.Rows)
		return
	}
	v.Pre = s.habit.Pre
	copy(v.Tokens, s.habit.First)
	for i, text := range s.habit.After {
		v.Tokens[n+i], v.Types[n+i] = text, control
	}
	for id := n + len(s.habit.After); id < s.Rows; id++ {
		v.Tokens[id], v.Types[id] = padName(id), unused
	}
}

// likeLlama reads how SentencePiece's BPE treats texts.
func (s *source) likeLlama(v *Vocabulary, dummyPrefix, trim bool, charsmap []byte) {
	v.Model = charsModel
	s.beginLlama(v)
	if s.habit.Shifted {
		s.fail("%s: it is not a Unigram model, as tokenizers of this kind are", s.pieces)
	}
	if len(charsmap) > 0 {
		v.Notes = append(v.Notes, "llama.cpp does not normalize characters as the source's SentencePiece does: text with unusual forms of them has other tokens")
	}
	if trim {
		v.Notes = append(v.Notes, "llama.cpp does not remove repeated spaces as the source's SentencePiece does: text with them has other tokens")
	}
	switch prefix, said := boolean(s.settings.Raw("add_prefix_space")); { // a space is put before a text, unless something is said
	case s.habit.Space == "said" && said:
		v.Flags[flagPrefix] = prefix
	case s.habit.Space == "never" || !dummyPrefix:
		v.Flags[flagPrefix] = false
	case s.habit.Space == "always":
		v.Flags[flagPrefix] = true
	}
}

// addPieces adds the tokens of further files. It leaves out tokens for which the embedding
// has no row.
func (s *source) addPieces(v *Vocabulary) {
	add := func(a addedToken, kind func(addedToken) (int32, string)) {
		v.Types[a.id], v.Tokens[a.id] = kind(a)
		v.Scores[a.id] = addedScore
	}
	if s.habit.Shifted {
		return
	}
	s.addedFile(func(a addedToken, in bool) {
		if in {
			add(a, plainType)
		}
	})
	if v.Model == piecesModel {
		return
	}
	s.decoder(s.Rows, func(a addedToken) {
		if !s.habit.Scored {
			add(a, addedType)
			return
		}
		if add(a, plainType); a.special && a.content == s.settings.Raw("unk_token").Text() {
			v.Types[a.id] = unknown
		}
		if v.Scores[a.id] = padScore; a.special {
			v.Scores[a.id] = 0
		}
	})
	if s.habit.Added && s.document != nil {
		for _, a := range s.document.added {
			add(a, plainType)
		}
	}
}

// addedFile calls add for the tokens of added_tokens.json; in reports that the embedding
// has a row for the token.
func (s *source) addedFile(add func(a addedToken, in bool)) {
	for text, r := range s.object(addedName).All() {
		id, in, err := rowOf(r.String(), s.Rows)
		if err != nil {
			s.fail(addedName+": the id of %s is %w", tensorfs.Quote(text), err)
			return
		}
		add(addedToken{id: id, statedID: id, content: text}, in)
	}
}

// decoder calls add for the tokens of added_tokens_decoder whose ids are below rows.
func (s *source) decoder(rows int, add func(a addedToken)) {
	const name = "added_tokens_decoder"
	if s.settings.Raw(name).Kind() != '{' && s.settings.Has(name) {
		s.fail(settingsName + ": " + name + " is not an object")
	}
	for key, r := range s.settings.Object(name).All() {
		id, in, err := rowOf(key, rows)
		content := r.Member("content")
		special, ok := boolean(r.Member("special"))
		switch {
		case err != nil:
			s.fail(settingsName+": "+name+": %w", err)
		case content.Kind() != '"' || !ok && r.Member("special").Kind() != 0:
			s.fail(settingsName+": "+name+": the token %d has no content, or its special is of a wrong JSON type", id)
		case in:
			add(addedToken{id: id, statedID: id, content: content.Text(), special: special})
		}
	}
}

// fields calls do for the fields of a message: with the number of a varint or of 32
// bits, or with the bytes of a text or of a message inside.
func (s *source) fields(b []byte, do func(n protowire.Number, number uint64, b []byte)) {
	for len(b) > 0 && s.err == nil {
		n, kind, size := protowire.ConsumeTag(b)
		length := -1
		if size > 0 && kind != protowire.StartGroupType { // which SentencePiece does not have
			length = protowire.ConsumeFieldValue(n, kind, b[size:])
		}
		if length < 0 {
			s.fail("%s: it is not a message of SentencePiece, or is cut off", s.pieces)
			return
		}
		value := b[size : size+length]
		b = b[size+length:]
		switch kind {
		case protowire.VarintType:
			number, _ := protowire.ConsumeVarint(value)
			do(n, number, nil)
		case protowire.Fixed32Type:
			number, _ := protowire.ConsumeFixed32(value)
			do(n, uint64(number), nil)
		case protowire.BytesType:
			inside, _ := protowire.ConsumeBytes(value)
			do(n, 0, inside)
		}
	}
}
