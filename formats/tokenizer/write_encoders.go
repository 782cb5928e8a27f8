package tokenizer

import (
	"encoding/base64"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/tensorfs/tensorfs"
)

// wordPiece writes WordPiece: see (*source).wordpiece.
func (s *stored) wordPiece() (*form, error) {
	if err := s.read(false, unmark); err != nil {
		return nil, err
	}
	lowercase := s.flag("tokenizer.ggml.normalizer.lowercase", true)
	strip := "null" // as lowercase
	if key := "tokenizer.ggml.normalizer.strip_accents"; s.get(key) != nil {
		strip = strconv.FormatBool(s.flag(key, false))
	}
	unknown := "[UNK]"
	if _, said := s.said["unk"]; !said {
		if id, _ := s.index.find(unknown); id >= 0 {
			s.ids["unk"] = int(id)
		}
	}
	if id := s.id("unk"); id >= 0 {
		unknown = s.tokens.texts[id]
	}
	f := &form{
		normalizer:   `{"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,"strip_accents":` + strip + `,"lowercase":` + strconv.FormatBool(lowercase) + `}`,
		preTokenizer: `{"type":"BertPreTokenizer"}`,
		decoder:      `{"type":"WordPiece","prefix":"` + inside + `","cleanup":true}`,
		around:       around{first: s.classifier(), last: s.id("sep"), pairs: bertPairs},
	}
	f.model = func(b []byte) ([]byte, error) {
		b = append(b, `{"type":"WordPiece","unk_token":`...)
		b = append(appendQuoted(b, unknown), `,"continuing_subword_prefix":"`+inside+`","max_input_chars_per_word":100,"vocab":`...)
		b, err := s.appendVocab(b)
		return append(b, '}'), err
	}
	return f, nil
}

// classifier returns the token that WordPiece begins a text with: what is assumed
// counts less than bos.
func (s *stored) classifier() int {
	if id, ok := s.said["cls"]; ok {
		return id
	}
	return s.id("bos", "cls")
}

// unmark marks the tokens that do not begin a word instead of those that do.
func unmark(text string, kind int32) string {
	if kind == control || strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]") {
		return text
	}
	if word, ok := strings.CutPrefix(text, space); ok {
		return word
	}
	return inside + text
}

// unigram writes SentencePiece's Unigram.
func (s *stored) unigram() (*form, error) {
	if err := s.read(true, asStored); err != nil {
		return nil, err
	}
	var steps []string
	charsmap, err := s.charsmap()
	if err != nil {
		return nil, err
	}
	if charsmap != nil {
		steps = append(steps, `{"type":"Precompiled","precompiled_charsmap":"`+base64.StdEncoding.EncodeToString(charsmap)+`"}`)
	}
	if s.flag("tokenizer.ggml.remove_extra_whitespaces", false) {
		// ^ and $ are the ends of lines.
		steps = append(steps, `{"type":"Replace","pattern":{"Regex":"\\A +| +\\z"},"content":""}`, `{"type":"Replace","pattern":{"Regex":" {2,}"},"content":" "}`)
	}
	scheme := "never"
	if s.flag("tokenizer.ggml.add_space_prefix", true) {
		scheme = "always"
	}
	metaspace := `{"type":"Metaspace","replacement":"` + space + `","prepend_scheme":"` + scheme + `","split":false}`
	f := &form{
		normalizer:   "null",
		preTokenizer: metaspace,
		decoder:      metaspace,
		around:       s.begins(false, true, []string{"bos"}, []string{"eos"}),
		model:        s.unigramModel,
	}
	if steps != nil {
		f.normalizer = `{"type":"Sequence","normalizers":[` + strings.Join(steps, ",") + `]}`
	}
	return f, nil
}

// unigramModel appends the model of Unigram.
func (s *stored) unigramModel(b []byte) ([]byte, error) {
	t := &s.tokens
	b = append(b, `{"type":"Unigram","unk_id":`...)
	if id := s.id("unk"); id >= 0 {
		b = appendInt(b, id)
	} else {
		b = append(b, "null"...)
	}
	b = append(b, `,"vocab":[`...)
	for id, text := range t.texts {
		score := float64(t.scores[id])
		switch {
		case t.types[id] == userDefined:
			score = 0
		case math.IsNaN(score) || math.IsInf(score, 0):
			return nil, fmt.Errorf("the score of the token %d, %s, is %g, which JSON has no number for", id, tensorfs.Quote(text), score)
		}
		if id > 0 {
			b = append(b, ',')
		}
		b = append(appendQuoted(append(b, '['), text), ',')
		b = append(strconv.AppendFloat(b, score, 'g', -1, 32), ']')
		if len(b) > maxFile {
			return nil, errLarge
		}
	}
	return append(b, `],"byte_fallback":false}`...), nil
}

// charsmap returns SentencePiece's table of characters, nil where there is none.
func (s *stored) charsmap() ([]byte, error) {
	var b []byte
	_, err := s.each("tokenizer.ggml.precompiled_charsmap", maxMap, func(_ int, v any) error {
		n, ok := integer(v)
		if !ok || n < math.MinInt8 || n > math.MaxUint8 {
			return errWrongType
		}
		b = append(b, byte(n))
		return nil
	})
	return b, err
}
