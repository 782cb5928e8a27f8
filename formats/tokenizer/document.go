package tokenizer

import (
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
)

// maxPart bounds the parts of a tokenizer.json that are not its vocabulary. Those
// of a known kind have a few thousand bytes; the table of characters of Unigram has
// some hundred thousand.
const maxPart = 1 << 20

// document is a tokenizer.json. After an error what it returns is empty.
type document struct {
	file string // its name
	rows int    // of the embedding
	err  error  // the first

	normalizer, preTokenizer, postProcessor, decoder jsonobj.Raw

	added []addedToken
	model model
}

// addedToken is a token beside the model's vocabulary, or a token of it that is
// recognised in a text first.
type addedToken struct {
	id      int
	content string
	special bool
}

// model is the part of a tokenizer.json that makes tokens of words.
type model struct {
	kind                         string // its type; "" where it says none, as old files
	unknown                      string // unk_token
	unknownID                    jsonobj.Raw
	prefix, suffix               string // continuing_subword_prefix, end_of_word_suffix
	byteFallback, ignoreMerges   bool
	dropout                      bool
	hasVocab, hasList, hasMerges bool // hasList: its vocab is a list, with scores
	hasMaxChars                  bool

	ids    []int32   // of the vocabulary's texts
	texts  []string  // in the order of the file
	scores []float32 // of a list
	merges []Merge
}

// form returns the type of the model. A file without one is what fits its keys,
// as in Hugging Face's library.
func (m *model) form() string {
	switch {
	case m.kind != "":
		return m.kind
	case m.hasVocab && m.hasMerges:
		return "BPE"
	case m.hasVocab && m.hasMaxChars && m.prefix != "":
		return "WordPiece"
	case m.hasList:
		return "Unigram"
	}
	return ""
}

// problem returns an error that names the file.
func (d *document) problem(format string, args ...any) error {
	return fmt.Errorf(d.file+": "+format, args...)
}

// fail keeps the first error.
func (d *document) fail(format string, args ...any) {
	if d.err == nil {
		d.err = d.problem(format, args...)
	}
}

// parse checks that a text is a JSON object.
func (d *document) parse(text []byte) jsonobj.Raw {
	r, err := jsonobj.ParseRaw(text)
	if err == nil {
		return r
	}
	s, _ := errors.AsType[*jsonobj.SyntaxError](err)
	problem, syntax := strings.CutPrefix(err.Error(), "it is not JSON: ")
	switch {
	case len(text) == 0:
		d.fail("it is not JSON: the text is cut off")
	case syntax && s != nil && s.Offset >= 0:
		d.fail("it is not JSON at byte %d: %s", s.Offset, tensorfs.OneLine(problem))
	case strings.HasPrefix(problem, "its top value"):
		d.fail("it is of a wrong JSON type: it is not an object")
	default:
		d.fail("%s", tensorfs.OneLine(err.Error()))
	}
	return r
}

// parseDocument reads a tokenizer.json, with or without its vocabulary.
func parseDocument(text []byte, rows int, vocabulary bool) (*document, error) {
	d := &document{file: jsonName, rows: rows}
	parts := map[string]*jsonobj.Raw{"normalizer": &d.normalizer, "pre_tokenizer": &d.preTokenizer, "post_processor": &d.postProcessor, "decoder": &d.decoder}
	seen := map[string]bool{}
	for name, r := range d.members(d.parse(text), "it") {
		part := parts[name]
		if part != nil || name == "added_tokens" || name == "model" {
			if seen[name] {
				d.fail("it has the key %s twice", name)
			}
			seen[name] = true
		}
		switch {
		case part != nil:
			*part = d.part(name, r)
		case name == "added_tokens":
			d.readAdded(r, vocabulary)
		case name == "model" && vocabulary:
			d.readModel(r)
		}
	}
	return d, d.err
}

// members yields the members of an object.
func (d *document) members(r jsonobj.Raw, what string) iter.Seq2[string, jsonobj.Raw] {
	return func(yield func(string, jsonobj.Raw) bool) {
		if r.Kind() != '{' {
			d.fail("%s is of a wrong JSON type", what)
		}
		for name, value := range r.Members() {
			if d.err != nil || !yield(name, value) {
				return
			}
		}
	}
}

// elements yields the elements of an array.
func (d *document) elements(r jsonobj.Raw, what string) iter.Seq[jsonobj.Raw] {
	return func(yield func(jsonobj.Raw) bool) {
		if r.Kind() != '[' {
			d.fail("%s is of a wrong JSON type", what)
		}
		for e := range r.Elements() {
			if d.err != nil || !yield(e) {
				return
			}
		}
	}
}

