package tokenizer

import (
	"strings"

	"github.com/tensorfs/tensorfs"
)

// inside marks WordPiece's tokens that do not begin a word.
const inside = "##"

// wordpiece reads a tokenizer.json of BERT.
func (s *source) wordpiece(v *Vocabulary) {
	d := s.document
	n := d.normalizer
	lowercase, hasLowercase := boolean(n.Member("lowercase"))
	switch {
	case !d.model.hasVocab:
		d.fail("its model has no vocabulary")
	case d.model.prefix != inside:
		d.fail("its tokens inside of words begin with %s, and llama.cpp's with %q", tensorfs.Quote(d.model.prefix), inside)
	case d.preTokenizer.Member("type").Text() != "BertPreTokenizer":
		d.fail("its pre_tokenizer is %s, and llama.cpp has BertPreTokenizer for WordPiece", typeOf(d.preTokenizer))
	case n.Member("type").Text() != "BertNormalizer" || !hasLowercase:
		d.fail("its normalizer is %s, and llama.cpp has BertNormalizer for WordPiece", typeOf(n))
	}
	for _, key := range []string{"clean_text", "handle_chinese_chars"} {
		if done, _ := boolean(n.Member(key)); !done {
			d.fail("its normalizer does not %s, and llama.cpp always does", key)
		}
	}
	v.Model, v.Pre, v.Flags[flagLowercase] = wordsModel, "default", lowercase
	if strip, ok := boolean(n.Member("strip_accents")); ok {
		v.Flags[flagAccents] = strip
	}
	s.segments(v)
	d.check()
	d.fill(v, s.Rows, addedType)
}

// mark returns a token of WordPiece as GGUF has it: one that begins a word is
// marked instead of one that does not.
func mark(text string, kind int32) string {
	if kind == control || kind == unset {
		return text
	}
	if rest, ok := strings.CutPrefix(text, inside); ok {
		return rest
	}
	return space + text
}

// unmark returns a token of GGUF as WordPiece has it.
func unmark(text string, kind int32) string {
	if kind == control || strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]") {
		return text
	}
	if word, ok := strings.CutPrefix(text, space); ok {
		return word
	}
	return inside + text
}
