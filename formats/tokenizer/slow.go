package tokenizer

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
)

// slowPre are the classes of tokenizers that have vocab.json and merges.txt and
// whose pre-tokenizer is known although no file says it.
var slowPre = map[string]struct {
	pre string
	nfc bool
}{
	"GPT2Tokenizer": {"gpt-2", false}, "GPT2TokenizerFast": {"gpt-2", false},
	"Qwen2Tokenizer": {"qwen2", true}, "Qwen2TokenizerFast": {"qwen2", true},
}

// slow reads vocab.json and merges.txt, which tokenizers had before there was a
// tokenizer.json; nil where they are not there.
func (s *source) slow() (*vocabulary, error) {
	const vocabName, mergesName = "vocab.json", "merges.txt"
	vocab, err := s.read(vocabName, maxFile)
	if vocab == nil || err != nil {
		return nil, err
	}
	lines, err := s.read(mergesName, maxFile)
	if lines == nil || err != nil {
		return nil, err
	}
	class, ok := slowPre[s.class]
	if !ok {
		return nil, fmt.Errorf("the model has %s and %s without %s, and for the class %s that does not say how text is cut into words", vocabName, mergesName, jsonName, tensorfs.Quote(s.class))
	}
	v := &vocabulary{model: "gpt2", pre: class.pre, merges: []string{}}
	if class.nfc {
		v.notes = append(v.notes, noteNFC)
	}
	d := &document{file: vocabName}
	p := newParser(vocabName, vocab, s.Rows)
	p.vocab(&d.model)
	if err := p.end(); err != nil {
		return nil, err
	}
	if !d.model.hasVocab {
		return nil, d.problem("it is not an object")
	}
	if d.model.merges, err = parseMerges(mergesName, lines); err != nil {
		return nil, err
	}
	if d.added, err = s.slowAdded(&d.model); err != nil {
		return nil, err
	}
	if err := d.model.check(d, s.Rows, nil); err != nil {
		return nil, err
	}
	v.merges = mergeLines(d.model.merges)
	if prefix, ok := boolean(s.settings.Raw("add_prefix_space")); ok && prefix {
		if class.pre != "gpt-2" {
			return nil, fmt.Errorf(settingsName+": a space is put before the text (add_prefix_space), which llama.cpp does for gpt-2 and not for %s", class.pre)
		}
		v.extra = append(v.extra, tensorfs.Meta{Key: "tokenizer.ggml.add_space_prefix", Value: true})
	}
	v.tokens, err = d.table(s.Rows, false, func(a addedToken) (int32, string) { return addedType(a.content, a.special) })
	return v, err
}

// parseMerges reads a merges.txt: a comment with a version, then a merge on each
// line.
func parseMerges(name string, b []byte) ([]merge, error) {
	if !utf8.Valid(b) {
		return nil, fmt.Errorf("%s: it is not UTF-8", name)
	}
	list, first := make([]merge, 0, bytes.Count(b, []byte("\n"))), true
	for line := range strings.Lines(string(b)) {
		line = strings.TrimRight(line, "\r\n")
		comment := first && strings.HasPrefix(line, "#version")
		first = false
		if comment || line == "" {
			continue
		}
		e, ok := cutMerge(line)
		if !ok {
			return nil, fmt.Errorf("%s: its merge %d is %s, which is not two tokens with a space between", name, len(list), tensorfs.Quote(line))
		}
		list = append(list, e)
	}
	return list, nil
}

// slowAdded returns the tokens that other files add. Without a tokenizer.json a
// token is special if some file names it for a role.
func (s *source) slowAdded(m *model) ([]addedToken, error) {
	special := map[string]bool{"<|endoftext|>": true} // of both classes, unless they say another
	const mapName = "special_tokens_map.json"
	named, err := s.object(mapName)
	if err != nil {
		return nil, err
	}
	for _, role := range roles {
		for _, r := range []jsonobj.Raw{s.settings.Raw(role.name + "_token"), named.Raw(role.name + "_token")} {
			special[r.Text()] = true
			special[r.Member("content").Text()] = true
		}
	}
	for e := range s.settings.Raw("additional_special_tokens").Elements() {
		special[e.Text()] = true
	}
	for e := range named.Raw("additional_special_tokens").Elements() {
		special[e.Text()] = true
	}
	delete(special, "")
	var list []addedToken
	at := map[int]int{}
	add := func(id int, text string, special bool) {
		if i, ok := at[id]; ok {
			list[i] = addedToken{id, text, special}
			return
		}
		at[id] = len(list)
		list = append(list, addedToken{id, text, special})
	}
	for i, text := range m.texts {
		if special[text] {
			add(int(m.ids[i]), text, true)
		}
	}
	others, err := s.object(addedName)
	if err != nil {
		return nil, err
	}
	for text, r := range others.All() {
		id, in, err := s.rowOf(r.String())
		switch {
		case err != nil:
			return nil, fmt.Errorf(addedName+": the id of %s: %w", tensorfs.Quote(text), err)
		case !in:
			return nil, fmt.Errorf(addedName+": the id of %s is past the %d rows of the embedding", tensorfs.Quote(text), s.Rows)
		}
		add(id, text, special[text])
	}
	return list, s.decoder(add)
}
