package tokenizer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
)

// maxPart bounds the parts of a tokenizer.json that are not its vocabulary. Those
// of a known kind have a few thousand bytes.
const maxPart = 1 << 20

// document is a tokenizer.json. Its texts are parts of the file's where nothing
// in them is escaped.
type document struct {
	file                                             string // its name
	normalizer, preTokenizer, postProcessor, decoder jsonobj.Raw
	added                                            []addedToken
	model                                            model
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
	prefix, suffix               string // continuing_subword_prefix, end_of_word_suffix
	byteFallback, ignoreMerges   bool
	dropout                      bool
	hasVocab, hasList, hasMerges bool // hasList: its vocab is a list
	hasMaxChars                  bool

	ids    []int32  // of the vocabulary's texts
	texts  []string // in the order of the file
	merges []merge
}

// merge is a pair of tokens that become one.
type merge struct{ left, right string }

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

// parser reads a JSON file token by token. After an error all it returns is empty.
type parser struct {
	file string // its name
	d    *jsontext.Decoder
	text string
	rows int
	err  error
}

func newParser(file string, text []byte, rows int) *parser {
	return &parser{file, jsontext.NewDecoder(bytes.NewBuffer(text), jsontext.AllowDuplicateNames(true)), string(text), rows, nil}
}

// end returns the first error, or that something follows what was read.
func (p *parser) end() error {
	if end := p.d.InputOffset(); p.err == nil && strings.Trim(p.text[end:], " \t\r\n") != "" {
		p.fail("something follows its JSON object")
	}
	return p.err
}

// parseDocument reads a tokenizer.json, with or without its vocabulary.
func parseDocument(text []byte, rows int, vocabulary bool) (*document, error) {
	p := newParser(jsonName, text, rows)
	doc := &document{file: jsonName}
	var seen []string
	for name := range p.members("it") {
		switch name {
		case "normalizer", "pre_tokenizer", "post_processor", "decoder", "added_tokens", "model":
			for _, other := range seen {
				if other == name {
					p.fail("it has the key %s twice", name)
				}
			}
			seen = append(seen, name)
		}
		switch name {
		case "normalizer":
			doc.normalizer = p.part(name)
		case "pre_tokenizer":
			doc.preTokenizer = p.part(name)
		case "post_processor":
			doc.postProcessor = p.part(name)
		case "decoder":
			doc.decoder = p.part(name)
		case "added_tokens":
			doc.added = p.added(vocabulary)
		case "model":
			if vocabulary {
				p.model(&doc.model)
			} else {
				p.skip()
			}
		default:
			p.skip()
		}
	}
	return doc, p.end()
}

// fail keeps the first error.
func (p *parser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf(p.file+": "+format, args...)
	}
}

// syntax keeps an error of the decoder.
func (p *parser) syntax(err error) {
	if s, ok := errors.AsType[*jsontext.SyntacticError](err); ok && !errors.Is(err, io.ErrUnexpectedEOF) {
		p.fail("it is not JSON at byte %d: %s", s.ByteOffset, tensorfs.OneLine(strings.TrimPrefix(s.Err.Error(), "jsontext: ")))
	} else {
		p.fail("it is not JSON: the text is cut off")
	}
}

// value returns the text of the next value, or of the next name in an object.
func (p *parser) value() string {
	if p.err != nil {
		return ""
	}
	v, err := p.d.ReadValue()
	if err != nil {
		p.syntax(err)
		return ""
	}
	end := int(p.d.InputOffset())
	return p.text[end-len(v) : end]
}

func (p *parser) skip() {
	if p.err == nil {
		if err := p.d.SkipValue(); err != nil {
			p.syntax(err)
		}
	}
}

// kind returns the kind of the next value; 0 after an error.
func (p *parser) kind() jsontext.Kind {
	if p.err != nil {
		return 0
	}
	return p.d.PeekKind()
}

// open reads the delimiter that begins an object or array.
func (p *parser) open(kind jsontext.Kind, what string) bool {
	if k := p.kind(); k != kind && p.err == nil {
		if k == jsontext.KindInvalid {
			_, err := p.d.ReadToken()
			p.syntax(err)
		} else {
			p.fail("%s is of a wrong JSON type", what)
		}
	}
	return p.delimiter()
}

