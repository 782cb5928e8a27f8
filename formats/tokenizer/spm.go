package tokenizer

import (
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
)

// unmerged is the score of tokens that no merge makes.
const unmerged = -1000000

// spm reads a tokenizer.json whose tokens are characters, with bytes for those it
// does not have: SentencePiece's BPE in Hugging Face's form.
//
// llama.cpp joins the pair whose token has the highest score. With the rank of
// the merge as score it joins as the source does. Its converter writes the same
// score for all, which gives other tokens.
func (s *source) spm() (*vocabulary, error) {
	d := s.document
	m := &d.model
	if err := m.plain(d); err != nil {
		return nil, err
	}
	switch {
	case m.ignoreMerges:
		return nil, d.problem("it ignores its merges for words that are tokens (ignore_merges), which llama.cpp does not do for this kind")
	case d.decoder.Member("type").Text() != "Sequence":
		return nil, d.problem("its decoder %s is not the Sequence that tokenizers with byte_fallback have", typeOf(d.decoder))
	}
	prefix, err := d.spacePrefix()
	if err != nil {
		return nil, err
	}
	rows, err := s.cut()
	if err != nil {
		return nil, err
	}
	scores := make([]float32, len(m.texts))
	for i := range scores {
		scores[i] = unmerged
	}
	err = m.check(d, s.Rows, func(rank, token int) {
		if scores[token] == unmerged {
			scores[token] = float32(-rank)
		}
	})
	if err != nil {
		return nil, err
	}
	v := &vocabulary{model: "llama", pre: "default", extra: []tensorfs.Meta{{Key: "tokenizer.ggml.add_space_prefix", Value: prefix}}}
	v.tokens, err = d.table(rows, true, func(a addedToken) (int32, string) {
		if a.special {
			return control, a.content
		}
		return userDefined, a.content
	})
	if err != nil {
		return nil, err
	}
	for _, a := range d.added {
		v.tokens.scores[a.id] = unmerged
	}
	for i, id := range m.ids {
		if v.tokens.texts[id] != m.texts[i] {
			continue // an added token took its place
		}
		v.tokens.scores[id] = scores[i]
		if v.tokens.types[id] != normal {
			continue
		}
		switch text := m.texts[i]; {
		case isByte(text):
			v.tokens.types[id] = byteToken
		case text == m.unknown:
			v.tokens.types[id] = control
		}
	}
	v.flags = s.llamaFlags()
	return v, nil
}

// isByte reports whether a token is that of a byte, as "<0x0A>".
func isByte(text string) bool {
	return len(text) == len("<0x00>") && strings.HasPrefix(text, "<0x") && text[5] == '>' && isHex(text[3]) && isHex(text[4])
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'A' && c <= 'F' || c >= 'a' && c <= 'f'
}

// spacePrefix returns whether a space is put before a text. The error says that
// spaces are not treated as llama.cpp does.
func (d *document) spacePrefix() (bool, error) {
	normalizers, ok := flatten(d.normalizer, "normalizers")
	if !ok {
		return false, d.problem("its normalizer is not a list of steps")
	}
	cuts, ok := flatten(d.preTokenizer, "pretokenizers")
	if !ok {
		return false, d.problem("its pre_tokenizer is not a list of steps")
	}
	var names []string
	for _, r := range normalizers {
		switch {
		case r.Member("type").Text() == "Prepend" && r.Member("prepend").Text() == space:
			names = append(names, "prepend")
		case r.Member("type").Text() == "Replace" && r.Member("pattern").Member("String").Text() == " " && r.Member("content").Text() == space:
			names = append(names, "replace")
		default:
			return false, d.problem("its normalizer has the step %s, which llama.cpp does not do for this kind", typeOf(r))
		}
	}
	if len(cuts) > 1 {
		return false, d.problem("its pre_tokenizer has %d steps, and llama.cpp does not cut text for this kind", len(cuts))
	}
	cut := ""
	if len(cuts) == 1 {
		cut = spaceCut(cuts[0])
	}
	prefix, ok := map[string]bool{
		"prepend replace | ": true,
		" | always":          true, " | first": true, " | never": false,
		"replace | always": true, "replace | first": true, "replace | never": false,
		"replace | split": false, // as Gemma
	}[strings.Join(names, " ")+" | "+cut]
	if !ok {
		return false, d.problem("its normalizer (%d steps) and pre_tokenizer (%d steps) treat spaces in a way that llama.cpp does not", len(normalizers), len(cuts))
	}
	return prefix, nil
}

// spaceCut names a pre-tokenizer that is known to leave text whole, but for a
// space that it puts before it.
func spaceCut(r jsonobj.Raw) string {
	switch r.Member("type").Text() {
	case "Metaspace":
		split, ok := boolean(r.Member("split"))
		if ok && !split && r.Member("replacement").Text() == space {
			switch scheme := r.Member("prepend_scheme").Text(); scheme {
			case "always", "first", "never":
				return scheme
			}
		}
	case "Split":
		invert, ok := boolean(r.Member("invert"))
		if ok && !invert && r.Member("pattern").Member("String").Text() == " " && r.Member("behavior").Text() == "MergedWithPrevious" {
			return "split"
		}
	}
	return "other"
}
