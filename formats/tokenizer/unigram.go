package tokenizer

import (
	"encoding/base64"

	"github.com/tensorfs/tensorfs"
)

// Steps of SentencePiece's normalizer that leave out spaces at both ends of a text,
// and all but one elsewhere. ^ and $ would be the ends of lines.
const (
	outerSpaces = `\A +| +\z`
	innerSpaces = ` {2,}`
)

// unigram reads a tokenizer.json of SentencePiece's Unigram, which encoders have.
func (s *source) unigram(v *Vocabulary) error {
	d := s.document
	m := &d.model
	switch {
	case !m.hasList:
		return d.problem("its model has no list of tokens and their scores")
	case m.byteFallback:
		return d.problem("it has bytes for characters that are no tokens (byte_fallback), which llama.cpp does not do for Unigram")
	}
	steps, ok := flatten(d.normalizer, "normalizers")
	cuts, ok2 := flatten(d.preTokenizer, "pretokenizers")
	if !ok || !ok2 {
		return d.problem("its normalizer or its pre_tokenizer is not a list of steps")
	}
	if len(steps) > 0 && steps[0].Member("type").Text() == "Precompiled" {
		b, err := base64.StdEncoding.DecodeString(steps[0].Member("precompiled_charsmap").Text())
		if err != nil {
			return d.problem("its precompiled_charsmap is not base64")
		}
		v.Charsmap, steps = b, steps[1:]
	}
	trims := len(steps) == 2 && replaces(steps[0], "Regex", outerSpaces, "") && replaces(steps[1], "Regex", innerSpaces, " ")
	if len(steps) > 0 && !trims {
		return d.problem("its normalizer has the step %s, which llama.cpp does not do for Unigram", typeOf(steps[0]))
	}
	if len(cuts) == 2 && cuts[0].Member("type").Text() == "WhitespaceSplit" { // which loses spaces, too
		trims, cuts = true, cuts[1:]
	}
	scheme := "other"
	if len(cuts) == 1 && cuts[0].Member("type").Text() == "Metaspace" {
		scheme = prependScheme(cuts[0])
	}
	if scheme == "other" {
		return d.problem("its pre_tokenizer treats spaces in a way that llama.cpp does not for Unigram")
	}
	v.Model, v.Pre, v.Flags[flagPrefix], v.Flags[flagTrim] = "t5", "default", scheme != "never", trims
	if err := s.segments(v); err != nil {
		return err
	}
	if err := d.check(); err != nil {
		return err
	}
	if err := d.fill(v, s.Rows, plainType); err != nil {
		return err
	}
	if k := m.unknownID.Kind(); k == 0 || k == 'n' {
		return nil
	}
	id, in, err := rowOf(m.unknownID.String(), len(m.texts))
	if err != nil || !in {
		return d.problem("its unk_id is %s, which is not one of its %d tokens", tensorfs.Quote(m.unknownID.String()), len(m.texts))
	}
	v.Types[id] = unknown
	return nil
}
