package tokenizer

import (
	"fmt"
	"strings"

	"github.com/tensorfs/tensorfs"
)

// inside marks WordPiece's tokens that do not begin a word.
const inside = "##"

// wordpiece reads a tokenizer.json of BERT. In GGUF a token that begins a word is
// marked instead of one that does not.
func (s *source) wordpiece() (*vocabulary, error) {
	d := s.document
	m := &d.model
	n := d.normalizer
	lowercase, hasLowercase := boolean(n.Member("lowercase"))
	strip, hasStrip := boolean(n.Member("strip_accents"))
	switch {
	case !m.hasVocab:
		return nil, d.problem("its model has no vocabulary")
	case m.prefix != inside:
		return nil, d.problem("its tokens inside of words begin with %s, and llama.cpp's with %q", tensorfs.Quote(m.prefix), inside)
	case d.preTokenizer.Member("type").Text() != "BertPreTokenizer":
		return nil, d.problem("its pre_tokenizer is %s, and llama.cpp has BertPreTokenizer for WordPiece", typeOf(d.preTokenizer))
	case n.Member("type").Text() != "BertNormalizer" || !hasLowercase:
		return nil, d.problem("its normalizer is %s, and llama.cpp has BertNormalizer for WordPiece", typeOf(n))
	}
	for _, key := range []string{"clean_text", "handle_chinese_chars"} {
		if done, ok := boolean(n.Member(key)); !ok || !done {
			return nil, d.problem("its normalizer does not %s, and llama.cpp always does", key)
		}
	}
	v := &vocabulary{model: "bert", pre: "default"}
	if count, ok := s.tokenTypes(); !ok {
		return nil, fmt.Errorf("config.json: type_vocab_size is %s, which is not a number of token types", tensorfs.Quote(s.config("type_vocab_size").String()))
	} else if count > 0 {
		v.extra = append(v.extra, tensorfs.Meta{Key: "tokenizer.ggml.token_type_count", Value: uint32(count)})
	}
	v.extra = append(v.extra, tensorfs.Meta{Key: "tokenizer.ggml.normalizer.lowercase", Value: lowercase})
	if hasStrip {
		v.extra = append(v.extra, tensorfs.Meta{Key: "tokenizer.ggml.normalizer.strip_accents", Value: strip})
	}
	if err := m.check(d, s.Rows, nil); err != nil {
		return nil, err
	}
	var err error
	v.tokens, err = d.table(s.Rows, false, func(a addedToken) (int32, string) { return addedType(a.content, a.special) })
	if err != nil {
		return nil, err
	}
	v.tokens.phantom = true
	for id, kind := range v.tokens.types {
		if text := v.tokens.texts[id]; kind == control || kind == unset {
			continue
		} else if rest, ok := strings.CutPrefix(text, inside); ok {
			v.tokens.texts[id] = rest
		} else {
			v.tokens.texts[id] = space + text
		}
	}
	return v, nil
}

// tokenTypes returns how many kinds of text the model tells apart: for the
// architectures of BERT the two of its class where the config is silent, for
// others none.
func (s *source) tokenTypes() (int, bool) {
	r := s.config("type_vocab_size")
	switch {
	case r.Kind() != 0 && r.Kind() != 'n':
		count, ok := r.Int()
		return count, ok && count > 0
	case s.Architecture == "bert" || s.Architecture == "nomic-bert":
		return 2, true
	}
	return 0, true
}
