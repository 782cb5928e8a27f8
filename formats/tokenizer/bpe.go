package tokenizer

import (
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
)

// noteNFC is what llama.cpp leaves out of many tokenizers of Qwen and others.
const noteNFC = "llama.cpp does not compose characters (NFC) as the source does: text with decomposed accents has other tokens"

// bpe reads a tokenizer.json whose tokens are bytes, which OpenAI's GPT-2 began:
// each byte is a printable character.
func (s *source) bpe() (*vocabulary, error) {
	d := s.document
	m := &d.model
	v := &vocabulary{model: "gpt2", merges: []string{}}
	if err := m.plain(d); err != nil {
		return nil, err
	}
	nfc, ok := composes(d.normalizer)
	if !ok {
		return nil, d.problem("its normalizer %s is not one that llama.cpp can leave out", typeOf(d.normalizer))
	}
	if nfc {
		v.notes = append(v.notes, noteNFC)
	}
	var prefix bool
	var err error
	if v.pre, prefix, err = s.preTokenizer(); err != nil {
		return nil, err
	}
	if prefix {
		v.extra = append(v.extra, tensorfs.Meta{Key: "tokenizer.ggml.add_space_prefix", Value: true})
	}
	if err := m.check(d, s.Rows, nil); err != nil {
		return nil, err
	}
	v.merges = mergeLines(m.merges)
	rows, err := s.cut()
	if err != nil {
		return nil, err
	}
	v.tokens, err = d.table(rows, false, func(a addedToken) (int32, string) { return addedType(a.content, a.special) })
	return v, err
}

// plain returns an error for what no tokenizer.json of a known kind has in its
// BPE.
func (m *model) plain(d *document) error {
	switch {
	case !m.hasVocab:
		return d.problem("its model has no vocabulary")
	case !m.hasMerges:
		return d.problem("its model has no merges")
	case m.prefix != "" || m.suffix != "":
		return d.problem("its tokens are marked inside of words or at their end (%s, %s), which llama.cpp's BPE does not know", tensorfs.Quote(m.prefix), tensorfs.Quote(m.suffix))
	case m.dropout:
		return d.problem("its merges are dropped at random (dropout)")
	}
	return nil
}

// cut returns how many tokens there are: as many as the embedding has rows. The
// embedding of gemma3 is cut to the vocabulary.
func (s *source) cut() (int, error) {
	d := s.document
	n := len(d.model.texts) + len(d.added)
	if s.Architecture != "gemma3" || n >= s.Rows {
		return s.Rows, nil
	}
	for _, id := range d.model.ids {
		if int(id) >= n {
			return 0, d.problem("its ids have gaps: one is %d, and there are %d tokens", id, n)
		}
	}
	for _, a := range d.added {
		if a.id >= n {
			return 0, d.problem("its ids have gaps: one is %d, and there are %d tokens", a.id, n)
		}
	}
	return n, nil
}

// mergeLines returns merges as GGUF has them. A space inside of a token becomes
// the character that stands for it in bytes' alphabet.
func mergeLines(merges []merge) []string {
	var all []byte
	ends := make([]int, len(merges))
	for i, e := range merges {
		all = appendToken(append(appendToken(all, e.left), ' '), e.right)
		ends[i] = len(all)
	}
	lines, text, start := make([]string, len(merges)), string(all), 0
	for i, end := range ends {
		lines[i], start = text[start:end], end
	}
	return lines
}

const byteSpace = "\u0120"

func appendToken(b []byte, token string) []byte {
	if strings.IndexByte(token, ' ') < 0 {
		return append(b, token...)
	}
	return append(b, strings.ReplaceAll(token, " ", byteSpace)...)
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

// flatten returns the elements of Sequences of normalizers, pre-tokenizers or the
// like, in order. It is false where they are nested too deep, or are none.
func flatten(r jsonobj.Raw, key string) ([]jsonobj.Raw, bool) {
	return flattenTo(nil, r, key, maxDepth)
}

func flattenTo(list []jsonobj.Raw, r jsonobj.Raw, key string, depth int) ([]jsonobj.Raw, bool) {
	switch {
	case r.Kind() == 0 || r.Kind() == 'n':
		return list, true
	case r.Kind() != '{' || depth == 0:
		return nil, false
	case r.Member("type").Text() != "Sequence":
		return append(list, r), true
	case r.Member(key).Kind() != '[':
		return nil, false
	}
	ok := true
	for e := range r.Member(key).Elements() {
		if e.Kind() != '{' {
			return nil, false
		}
		if list, ok = flattenTo(list, e, key, depth-1); !ok {
			return nil, false
		}
	}
	return list, true
}

// typeOf returns the type of a normalizer, a pre-tokenizer or the like, for
// messages.
func typeOf(r jsonobj.Raw) string { return tensorfs.Quote(r.Member("type").Text()) }
