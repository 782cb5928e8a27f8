package tokenizer

import (
	"slices"
	"strconv"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
)

// noteNFC is what llama.cpp leaves out of many tokenizers of Qwen and others.
const noteNFC = "llama.cpp does not compose characters (NFC) as the source does: text with decomposed accents has other tokens"

// byteBPE reads a tokenizer.json whose tokens are bytes, which OpenAI's GPT-2
// began: each byte is a printable character.
func (s *source) byteBPE(v *Vocabulary) {
	d := s.document
	nfc, ok := composes(d.normalizer)
	if d.plain(); !ok {
		d.fail("its normalizer %s is not one that llama.cpp can leave out", typeOf(d.normalizer))
	}
	if nfc {
		v.Notes = append(v.Notes, noteNFC)
	}
	v.Model = BytesModel
	s.preTokenizer(v)
	if s.habit.Segments > 0 {
		s.segments(v)
	}
	s.bpe(v, addedType)
}

// bpe reads the tokens and merges of either BPE.
func (s *source) bpe(v *Vocabulary, kind func(a addedToken) (int32, string)) {
	d := s.document
	rows := s.Rows
	if n := len(d.model.texts) + d.listed; s.habit.Cut && n < rows {
		rows = n
	}
	last := 0 // id
	for _, id := range d.model.ids {
		last = max(last, int(id))
	}
	d.check()
	for _, a := range d.added {
		last = max(last, a.id)
	}
	if last >= rows {
		d.fail("its ids have gaps: one is %d, and there are %d tokens", last, rows)
	}
	v.Merges = d.model.merges
	d.fill(v, rows, kind)
}

// plain refuses what no tokenizer.json of a known kind has in its BPE.
func (d *document) plain() {
	switch m := &d.model; {
	case !m.hasVocab:
		d.fail("its model has no vocabulary")
	case !m.hasMerges:
		d.fail("its model has no merges")
	case m.prefix != "" || m.suffix != "":
		d.fail("its tokens are marked inside of words or at their end (%s, %s), which llama.cpp's BPE does not know",
			tensorfs.Quote(m.prefix), tensorfs.Quote(m.suffix))
	case m.dropout:
		d.fail("its merges are dropped at random (dropout)")
	}
}

// charBPE reads a tokenizer.json whose tokens are characters, with bytes for those
// it does not have: SentencePiece's BPE in Hugging Face's form.
func (s *source) charBPE(v *Vocabulary) {
	d := s.document
	switch d.plain(); {
	case d.model.ignoreMerges:
		d.fail("it ignores its merges for words that are tokens (ignore_merges), which llama.cpp does not do for this kind")
	case d.decoder.Member("type").Text() != "Sequence":
		d.fail("its decoder %s is not the Sequence that tokenizers with byte_fallback have", typeOf(d.decoder))
	}
	v.Flags[flagPrefix] = d.spacePrefix(s.habit.Model)
	s.beginLlama(v)
	s.bpe(v, plainType)
	if v.Model, v.Pre = charsModel, "default"; s.habit.Model == textModel {
		v.Model, v.Pre, v.Scores = textModel, "", slices.Repeat([]float32{addedScore}, len(v.Tokens)) // never read
	}
	visible := s.habit.Visible
	for id, text := range v.Tokens {
		switch {
		case slices.Contains(visible, text):
			v.Types[id] = userDefined
		case v.Types[id] != normal:
		case isByte(text):
			v.Types[id] = byteToken
		case text == d.model.unknown:
			v.Types[id] = control
		}
	}
}

// isByte reports whether a token's text denotes a byte, such as "<0x0A>".
func isByte(text string) bool {
	return len(text) == len("<0x00>") && strings.HasPrefix(text, "<0x") && text[5] == '>' && isHex(text[3]) && isHex(text[4])
}

func isHex(c byte) bool { return strings.IndexByte("0123456789ABCDEFabcdef", c) >= 0 }

// spaceWords name the steps of a normalizer or a pre_tokenizer that treat spaces, by the
// result of [wordsOf].
var spaceWords = map[string]string{
	`Prepend "▁"`:              "prepend",
	`Replace " " - "▁"`:        "replace",
	`Metaspace "▁" "always" f`: "always", `Metaspace "▁" "first" f`: "first", `Metaspace "▁" "never" f`: "never",
	`Split " " - "MergedWithPrevious" f`:    "spaces", // as Gemma
	`Split - "[^\\n]+|[\\n]+" "Isolated" f`: "lines",  // as Files writes
}

