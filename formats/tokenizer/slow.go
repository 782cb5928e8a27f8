package tokenizer

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
)

// extraTokens are the fields of tokenizer_config.json for special tokens without a role, as
// transformers 5 and 4 call them.
var extraTokens = []string{"extra_special_tokens", "additional_special_tokens"}

// slow reads vocab.json and merges.txt, the format before tokenizer.json. It is false if
// they are missing.
func (s *source) slow(v *Vocabulary) bool {
	const vocabName, mergesName = "vocab.json", "merges.txt"
	vocab := s.read(vocabName, maxFile)
	if vocab == nil {
		return false
	}
	lines := s.read(mergesName, maxFile)
	if lines == nil {
		return false
	}
	v.Model, v.Pre = BytesModel, s.class.pre
	if v.Pre == "" || s.class.file != "" {
		s.fail("the model has %s and %s without %s, and for the class %s that does not say how text is cut into words",
			vocabName, mergesName, jsonName, tensorfs.Quote(s.settings.Raw(classField).Text()))
	}
	if s.class.nfc {
		v.Notes = append(v.Notes, noteNFC)
	}
	d := &document{failure: &s.failure, file: vocabName, rows: s.Rows}
	d.readVocab(d.parse(vocab))
	d.file = mergesName
	d.readLines(lines)
	d.file = vocabName
	s.slowAdded(d)
	d.check()
	v.Merges = d.model.merges
	if prefix, _ := boolean(s.settings.Raw("add_prefix_space")); prefix {
		if v.Flags[flagPrefix] = true; v.Pre != "gpt-2" {
			s.fail(settingsName+": a space is put before the text (add_prefix_space), which llama.cpp does for gpt-2 and not for %s", v.Pre)
		}
	}
	d.fill(v, s.Rows, addedType)
	return true
}

// readLines reads a merges.txt: a comment with a version, then a merge on each
// line.
func (d *document) readLines(b []byte) {
	if !utf8.Valid(b) {
		d.fail("it is not UTF-8")
	}
	d.model.merges = make([]Merge, 0, bytes.Count(b, []byte("\n")))
	text := string(b)
	if strings.HasPrefix(text, "#version") {
		_, text, _ = strings.Cut(text, "\n")
	}
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, "\r\n"); line != "" && d.err == nil {
			d.addMerge(line)
		}
	}
}

// slowAdded reads the tokens that other files add. Without a tokenizer.json a
// token is special if some file names it for a role.
func (s *source) slowAdded(d *document) {
	special := map[string]bool{"<|endoftext|>": true} // of both classes, unless they say another
	for _, o := range []jsonobj.Object{s.settings, s.object("special_tokens_map.json")} {
		for _, role := range fileRoles {
			r := o.Raw(role + "_token")
			special[r.Text()], special[r.Member("content").Text()] = true, true
		}
		for _, name := range extraTokens {
			for e := range o.Raw(name).Elements() {
				special[e.Text()] = true
			}
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
			add(addedToken{id: int(d.model.ids[i]), statedID: int(d.model.ids[i]), content: text, special: true})
		}
	}
	s.addedFile(func(a addedToken, in bool) {
		if !in {
			s.fail(addedName+": the id of %s is past the %d rows of the embedding", tensorfs.Quote(a.content), s.Rows)
		}
		a.special = special[a.content]
		add(a)
	})
	s.decoder(s.Rows, add)
	slices.SortStableFunc(d.added, func(a, b addedToken) int { return cmp.Compare(a.statedID, b.statedID) }) // as transformers adds them
}