func (p *parser) delimiter() bool {
	if p.err == nil {
		if _, err := p.d.ReadToken(); err != nil {
			p.syntax(err)
		}
	}
	return p.err == nil
}

// members yields the names of an object, whose values the caller reads.
func (p *parser) members(what string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		if !p.open('{', what) {
			return
		}
		for p.kind() != '}' {
			name := p.string(what)
			if p.err != nil || !yield(name) {
				return
			}
		}
		p.delimiter()
	}
}

// elements yields for each element of an array, which the caller reads.
func (p *parser) elements(what string) func(yield func() bool) {
	return func(yield func() bool) {
		if !p.open('[', what) {
			return
		}
		for p.kind() != ']' {
			if p.err != nil || !yield() {
				return
			}
		}
		p.delimiter()
	}
}

// string reads a string.
func (p *parser) string(what string) string {
	v := p.value()
	if p.err != nil {
		return ""
	}
	if v[0] != '"' {
		p.fail("%s is of a wrong JSON type", what)
		return ""
	}
	if strings.IndexByte(v, '\\') < 0 {
		return v[1 : len(v)-1]
	}
	b, err := jsontext.AppendUnquote(nil, v)
	if err != nil {
		p.fail("%s is not a JSON string", what)
	}
	return string(b)
}

// optional reads a string or null.
func (p *parser) optional(what string) string {
	if p.kind() == 'n' {
		p.skip()
		return ""
	}
	return p.string(what)
}

// boolean reads true, false or null.
func (p *parser) boolean(what string) bool {
	v := p.value()
	if p.err == nil && v != "true" && v != "false" && v != "null" {
		p.fail("%s is of a wrong JSON type", what)
	}
	return v == "true"
}

// id reads the id of a token. The second result is false for one that the
// embedding has no row for.
func (p *parser) id(what func() string) (int, bool) {
	v := p.value()
	id, in := 0, p.err == nil
	for i := 0; i < len(v); i++ {
		if v[i] < '0' || v[i] > '9' {
			p.fail("the id of %s is %s, which is not a number of a row", what(), tensorfs.Quote(v))
			return 0, false
		}
		if id = id*10 + int(v[i]-'0'); id >= p.rows {
			id, in = p.rows, false
		}
	}
	return id, in
}

// outside keeps the error for a token that the embedding has no row for.
func (p *parser) outside(what string) {
	p.fail("the id of %s is past the %d rows of the embedding", what, p.rows)
}

// part reads a small object or null.
func (p *parser) part(name string) jsonobj.Raw {
	v := p.value()
	switch {
	case p.err != nil || v == "null":
		return jsonobj.Raw{}
	case v[0] != '{':
		p.fail("its %s is of a wrong JSON type", name)
		return jsonobj.Raw{}
	case len(v) > maxPart:
		p.fail("its %s has %d bytes, and at most %d are read", name, len(v), maxPart)
		return jsonobj.Raw{}
	}
	o, err := jsonobj.Parse([]byte(`{"":` + v + `}`))
	if err != nil {
		p.fail("its %s: %s", name, tensorfs.OneLine(err.Error()))
	}
	return o.Raw("")
}

// added reads the added tokens. A token that the embedding has no row for is an
// error where all are wanted, and is left out otherwise.
func (p *parser) added(all bool) (list []addedToken) {
	if p.kind() == 'n' {
		p.skip()
		return nil
	}
	for range p.elements("its added_tokens") {
		t := addedToken{id: -1}
		in, hasContent := false, false
		for name := range p.members("an added token") {
			switch name {
			case "id":
				t.id, in = p.id(func() string { return "an added token" })
			case "content":
				t.content, hasContent = p.string("the content of an added token"), true
			case "special":
				t.special = p.boolean("the special of an added token")
			default:
				p.skip()
			}
		}
		switch {
		case p.err != nil:
		case t.id < 0 || !hasContent:
			p.fail("one of its added tokens has no id or no content")
		case in && len(list) == p.rows:
			p.fail("it has more added tokens than the embedding has rows, %d", p.rows)
		case in:
			list = append(list, t)
		case all:
			p.outside("the added token " + tensorfs.Quote(t.content))
		}
		if p.err != nil {
			return nil
		}
	}
	return list
}
