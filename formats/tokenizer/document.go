package tokenizer

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
)

// maxPart bounds the parts of a tokenizer.json other than its vocabulary. Known kinds of
// parts have a few thousand bytes; Unigram's table of characters has some hundred thousand.
const maxPart = 1 << 20

// document is a tokenizer.json. After an error what it returns is empty.
type document struct {
	*failure
	file string // its name
	rows int    // of the embedding

	normalizer, preTokenizer, postProcessor, decoder jsonobj.Raw

	added   []addedToken
	listed  int      // how many of added tokenizer.json lists
	rowless []string // added tokens that the embedding has no row for
	model   model
}

// addedToken is a token beside the model's vocabulary, or a token of it that is
// recognised in a text first.
type addedToken struct {
	id       int // which the tokenizers library assigns, once document.number has run
	statedID int // the id in the file; -1 if it states none
	content  string
	special  bool
	aside    bool // only tokenizer_config.json adds it
}

// model is the part of a tokenizer.json that makes tokens of words.
type model struct {
	kind                         string // its type; "" in old files, which lack it
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

// fail keeps the first error, with the name of the file.
func (d *document) fail(format string, args ...any) { d.failure.fail(d.file+": "+format, args...) }

// parse checks that a text is a JSON object.
func (d *document) parse(text []byte) jsonobj.Raw {
	r, err := jsonobj.ParseRaw(text)
	s, _ := errors.AsType[*jsonobj.SyntaxError](err)
	switch {
	case s == nil:
	case len(text) == 0:
		d.fail("it is not JSON: the text is cut off")
	case strings.HasPrefix(s.Problem, "its top value"):
		d.fail("it is of a wrong JSON type: it is not an object")
	case s.Offset >= 0:
		d.fail("%s", tensorfs.OneLine(strings.Replace(s.Problem, "it is not JSON:", fmt.Sprintf("it is not JSON at byte %d:", s.Offset), 1)))
	default:
		d.fail("%s", tensorfs.OneLine(s.Problem))
	}
	return r
}

// want returns a value if it is of one of some kinds, as [jsonobj.Raw.Kind] has
// them, and no value otherwise.
func (d *document) want(r jsonobj.Raw, kinds, what string) jsonobj.Raw {
	if k := r.Kind(); k != 0 && strings.IndexByte(kinds, k) >= 0 {
		return r
	}
	d.fail("%s is of a wrong JSON type", what)
	return jsonobj.Raw{}
}

// parseDocument reads a tokenizer.json, with or without its vocabulary.
func parseDocument(f *failure, text []byte, rows int, vocabulary bool) *document {
	d := &document{failure: f, file: jsonName, rows: rows}
	var added, model jsonobj.Raw
	parts := map[string]*jsonobj.Raw{"normalizer": &d.normalizer, "pre_tokenizer": &d.preTokenizer, "post_processor": &d.postProcessor, "decoder": &d.decoder,
		"added_tokens": &added, "model": &model}
	for name, r := range d.want(d.parse(text), "{", "it").Members() {
		part := parts[name]
		switch {
		case part == nil:
			continue
		case part.Kind() != 0:
			d.fail("it has the key %s twice", name)
		case part != &added && part != &model:
			if d.want(r, "{n", "its "+name); len(r.String()) > maxPart {
				d.fail("its %s has %d bytes, and at most %d are read", name, len(r.String()), maxPart)
			}
		}
		*part = r
	}
	if k := added.Kind(); k != 0 && k != 'n' {
		d.readAdded(added, vocabulary)
	}
	if vocabulary && model.Kind() != 0 {
		d.readModel(model)
	}
	return d
}

// rowOf reads an id, and whether the embedding has its row.
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

// id reads the id of a token. It is an error if that is not a row's number, and false if
// the embedding has no such row.
func (d *document) id(r jsonobj.Raw, what, text string) (id int, in bool) {
	id, in, err := rowOf(r.String(), d.rows)
	if err != nil && d.err == nil {
		d.fail("the id of %s%s is %w", what, tensorfs.Quote(text), err)
	}
	return id, in
}

// outside keeps the error for a token that the embedding has no row for.
func (d *document) outside(what, text string) {
	if d.err == nil {
		d.fail("the id of %s%s is past the %d rows of the embedding", what, tensorfs.Quote(text), d.rows)
	}
}

// readAdded reads the added tokens. A token that the embedding has no row for is an
// error where all are wanted, and is left out otherwise.
func (d *document) readAdded(r jsonobj.Raw, all bool) {
	for e := range d.want(r, "[", "its added_tokens").Elements() {
		d.want(e, "{", "an added token")
		content, special := e.Member("content"), e.Member("special")
		if content.Kind() == 0 || e.Member("id").Kind() == 0 {
			d.fail("one of its added tokens has no id or no content")
		}
		text := d.want(content, `"`, "the content of an added token").Text()
		id, in := d.id(e.Member("id"), "the added token ", text)
		if all { // the library assigns the ids
			in = true
			if int64(id) > math.MaxUint32 {
				d.fail("the id of the added token %s is past what the tokenizers library reads", tensorfs.Quote(text))
			}
		}
		switch {
		case d.err != nil:
			return
		case special.Kind() != 0 && d.want(special, "tfn", "the special of an added token").Kind() == 0:
		case in && len(d.added) == d.rows:
			d.fail("it has more added tokens than the embedding has rows, %d", d.rows)
		case in:
			d.added = append(d.added, addedToken{id: id, statedID: id, content: text, special: special.Kind() == 't'})
		}
	}
}

// readModel reads the model.
func (d *document) readModel(r jsonobj.Raw) {
	m := &d.model
	texts := map[string]*string{"type": &m.kind, "unk_token": &m.unknown, "continuing_subword_prefix": &m.prefix, "end_of_word_suffix": &m.suffix}
	flags := map[string]*bool{"byte_fallback": &m.byteFallback, "ignore_merges": &m.ignoreMerges}
	for name, r := range d.want(r, "{", "its model").Members() {
		if text := texts[name]; text != nil {
			*text = d.want(r, `"n`, "its model's "+name).Text()
		}
		if flag := flags[name]; flag != nil {
			*flag = d.want(r, "tfn", "its "+name).Kind() == 't'
		}
		switch name {
		case "unk_id":
			m.unknownID = r
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
	}
	n := min(d.rows, len(r.String())/len(`"":0,`))
	m.texts, m.ids = make([]string, 0, n), make([]int32, 0, n)
	add := func(text string, id int, in bool) {
		switch {
		case d.err != nil:
		case !in:
			d.outside("the token ", text)
		case len(m.texts) == d.rows:
			d.fail("its vocabulary has more tokens than the embedding has rows, %d", d.rows)
		default:
			m.texts, m.ids = append(m.texts, text), append(m.ids, int32(id))
		}
	}
	m.hasList = r.Kind() == '['
	if m.hasVocab = !m.hasList; m.hasVocab {
		for text, r := range d.want(r, "{", "its vocabulary").Members() {
			id, in := d.id(r, "the token ", text)
			add(text, id, in)
		}
		return
	}
	for e := range r.Elements() {
		text, score := d.scored(e, len(m.texts))
		m.scores = append(m.scores, score)
		if add(text, len(m.texts), len(m.texts) < d.rows); d.err != nil {
			return
		}
	}
}

// scored returns a token of a list and its score.
func (d *document) scored(r jsonobj.Raw, id int) (string, float32) {
	var pair [2]jsonobj.Raw
	n := 0
	for v := range d.want(r, "[", "a token of its vocabulary").Elements() {
		pair[min(n, 1)] = v
		n++
	}
	score, err := strconv.ParseFloat(pair[1].String(), 32)
	if n != 2 || pair[0].Kind() != '"' || pair[1].Kind() != '0' || err != nil {
		d.fail("the token %d of its vocabulary is not a text and its score", id)
	}
	return pair[0].Text(), float32(score)
}

// readMerges reads pairs of tokens, or lines of two tokens with a space between.
func (d *document) readMerges(r jsonobj.Raw) {
	m := &d.model
	if m.hasMerges {
		d.fail("its model has two lists of merges")
	}
	m.hasMerges = true
	m.merges = make([]Merge, 0, len(m.texts)) // most tokens are made by a merge
	for r := range d.want(r, "[", "its merges").Elements() {
		if r.Kind() == '"' {
			d.addMerge(r.Text())
			continue
		}
		pair, n := [2]string{}, 0
		for r := range d.want(r, "[", "a merge").Elements() {
			if n < 2 {
				pair[n] = d.want(r, `"`, "a token of a merge").Text()
			}
			n++
		}
		if n != 2 {
			d.fail("its merge %d has %d tokens, and 2 become one", len(m.merges), n)
		} else if pair[0] == "" || pair[1] == "" {
			d.fail("its merge %d has an empty token", len(m.merges))
		}
		if m.merges = append(m.merges, Merge{pair[0], pair[1]}); d.err != nil {
			return
		}
	}
}

// addMerge adds the merge of a line of two tokens.
func (d *document) addMerge(line string) {
	left, right, _ := strings.Cut(line, " ")
	if d.err == nil && (left == "" || right == "" || strings.IndexByte(right, ' ') >= 0) {
		d.fail("its merge %d is %s, which is not two tokens with a space between", len(d.model.merges), tensorfs.Quote(line))
	}
	d.model.merges = append(d.model.merges, Merge{left, right})
}

// check holds that no text and no id of the vocabulary is there twice, and that
// both tokens of each merge and what becomes of them are in it.
func (d *document) check() {
	m := &d.model
	if d.inProportion(d.rows, len(m.ids)+len(d.added)); d.err != nil {
		return
	}
	x := newIndex(m.texts)
	used := make([]bool, d.rows)
	for i, text := range m.texts {
		if _, ok := x.add(int32(i)); !ok {
			d.fail("its vocabulary has the token %s twice", tensorfs.Quote(text))
		}
		if used[m.ids[i]] {
			d.fail("its vocabulary has the id %d twice", m.ids[i])
		}
		used[m.ids[i]] = true
	}
	d.number(x, used)
	for rank, e := range m.merges {
		if x.indexOfText(e.Left) < 0 || x.indexOfText(e.Right) < 0 || x.indexOfText(e.Left+e.Right) < 0 {
			d.fail("its merge %d, of %s and %s, is of tokens that are not in the vocabulary", rank, tensorfs.Quote(e.Left), tensorfs.Quote(e.Right))
			return
		}
	}
}

// number gives the added tokens the ids that the tokenizers library assigns when it loads
// them: a text of the vocabulary keeps its id, and any other text gets the next free one in
// the order of the list, whatever id the file states. A text that is listed twice is one
// token, as the last entry describes it.
func (d *document) number(x *index, used []bool) {
	ids := map[string]int{} // of added texts, in the list that is kept
	kept, next := d.added[:0], len(d.model.texts)
	for _, a := range d.added {
		i := x.indexOfText(a.content)
		at, again := ids[a.content]
		switch {
		case a.content == "": // which the library ignores
			continue
		case again:
			kept[at].special = a.special
			continue
		case i >= 0 && a.statedID < 0 && d.model.form() == "Unigram": // whose special tokens the converter takes from SentencePiece
			continue
		case i >= 0:
			a.id = int(d.model.ids[i])
		case next >= d.rows && a.aside:
			d.rowless = append(d.rowless, a.content)
			continue
		case next >= d.rows:
			d.outside("the added token ", a.content)
			return
		case used[next]:
			d.fail("its ids have gaps: the tokenizers library gives the added token %s the id %d, which a token of the vocabulary has", tensorfs.Quote(a.content), next)
			return
		default:
			a.id = next
			next++
		}
		ids[a.content] = len(kept)
		kept = append(kept, a)
	}
	d.added = kept
}

// noteIDs notes which ids of added tokens are not the ones that the files state.
func (d *document) noteIDs(v *Vocabulary) {
	n, first := 0, addedToken{}
	for _, a := range d.added {
		if a.statedID >= 0 && a.statedID != a.id {
			if n++; n == 1 {
				first = a
			}
		}
	}
	if n > 0 {
		v.Notes = append(v.Notes, fmt.Sprintf("%s gives %d added tokens ids that the tokenizers library ignores, such as %s, %d instead of %d: "+
			"tokens are in the library's order, but special tokens keep the ids of the file, as llama.cpp's converter does",
			d.file, n, tensorfs.Quote(first.content), first.statedID, first.id))
	}
	if len(d.rowless) > 0 {
		v.Notes = append(v.Notes, fmt.Sprintf("%d added tokens of %s are left out, such as %s: the embedding has no rows for them", len(d.rowless), settingsName, tensorfs.Quote(d.rowless[0])))
	}
}

// fill fills the tables of a vocabulary with the tokens of the model and then
// those added. Only the scores of a list are said.
func (d *document) fill(v *Vocabulary, rows int, kind func(a addedToken) (int32, string)) {
	m := &d.model
	if d.tables(v, rows, len(m.ids)+len(d.added)); d.err != nil {
		return
	}
	for i, id := range m.ids {
		v.Tokens[id], v.Types[id] = m.texts[i], normal
	}
	if m.hasList {
		v.Scores = make([]float32, rows)
		copy(v.Scores, m.scores)
	}
	for _, a := range d.added {
		v.Types[a.id], v.Tokens[a.id] = kind(a)
	}
	d.noteIDs(v)
}
