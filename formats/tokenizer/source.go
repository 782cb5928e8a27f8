package tokenizer

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
)

// Names of files.
const (
	jsonName     = "tokenizer.json"
	pieceName    = "tokenizer.model"
	settingsName = "tokenizer_config.json"
	addedName    = "added_tokens.json"
)

// classField is the field of tokenizer_config.json that names the class.
const classField = "tokenizer_class"

// Limits of files, in bytes. A tokenizer.json of a quarter of a million tokens
// has 35 MB.
const (
	maxFile  = 128 << 20
	maxSmall = 32 << 20 // files that say what the vocabulary does not
)

// failure keeps the first error of what reads on after it, finding nothing.
type failure struct{ err error }

func (f *failure) fail(format string, args ...any) {
	if f.err == nil {
		f.err = fmt.Errorf(format, args...)
	}
}

// source is a model whose tokenizer is read.
type source struct {
	Options
	failure
	settings jsonobj.Object          // tokenizer_config.json
	class    *class                  // its tokenizer_class
	document *document               // tokenizer.json; nil without one
	habit    architectures.Tokenizer // of its block
	pieces   string                  // the name of SentencePiece's file
}

// open returns a file of the model, nil if it is missing.
func (s *source) open(name string) tensorfs.Data {
	d, err := s.File(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.fail("%s: %s", name, tensorfs.OneLine(err.Error()))
	}
	if err != nil || s.err != nil {
		return nil
	}
	return d
}

// read returns the content of a file, nil if it is missing.
func (s *source) read(name string, limit int64) []byte {
	d := s.open(name)
	if d == nil {
		return nil
	}
	n := d.Size()
	if n < 0 || n > limit {
		s.fail("%s has %d bytes, and at most %d are read", name, n, limit)
		return nil
	}
	b := make([]byte, n)
	if err := tensorfs.ReadFull(d, b, 0); err != nil {
		s.fail("%s: %s", name, tensorfs.OneLine(err.Error()))
	}
	return b
}

// object reads a small JSON file. One that is missing has no keys.
func (s *source) object(name string) jsonobj.Object {
	b := s.read(name, maxSmall)
	if b == nil || s.err != nil {
		return jsonobj.Object{}
	}
	o, err := jsonobj.Parse(b)
	if err != nil {
		s.fail("%s: %s", name, tensorfs.OneLine(err.Error()))
	}
	return o
}

// maxRows bounds the rows of an embedding. The largest vocabularies have a
// million tokens.
const maxRows = 1 << 24

// Options say which model's tokenizer is wanted.
type Options struct {
	// File returns the content of one of the model's files; the error is fs.ErrNotExist if
	// it is missing.
	File   func(name string) (tensorfs.Data, error)
	Block  string         // of formats/architectures: the description of the model
	Config jsonobj.Object // config.json
	Rows   int            // of the embedding
}

// ReadFiles reads the tokenizer of a Hugging Face directory. It has as many tokens
// as the embedding has rows, or fewer where the embedding has to be cut, and none
// where the model has no tokenizer at all. The error's text is the reason why it
// cannot be given: one line, for users.
func ReadFiles(o Options) (*Vocabulary, error) {
	if o.Rows < 1 || o.Rows > maxRows {
		return nil, fmt.Errorf("the embedding has %d rows, and a vocabulary has 1 to %d", o.Rows, maxRows)
	}
	s := &source{Options: o}
	s.settings = s.object(settingsName)
	s.class = classOf(s.settings.Raw(classField).Text())
	s.habit = architectures.TokenizerOf(s.Block, s.fact)
	v := &Vocabulary{Special: map[string]int{}, Flags: map[string]bool{}}
	if s.form(v); s.err == nil && v.Model != noModel && v.Model != linesModel { // the converter reads nothing else for these
		s.special(v)
		if s.chat(v); v.Templates == nil && s.habit.Template != "" {
			v.Templates = []Template{{"default", s.habit.Template}}
		}
	}
	if s.err != nil {
		return nil, s.err
	}
	return v, nil
}

// unread are files of tokenizers that are in none of the forms read.
var unread = []string{"tokenizer.model", "vocab.json", "merges.txt", "vocab.txt", "vocab.bpe", "spiece.model", "sentencepiece.bpe.model",
	"spm.model", "tiktoken.model", "tokenizer.tiktoken", "qwen.tiktoken", worldName, linesName, addedName, specialMapName, settingsName}