// text returns a string; null is "" where that is allowed.
func (d *document) text(r jsonobj.Raw, what string, null bool) string {
	if k := r.Kind(); k != '"' && !(null && k == 'n') {
		d.fail("%s is of a wrong JSON type", what)
	}
	return r.Text()
}

// flag returns true, false, or false for null.
func (d *document) flag(r jsonobj.Raw, what string) bool {
	value, ok := boolean(r)
	if !ok && r.Kind() != 'n' {
		d.fail("%s is of a wrong JSON type", what)
	}
	return value
}

// row returns the id of a token, and whether the embedding has a row for it.
func (d *document) row(r jsonobj.Raw, what func() string) (int, bool) {
	id, in, err := rowOf(r.String(), d.rows)
	if err != nil {
		d.fail("the id of %s is %w", what(), err)
	}
	return id, in
}

// rowOf reads an id, and whether it is that of a row.
func rowOf(text string, rows int) (id int, in bool, err error) {
	switch {
	case text == "":
		return 0, false, errors.New("an id is empty")
	case strings.Trim(text, "0123456789") != "":
		return 0, false, fmt.Errorf("%s, which is not a number of a row", tensorfs.Quote(text))
	}
	id, err = strconv.Atoi(text) // which fails beyond any int
	return id, err == nil && id < rows, nil
}

// outside keeps the error for a token that the embedding has no row for.
func (d *document) outside(what string) {
	d.fail("the id of %s is past the %d rows of the embedding", what, d.rows)
}

// part reads a small object or null.
func (d *document) part(name string, r jsonobj.Raw) jsonobj.Raw {
	switch k := r.Kind(); {
	case k == 'n':
		return jsonobj.Raw{}
	case k != '{':
		d.fail("its %s is of a wrong JSON type", name)
	case len(r.String()) > maxPart:
		d.fail("its %s has %d bytes, and at most %d are read", name, len(r.String()), maxPart)
	}
	return r
}

// readAdded reads the added tokens. A token that the embedding has no row for is an
// error where all are wanted, and is left out otherwise.
func (d *document) readAdded(r jsonobj.Raw, all bool) {
	if r.Kind() == 'n' {
		return
	}
	for e := range d.elements(r, "its added_tokens") {
		t := addedToken{}
		in, hasID, hasContent := false, false, false
		for name, v := range d.members(e, "an added token") {
			switch name {
			case "id":
				t.id, in = d.row(v, func() string { return "an added token" })
				hasID = true
			case "content":
				t.content, hasContent = d.text(v, "the content of an added token", false), true
			case "special":
				t.special = d.flag(v, "the special of an added token")
			}
		}
		switch {
		case !hasID || !hasContent:
			d.fail("one of its added tokens has no id or no content")
		case in && len(d.added) == d.rows:
			d.fail("it has more added tokens than the embedding has rows, %d", d.rows)
		case in:
			d.added = append(d.added, t)
		case all:
			d.outside("the added token " + tensorfs.Quote(t.content))
		}
	}
}

// readModel reads the model.
func (d *document) readModel(r jsonobj.Raw) {
	m := &d.model
	for name, r := range d.members(r, "its model") {
		switch what := "its " + name; name {
		case "type":
			m.kind = d.text(r, "its model's type", true)
		case "unk_token":
			m.unknown = d.text(r, what, true)
		case "unk_id":
			m.unknownID = r
		case "continuing_subword_prefix":
			m.prefix = d.text(r, what, true)
		case "end_of_word_suffix":
			m.suffix = d.text(r, what, true)
		case "byte_fallback":
			m.byteFallback = d.flag(r, what)
		case "ignore_merges":
			m.ignoreMerges = d.flag(r, what)
		case "dropout":
			m.dropout = r.Kind() != 'n' && strings.Trim(r.String(), "0.") != ""
		case "max_input_chars_per_word":
			m.hasMaxChars = true
		case "vocab":
			d.readVocab(r)
		case "merges":
			d.readMerges(r)
		}
	}
}

