package tokenizer

import (
	"encoding/base64"
	"strconv"
	"strings"

	"github.com/tensorfs/tensorfs"
)

// Steps of SentencePiece's normalizer that leave out spaces at both ends of a text,
// and all but one elsewhere. ^ and $ would be the ends of lines.
const (
	outerSpaces = `\A +| +\z`
	innerSpaces = ` {2,}`
)

// unigram reads a tokenizer.json of SentencePiece's Unigram, which encoders have.
func (s *source) unigram(v *Vocabulary) {
	d := s.document
	m := &d.model
	switch {
	case !m.hasList:
		d.fail("its model has no list of tokens and their scores")
	case m.byteFallback:
		d.fail("it has bytes for characters that are no tokens (byte_fallback), which llama.cpp does not do for Unigram")
	}
	steps, cuts := d.steps()
	if len(steps) > 0 && wordsOf(steps[0]) == "Precompiled" {
		var err error
		if v.Charsmap, err = base64.StdEncoding.DecodeString(steps[0].Member("precompiled_charsmap").Text()); err != nil {
			d.fail("its precompiled_charsmap is not base64")
		}
		steps = steps[1:]
	}
	trims := len(steps) == 2 && wordsOf(steps[0]) == "Replace - "+strconv.Quote(outerSpaces)+` ""` && wordsOf(steps[1]) == "Replace - "+strconv.Quote(innerSpaces)+` " "`
	if len(steps) > 0 && !trims {
		d.fail("its normalizer has the step %s, which llama.cpp does not do for Unigram", typeOf(steps[0]))
	}
	if len(cuts) == 2 && wordsOf(cuts[0]) == "WhitespaceSplit" { // which loses spaces, too
		trims, cuts = true, cuts[1:]
	}
	scheme := ""
	if len(cuts) == 1 { // only BPE is affected by whether it splits text
		words := wordsOf(cuts[0])
		scheme = spaceWords[words[:strings.LastIndexByte(words, ' ')+1]+"f"]
	}
	if scheme != "always" && scheme != "first" && scheme != "never" {
		d.fail("its pre_tokenizer treats spaces in a way that llama.cpp does not for Unigram")
	}
	v.Model, v.Pre, v.Flags[flagPrefix], v.Flags[flagTrim] = piecesModel, "default", scheme != "never", trims
	s.segments(v)
	d.check()
	d.fill(v, s.Rows, plainType)
	if k := m.unknownID.Kind(); k == 0 || k == 'n' {
		return
	}
	if id, in, err := rowOf(m.unknownID.String(), len(m.texts)); err != nil || !in {
		d.fail("its unk_id is %s, which is not one of its %d tokens", tensorfs.Quote(m.unknownID.String()), len(m.texts))
	} else if s.err == nil {
		v.Types[id] = unknown
	}
}
