package tokenizer

import (
	"strings"

	"github.com/tensorfs/tensorfs"
)

// model reads the model of a tokenizer.json.
func (p *parser) model(m *model) {
	for name := range p.members("its model") {
		switch name {
		case "type":
			m.kind = p.optional("its model's type")
		case "unk_token":
			m.unknown = p.optional("its unk_token")
		case "continuing_subword_prefix":
			m.prefix = p.optional("its continuing_subword_prefix")
		case "end_of_word_suffix":
			m.suffix = p.optional("its end_of_word_suffix")
		case "byte_fallback":
			m.byteFallback = p.boolean("its byte_fallback")
		case "ignore_merges":
			m.ignoreMerges = p.boolean("its ignore_merges")
		case "dropout":
			m.dropout = !zero(p.value())
		case "max_input_chars_per_word":
			m.hasMaxChars = true
			p.skip()
		case "vocab":
			p.vocab(m)
		case "merges":
			p.merges(m)
		default:
			p.skip()
		}
	}
}

// zero reports whether a JSON value is null or a number that is 0.
func zero(v string) bool {
	return v == "null" || v != "" && strings.Trim(v, "0.") == ""
}

// vocab reads texts and their ids.
func (p *parser) vocab(m *model) {
	if m.hasVocab || m.hasList {
		p.fail("its model has two vocabularies")
		return
	}
	if p.kind() == '[' { // of Unigram, with scores
		m.hasList = true
		p.skip()
		return
	}
	m.hasVocab = true
	n := min(p.rows, len(p.text)/len(`"":0,`))
	m.texts, m.ids = make([]string, 0, n), make([]int32, 0, n)
	for text := range p.members("its vocabulary") {
		id, in := p.id(func() string { return "the token " + tensorfs.Quote(text) })
		if p.err == nil && !in {
			p.outside("the token " + tensorfs.Quote(text))
		}
		if p.err == nil && len(m.texts) == p.rows {
			p.fail("its vocabulary has more tokens than the embedding has rows, %d", p.rows)
		}
		if p.err != nil {
			return
		}
		m.texts = append(m.texts, text)
		m.ids = append(m.ids, int32(id))
	}
}

// merges reads pairs of tokens, or lines of two tokens with a space between.
func (p *parser) merges(m *model) {
	if m.hasMerges {
		p.fail("its model has two lists of merges")
		return
	}
	m.hasMerges = true
	m.merges = make([]merge, 0, len(m.texts)) // most tokens are made by a merge
	for range p.elements("its merges") {
		var e merge
		if p.kind() == '"' {
			line := p.string("a merge")
			var ok bool
			if e, ok = cutMerge(line); !ok && p.err == nil {
				p.fail("its merge %d is %s, which is not two tokens with a space between", len(m.merges), tensorfs.Quote(line))
			}
		} else {
			n := 0
			for range p.elements("a merge") {
				switch n++; n {
				case 1:
					e.left = p.string("a token of a merge")
				case 2:
					e.right = p.string("a token of a merge")
				default:
					p.skip()
				}
			}
			if n != 2 {
				p.fail("its merge %d has %d tokens, and 2 become one", len(m.merges), n)
			} else if e.left == "" || e.right == "" {
				p.fail("its merge %d has an empty token", len(m.merges))
			}
		}
		if p.err != nil {
			return
		}
		m.merges = append(m.merges, e)
	}
}

// cutMerge cuts a line of two tokens.
func cutMerge(line string) (merge, bool) {
	left, right, ok := strings.Cut(line, " ")
	return merge{left, right}, ok && left != "" && right != "" && strings.IndexByte(right, ' ') < 0
}

// check holds that no text and no id of the vocabulary is there twice, and that
// both tokens of each merge and what becomes of them are in it. It calls join, if
// any, with the number of each merge and the place of its token.
func (m *model) check(d *document, rows int, join func(rank, token int)) error {
	if err := inProportion(rows, len(m.ids)+len(d.added)); err != nil {
		return err
	}
	x := newIndex(m.texts)
	used := make([]bool, rows)
	for i, text := range m.texts {
		if _, ok := x.add(int32(i)); !ok {
			return d.problem("its vocabulary has the token %s twice", tensorfs.Quote(text))
		}
		if used[m.ids[i]] {
			return d.problem("its vocabulary has the id %d twice", m.ids[i])
		}
		used[m.ids[i]] = true
	}
	var joined []byte
	for rank, e := range m.merges {
		joined = append(append(joined[:0], e.left...), e.right...)
		left, _ := x.find(e.left)
		right, _ := x.find(e.right)
		token, _ := x.findBytes(joined)
		if left < 0 || right < 0 || token < 0 {
			return d.problem("its merge %d, of %s and %s, is of tokens that are not in the vocabulary", rank, tensorfs.Quote(e.left), tensorfs.Quote(e.right))
		}
		if join != nil {
			join(rank, int(token))
		}
	}
	return nil
}

// table returns the tokens by id, those of the vocabulary and then those added.
func (d *document) table(rows int, scores bool, kind func(t addedToken) (int32, string)) (tokens, error) {
	t, err := newTokens(rows, len(d.model.ids)+len(d.added), scores)
	if err != nil {
		return tokens{}, err
	}
	for i, id := range d.model.ids {
		t.set(int(id), d.model.texts[i], normal, 0)
	}
	seen := make(map[int]string, len(d.added))
	for _, a := range d.added {
		if other, ok := seen[a.id]; ok {
			return tokens{}, d.problem("its added tokens %s and %s have the same id, %d", tensorfs.Quote(other), tensorfs.Quote(a.content), a.id)
		}
		seen[a.id] = a.content
		k, text := kind(a)
		t.set(a.id, text, k, 0)
	}
	return t, nil
}
