package tokenizer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
)

// textPre are the names under which the tokens of model gpt2 are text as it is.
var textPre = map[string]bool{"gemma4": true, "sarvam-moe": true}

// byteBPE writes BPE of bytes: see (*source).bpe.
func (s *stored) byteBPE() (*form, error) {
	pre := s.text("tokenizer.ggml.pre")
	if textPre[pre] {
		return s.textBPE()
	}
	row := preNamed(pre)
	if row == nil {
		return nil, fmt.Errorf("its tokenizer.ggml.pre is %s, and it is not known how texts are cut under that name", tensorfs.Quote(pre))
	}
	if err := s.read(false, asStored); err != nil {
		return nil, err
	}
	f := &form{normalizer: "null", decoder: `{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true}`}
	if row.Normalizer != "" {
		f.normalizer = `{"type":` + quoted(row.Normalizer) + `}`
	}
	f.preTokenizer = `{"type":"Sequence","pretokenizers":[`
	for _, split := range row.Split {
		f.preTokenizer += splitStep(split) + `,`
	}
	f.preTokenizer += `{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false}]}`
	if row.Sep {
		f.around = s.begins(true, true, []string{"cls", "bos"}, []string{"sep", "eos"})
		f.around.pairs = sepTwice
	} else {
		f.around = s.begins(row.AddBosDefault, false, []string{"bos"}, []string{"eos"})
	}
	f.around.bytes = true
	f.model = s.bpeModel(bpeSettings{unknown: "null", ignoreMerges: row.IgnoreMerges})
	return f, nil
}

// splitStep is a pre-tokenizer that cuts before and after what matches.
func splitStep(expression string) string {
	return `{"type":"Split","pattern":{"Regex":` + quoted(expression) + `},"behavior":"Isolated","invert":false}`
}

// textBPE writes BPE of text with bytes for characters that are not tokens, whose
// merges are said.
func (s *stored) textBPE() (*form, error) {
	if err := s.read(false, asStored); err != nil {
		return nil, err
	}
	f := &form{
		normalizer:   replaceSpaces,
		preTokenizer: splitStep(`[^\n]+|[\n]+`),
		decoder:      `{"type":"Sequence","decoders":[` + restoreSpaces + `,{"type":"ByteFallback"},{"type":"Fuse"}]}`,
		around:       s.begins(false, false, nil, []string{"eos"}),
		model:        s.bpeModel(bpeSettings{unknown: s.unknown(), fuse: true, fallback: true}),
	}
	f.around.first = s.id("bos") // whatever the file says
	return f, nil
}

const (
	replaceSpaces = `{"type":"Replace","pattern":{"String":" "},"content":"` + space + `"}`
	restoreSpaces = `{"type":"Replace","pattern":{"String":"` + space + `"},"content":" "}`
)

// sentencepieceBPE writes SentencePiece's BPE. A Metaspace in its place would cut
// at each word, and there are tokens across spaces.
func (s *stored) sentencepieceBPE() (*form, error) {
	if err := s.read(true, asStored); err != nil {
		return nil, err
	}
	prepend, strip := "", ""
	if s.flag("tokenizer.ggml.add_space_prefix", true) {
		prepend = `{"type":"Prepend","prepend":"` + space + `"},`
		strip = `,{"type":"Strip","content":" ","start":1,"stop":0}`
	}
	return &form{
		normalizer:   `{"type":"Sequence","normalizers":[` + prepend + replaceSpaces + `]}`,
		preTokenizer: "null",
		decoder:      `{"type":"Sequence","decoders":[` + restoreSpaces + `,{"type":"ByteFallback"},{"type":"Fuse"}` + strip + `]}`,
		around:       s.begins(true, false, []string{"bos"}, []string{"eos"}),
		model:        s.bpeModel(bpeSettings{unknown: s.unknown(), fuse: true, fallback: s.hasBytes(), scored: true}),
	}, nil
}

// unknown returns the token for what no other token fits, as JSON.
func (s *stored) unknown() string {
	if id := s.id("unk"); id >= 0 {
		return quoted(s.tokens.texts[id])
	}
	return "null"
}

// hasBytes reports whether each byte has a token.
func (s *stored) hasBytes() bool {
	for c := range 256 {
		if id, _ := s.index.find(fmt.Sprintf("<0x%02X>", c)); id < 0 {
			return false
		}
	}
	return true
}

type bpeSettings struct {
	unknown                      string // JSON
	fuse, fallback, ignoreMerges bool
	scored                       bool // merges follow from scores where none are said
}

// bpeModel returns what writes the model.
func (s *stored) bpeModel(o bpeSettings) func(b []byte) ([]byte, error) {
	return func(b []byte) ([]byte, error) {
		merges, said, err := s.saidMerges()
		switch {
		case err != nil:
			return nil, err
		case !said && !o.scored:
			return nil, fmt.Errorf("the file has no %s", keyMerges)
		case !said:
			if merges, err = s.scoredMerges(); err != nil {
				return nil, err
			}
		}
		b = append(b, `{"type":"BPE","dropout":null,"unk_token":`+o.unknown+`,"continuing_subword_prefix":null,"end_of_word_suffix":null,"fuse_unk":`...)
		b = append(appendBool(b, o.fuse), `,"byte_fallback":`...)
		b = append(appendBool(b, o.fallback), `,"ignore_merges":`...)
		b = append(appendBool(b, o.ignoreMerges), `,"vocab":`...)
		if b, err = s.appendVocab(b); err != nil {
			return nil, err
		}
		b, err = s.appendMerges(append(b, `,"merges":`...), merges)
		return append(b, '}'), err
	}
}

// appendMerges appends merges as lines, which all versions of the library can
// read, or as pairs where a token has a space.
func (s *stored) appendMerges(b []byte, merges []mergePair) ([]byte, error) {
	open, between, end := `"`, ` `, `"`
	size := 0
	for _, m := range merges {
		left, right := s.tokens.texts[m.left], s.tokens.texts[m.right]
		if strings.Contains(left, " ") || strings.Contains(right, " ") {
			open, between, end = `["`, `","`, `"]`
		}
		size += len(left) + len(right) + len(`["",""],`)
	}
	b = append(slices.Grow(b, min(size, maxFile)), '[')
	for i, m := range merges {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendEscaped(append(b, open...), s.tokens.texts[m.left])
		b = appendEscaped(append(b, between...), s.tokens.texts[m.right])
		b = append(b, end...)
		if len(b) > maxFile {
			return nil, errLarge
		}
	}
	return append(b, ']'), nil
}