// readVocab reads texts and their ids, or a list of texts and their scores.
func (d *document) readVocab(r jsonobj.Raw) {
	m := &d.model
	if m.hasVocab || m.hasList {
		d.fail("its model has two vocabularies")
		return
	}
	n := min(d.rows, len(r.String())/len(`"":0,`))
	m.texts, m.ids = make([]string, 0, n), make([]int32, 0, n)
	add := func(text string, id int, in bool) bool {
		switch {
		case d.err != nil:
		case !in:
			d.outside("the token " + tensorfs.Quote(text))
		case len(m.texts) == d.rows:
			d.fail("its vocabulary has more tokens than the embedding has rows, %d", d.rows)
		}
		m.texts, m.ids = append(m.texts, text), append(m.ids, int32(id))
		return d.err == nil
	}
	if m.hasList = r.Kind() == '['; !m.hasList {
		m.hasVocab = true
		for text, r := range d.members(r, "its vocabulary") {
			id, in := d.row(r, func() string { return "the token " + tensorfs.Quote(text) })
			if !add(text, id, in) {
				return
			}
		}
		return
	}
	for e := range r.Elements() {
		var pair [2]jsonobj.Raw
		n := 0
		for v := range d.elements(e, "a token of its vocabulary") {
			pair[min(n, 1)] = v
			n++
		}
		score, err := strconv.ParseFloat(pair[1].String(), 32)
		id := len(m.texts)
		if n != 2 || pair[0].Kind() != '"' || pair[1].Kind() != '0' || err != nil {
			d.fail("the token %d of its vocabulary is not a text and its score", id)
		}
		if !add(pair[0].Text(), id, id < d.rows) {
			return
		}
		m.scores = append(m.scores, float32(score))
	}
}

// readMerges reads pairs of tokens, or lines of two tokens with a space between.
func (d *document) readMerges(r jsonobj.Raw) {
	m := &d.model
	if m.hasMerges {
		d.fail("its model has two lists of merges")
	}
	m.hasMerges = true
	m.merges = make([]Merge, 0, len(m.texts)) // most tokens are made by a merge
	for r := range d.elements(r, "its merges") {
		e, n := [2]string{}, 0
		if r.Kind() == '"' {
			if line, ok := cutMerge(r.Text()); ok {
				e = [2]string{line.Left, line.Right}
			} else {
				d.fail("its merge %d is %s, which is not two tokens with a space between", len(m.merges), tensorfs.Quote(r.Text()))
			}
		} else {
			if r.Kind() != '[' {
				d.fail("a merge is of a wrong JSON type")
			}
			for r := range r.Elements() {
				if n < 2 {
					e[n] = d.text(r, "a token of a merge", false)
				}
				n++
			}
			if n != 2 {
				d.fail("its merge %d has %d tokens, and 2 become one", len(m.merges), n)
			} else if e[0] == "" || e[1] == "" {
				d.fail("its merge %d has an empty token", len(m.merges))
			}
		}
		m.merges = append(m.merges, Merge{e[0], e[1]})
	}
}

// cutMerge cuts a line of two tokens.
func cutMerge(line string) (Merge, bool) {
	left, right, ok := strings.Cut(line, " ")
	return Merge{left, right}, ok && left != "" && right != "" && strings.IndexByte(right, ' ') < 0
}

// check holds that no text and no id of the vocabulary is there twice, and that
// both tokens of each merge and what becomes of them are in it.
func (d *document) check() error {
	m := &d.model
	if err := inProportion(d.rows, len(m.ids)+len(d.added)); err != nil {
		return err
	}
	x := newIndex(m.texts)
	used := make([]bool, d.rows)
	for i, text := range m.texts {
		if _, ok := x.add(int32(i)); !ok {
			return d.problem("its vocabulary has the token %s twice", tensorfs.Quote(text))
		}
		if used[m.ids[i]] {
			return d.problem("its vocabulary has the id %d twice", m.ids[i])
		}
		used[m.ids[i]] = true
	}
	for rank, e := range m.merges {
		if x.find(e.Left) < 0 || x.find(e.Right) < 0 || x.find(e.Left+e.Right) < 0 {
			return d.problem("its merge %d, of %s and %s, is of tokens that are not in the vocabulary", rank, tensorfs.Quote(e.Left), tensorfs.Quote(e.Right))
		}
	}
	return nil
}

// fill fills the tables of a vocabulary with the tokens of the model and then
// those added. Only the scores of a list are said.
func (d *document) fill(v *Vocabulary, rows int, kind func(a addedToken) (int32, string)) error {
	m := &d.model
	if err := v.rows(rows, len(m.ids)+len(d.added), m.hasList); err != nil {
		return err
	}
	for i, id := range m.ids {
		v.set(int(id), m.texts[i], normal, 0)
	}
	copy(v.Scores, m.scores)
	seen := make(map[int]string, len(d.added))
	for _, a := range d.added {
		if other, ok := seen[a.id]; ok {
			return d.problem("its added tokens %s and %s have the same id, %d", tensorfs.Quote(other), tensorfs.Quote(a.content), a.id)
		}
		seen[a.id] = a.content
		v.Types[a.id], v.Tokens[a.id] = kind(a)
	}
	return nil
}