// beside is how many of unread, at the end, only add to a vocabulary.
const beside = 3

// IsFile reports whether a file of a directory of Hugging Face holds a vocabulary, in whatever
// form.
func IsFile(name string) bool {
	return name == jsonName || name == tekkenName || slices.Contains(unread[:len(unread)-beside], name)
}

// form reads the first form of a tokenizer that the model has.
func (s *source) form(v *Vocabulary) {
	text := s.read(jsonName, maxFile)
	var model, tekken []byte
	if text == nil {
		tekken = s.read(tekkenName, maxFile)
	}
	for _, name := range s.habit.Pieces {
		if model == nil && tekken == nil && !s.class.bytes {
			s.pieces, model = name, s.read(name, maxFile)
		}
	}
	if text != nil { // beside SentencePiece's file for its added tokens and its template
		s.document = parseDocument(&s.failure, text, s.Rows, model == nil)
		s.habit = architectures.TokenizerOf(s.Block, s.fact) // its tokens may be conditions
	}
	switch {
	case s.err != nil:
	case model != nil:
		s.sentencepiece(v, model)
	case text != nil:
		s.fast(v)
	case tekken != nil:
		s.tekken(v, tekken)
	case s.tiktoken(v), s.world(v), s.jsonLines(v):
	case !s.slow(v) && s.err == nil:
		v.Model = noModel
		for _, name := range unread {
			if s.open(name) != nil {
				s.fail("tokenizer format: the model has %s and neither a %s nor another form that is read here", name, jsonName)
			}
		}
	}
}

// fast reads the vocabulary of a tokenizer.json.
func (s *source) fast(v *Vocabulary) {
	d := s.document
	d.listed = len(d.added)
	s.aside()
	v.Own = len(d.model.texts)
	switch form := d.model.form(); {
	case form == "BPE" && d.model.byteFallback:
		s.charBPE(v)
	case form == "BPE":
		s.byteBPE(v)
	case form == "WordPiece":
		s.wordpiece(v)
	case form == "Unigram":
		s.unigram(v)
	case form == "":
		d.fail("its model has no type")
	default:
		d.fail("its model is %s, which llama.cpp does not support", tensorfs.Quote(form))
	}
}

// aside adds the tokens that transformers adds to tokenizer.json's when it loads
// tokenizer_config.json: its added_tokens_decoder, in the order of the ids, and the tokens
// that it names for a role or as special. If tokenizer.json has the token too,
// tokenizer_config.json's description replaces it.
func (s *source) aside() {
	d := s.document
	var decoder []addedToken
	s.decoder(math.MaxInt, func(a addedToken) { decoder = append(decoder, a) })
	slices.SortStableFunc(decoder, func(a, b addedToken) int { return cmp.Compare(a.id, b.id) })
	for _, a := range decoder {
		a.aside = true
		d.added = append(d.added, a)
	}
	add := func(r jsonobj.Raw) {
		if r.Kind() == '{' {
			r = r.Member("content")
		}
		if text := r.Text(); text != "" {
			d.added = append(d.added, addedToken{statedID: -1, content: text, special: true, aside: true})
		}
	}
	texts := []jsonobj.Object{s.settings}
	if !s.settings.Has("added_tokens_decoder") { // transformers reads this file then
		texts = append(texts, s.object(specialMapName))
	}
	for _, o := range texts {
		for _, role := range fileRoles {
			add(o.Raw(role + "_token"))
		}
		for _, name := range extraTokens {
			for e := range o.Raw(name).Elements() {
				add(e)
			}
			for _, e := range o.Raw(name).Members() {
				add(e)
			}
		}
	}
}

// config returns a field of config.json, or of the object about the language model inside.
func (s *source) config(name string) jsonobj.Raw {
	if s.Config.Has(name) {
		return s.Config.Raw(name)
	}
	_, text := s.Config.Inner(architectures.TextConfigs)
	return text.Raw(name)
}

// fact returns what conditions of descriptions ask for: whether a token is added, or a whole number of config.json.
func (s *source) fact(name string) any {
	if token, ok := strings.CutPrefix(name, "added."); ok {
		return s.addedID("["+token+"]") >= 0
	}
	if n, ok := s.config(strings.TrimPrefix(name, "config.")).Int(); ok {
		return int64(n)
	}
	return nil
}

// boolean returns a value that is true or false.
func boolean(r jsonobj.Raw) (value, ok bool) {
	k := r.Kind()
	return k == 't', k == 't' || k == 'f'
}