// spaceSteps are normalizers and pre_tokenizers that treat spaces as llama.cpp does, and
// whether they put one before a text. Before the model that is the only one to do so is
// its name.
var spaceSteps = map[string]bool{
	"prepend replace |": true, "| always": true, "| first": true, "replace | always": true, "replace | first": true,
	"| never": false, "replace | never": false, "replace |": false, "replace | spaces": false, textModel + ": replace | lines": false,
}

// spacePrefix returns whether a space is put before a text by a tokenizer that becomes
// one of a model. It refuses what does not treat spaces as llama.cpp does.
func (d *document) spacePrefix(model string) bool {
	normalizers, cuts := d.steps()
	steps := ""
	for _, r := range normalizers {
		name := spaceWords[wordsOf(r)]
		if steps += name + " "; name == "" {
			d.fail("its normalizer has the step %s, which llama.cpp does not do for this kind", typeOf(r))
		}
	}
	if steps += "|"; len(cuts) > 1 {
		d.fail("its pre_tokenizer has %d steps, and llama.cpp does not cut text for this kind", len(cuts))
	}
	for _, r := range cuts {
		steps += " " + spaceWords[wordsOf(r)]
	}
	prefix, ok := spaceSteps[steps]
	if _, only := spaceSteps[model+": "+steps]; !ok && !only || prefix && model == textModel {
		d.fail("its normalizer (%d steps) and pre_tokenizer (%d steps) treat spaces in a way that llama.cpp does not", len(normalizers), len(cuts))
	}
	return prefix
}

// steps returns the steps of the normalizer and of the pre_tokenizer.
func (d *document) steps() (normalizers, cuts []jsonobj.Raw) {
	normalizers, ok := flatten(d.normalizer, "normalizers")
	if !ok {
		d.fail("its normalizer is not a list of steps")
	}
	if cuts, ok = flatten(d.preTokenizer, "pretokenizers"); !ok {
		d.fail("its pre_tokenizer is not a list of steps")
	}
	return normalizers, cuts
}

// stepFields are what the steps of a type do, by the paths of their fields.
var stepFields = map[string]string{
	"Prepend": "prepend", "Replace": "pattern.String pattern.Regex content", "Metaspace": "replacement prepend_scheme split",
	"Split": "pattern.String pattern.Regex behavior invert", "Precompiled": "", "WhitespaceSplit": "", "NFC": "",
}

// wordsOf describes a step in words: its type and its fields, texts in quotation marks, a
// hyphen for a missing field, and all else by the first letter of its JSON. It is empty for
// types that stepFields does not have.
func wordsOf(r jsonobj.Raw) string {
	words := r.Member("type").Text()
	fields, ok := stepFields[words]
	if !ok {
		return ""
	}
	for field := range strings.FieldsSeq(fields) {
		value := r
		for name := range strings.SplitSeq(field, ".") {
			value = value.Member(name)
		}
		switch k := value.Kind(); k {
		case '"':
			words += " " + strconv.Quote(value.Text())
		case 0:
			words += " -"
		default:
			words += " " + string(rune(k))
		}
	}
	return words
}

// composes reports whether a normalizer does no more than NFC, and whether it
// does that. A Sequence of nothing does nothing.
func composes(r jsonobj.Raw) (nfc, ok bool) {
	list, ok := flatten(r, "normalizers")
	for _, n := range list {
		if n.Member("type").Text() != "NFC" {
			return false, false
		}
		nfc = true
	}
	return nfc, ok
}

// maxDepth bounds Sequences inside of Sequences.
const maxDepth = 8

// flatten returns the elements of Sequences of normalizers, pre-tokenizers or the like, in
// order. It is false if r is not one, or if they are nested too deep.
func flatten(r jsonobj.Raw, key string) ([]jsonobj.Raw, bool) {
	if r.Kind() == 0 || r.Kind() == 'n' {
		return nil, true
	}
	return flattenTo(nil, r, key, maxDepth)
}

func flattenTo(list []jsonobj.Raw, r jsonobj.Raw, key string, depth int) ([]jsonobj.Raw, bool) {
	switch {
	case r.Kind() != '{' || depth == 0:
		return nil, false
	case r.Member("type").Text() != "Sequence":
		return append(list, r), true
	case r.Member(key).Kind() != '[':
		return nil, false
	}
	ok := true
	for e := range r.Member(key).Elements() {
		if list, ok = flattenTo(list, e, key, depth-1); !ok {
			return nil, false
		}
	}
	return list, true
}

// typeOf returns the type of a normalizer, a pre-tokenizer or the like, for
// messages.
func typeOf(r jsonobj.Raw) string { return tensorfs.Quote(r.Member("type").Text()) }
