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
var slowPre = map[string]string{"GPT2Tokenizer": "gpt-2", "GPT2TokenizerFast": "gpt-2", "Qwen2Tokenizer": "qwen2", "Qwen2TokenizerFast": "qwen2"}

// slow reads vocab.json and merges.txt, which tokenizers had before there was a
// tokenizer.json. It is false where they are not there.
func (s *source) slow(v *Vocabulary) (bool, error) {
	const vocabName, mergesName = "vocab.json", "merges.txt"
	vocab, err := s.read(vocabName, maxFile)
	if vocab == nil || err != nil {
		return false, err
	}
	lines, err := s.read(mergesName, maxFile)
	if lines == nil || err != nil {
		return false, err
	}
	v.Model, v.Pre = "gpt2", slowPre[s.class]
	switch v.Pre {
	case "":
		return true, fmt.Errorf("the model has %s and %s without %s, and for the class %s that does not say how text is cut into words", vocabName, mergesName, jsonName, tensorfs.Quote(s.class))
	case "qwen2":
		v.Notes = append(v.Notes, noteNFC)
	}
	d := &document{file: vocabName, rows: s.Rows}
	if d.readVocab(d.parse(vocab)); d.err != nil {
		return true, d.err
	}
	if d.model.merges, err = parseMerges(mergesName, lines); err != nil {
		return true, err
	}
	if err = s.slowAdded(d); err != nil {
		return true, err
	}
	if err := d.check(); err != nil {
		return true, err
	}
	v.Merges = d.model.merges
	if prefix, ok := boolean(s.settings.Raw("add_prefix_space")); ok && prefix {
		if v.Pre != "gpt-2" {
			return true, fmt.Errorf(settingsName+": a space is put before the text (add_prefix_space), which llama.cpp does for gpt-2 and not for %s", v.Pre)
		}
		v.Flags[flagPrefix] = true
	}
	return true, d.fill(v, s.Rows, addedType)
}

// parseMerges reads a merges.txt: a comment with a version, then a merge on each
// line.
func parseMerges(name string, b []byte) ([]Merge, error) {
	if !utf8.Valid(b) {
		return nil, fmt.Errorf("%s: it is not UTF-8", name)
	}
	list, first := make([]Merge, 0, bytes.Count(b, []byte("\n"))), true
	for line := range strings.Lines(string(b)) {
		line = strings.TrimRight(line, "\r\n")
		comment := first && strings.HasPrefix(line, "#version")
		first = false
		if comment || line == "" {
			continue
		}
		m, ok := cutMerge(line)
		if !ok {
			return nil, fmt.Errorf("%s: its merge %d is %s, which is not two tokens with a space between", name, len(list), tensorfs.Quote(line))
		}
		list = append(list, m)
	}
	return list, nil
}

// slowAdded reads the tokens that other files add. Without a tokenizer.json a
// token is special if some file names it for a role.
func (s *source) slowAdded(d *document) error {
	special := map[string]bool{"<|endoftext|>": true} // of both classes, unless they say another
	named, err := s.object("special_tokens_map.json")
	if err != nil {
		return err
	}
	for _, o := range []jsonobj.Object{s.settings, named} {
		for _, role := range fileRoles {
			r := o.Raw(role + "_token")
			special[r.Text()], special[r.Member("content").Text()] = true, true
		}
		for e := range o.Raw("additional_special_tokens").Elements() {
			special[e.Text()] = true
		}
	}
	delete(special, "")
	at := map[int]int{}
	add := func(a addedToken) {
		i, ok := at[a.id]
		if !ok {
			i = len(d.added)
			at[a.id], d.added = i, append(d.added, a)
		}
		d.added[i] = a
	}
	for i, text := range d.model.texts {
		if special[text] {
			add(addedToken{int(d.model.ids[i]), text, true})
		}
	}
	err = s.addedFile(func(a addedToken, in bool) error {
		if !in {
			return fmt.Errorf(addedName+": the id of %s is past the %d rows of the embedding", tensorfs.Quote(a.content), s.Rows)
		}
		add(addedToken{a.id, a.content, special[a.content]})
		return nil
	})
	if err != nil {
		return err
	}
	return s.decoder(add)
}
