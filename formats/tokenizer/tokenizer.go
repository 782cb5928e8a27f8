package tokenizer

import (
	"fmt"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
)

// maxRows bounds the rows of an embedding. The largest vocabularies have a
// million tokens.
const maxRows = 1 << 24

// Options say which model's tokenizer is wanted.
type Options struct {
	// File returns the content of one of the model's files; the error is
	// fs.ErrNotExist where there is none.
	File         func(name string) (tensorfs.Data, error)
	Architecture string         // as GGUF calls it
	Config       jsonobj.Object // config.json
	Rows         int            // of the embedding
}

// Tokenizer is a tokenizer in GGUF's terms.
type Tokenizer struct {
	// Meta are the keys tokenizer.*; their values are strings, bools, uint32,
	// []string, []int32 and []float32.
	Meta []tensorfs.Meta
	// Count is the number of tokens: that of the embedding's rows, or fewer where
	// the embedding has to be cut; 0 where the model has no tokenizer at all.
	Count int
	// Notes say in what llama.cpp differs from the source.
	Notes []string
}

// vocabulary is what one of the forms of a tokenizer holds.
type vocabulary struct {
	model, pre string
	tokens     tokens
	merges     []string        // nil for models that have none
	extra      []tensorfs.Meta // keys of this form alone
	notes      []string
	flags      flags // what the source does where nothing is said of it
}

// Read returns the tokenizer, or an error whose text is the reason why it cannot
// be given: one line, for users.
func Read(o Options) (*Tokenizer, error) {
	if o.Rows < 1 || o.Rows > maxRows {
		return nil, fmt.Errorf("the embedding has %d rows, and a vocabulary has 1 to %d", o.Rows, maxRows)
	}
	s, err := newSource(o)
	if err != nil {
		return nil, err
	}
	v, err := s.vocabulary()
	if err != nil {
		return nil, err
	}
	if v == nil {
		return &Tokenizer{Meta: []tensorfs.Meta{{Key: "tokenizer.ggml.model", Value: "none"}}}, nil
	}
	if err := v.tokens.finish(); err != nil {
		return nil, err
	}
	t := &Tokenizer{Count: len(v.tokens.texts), Notes: v.notes}
	add := func(key string, value any) {
		t.Meta = append(t.Meta, tensorfs.Meta{Key: "tokenizer." + key, Value: value})
	}
	add("ggml.model", v.model)
	add("ggml.pre", v.pre)
	add("ggml.tokens", v.tokens.texts)
	if v.tokens.scores != nil {
		add("ggml.scores", v.tokens.scores)
	}
	add("ggml.token_type", v.tokens.types)
	if v.merges != nil {
		add("ggml.merges", v.merges)
	}
	t.Meta = append(t.Meta, v.extra...)
	for _, part := range []func() ([]tensorfs.Meta, []string, error){
		func() ([]tensorfs.Meta, []string, error) { return s.special(v.flags, t.Count) },
		s.chat,
	} {
		meta, notes, err := part()
		if err != nil {
			return nil, err
		}
		t.Meta, t.Notes = append(t.Meta, meta...), append(t.Notes, notes...)
	}
	return t, nil
}

// sentencepieceFirst are the architectures whose tokenizer.model counts for more
// than their tokenizer.json.
var sentencepieceFirst = map[string]bool{"llama": true, "gemma": true, "gemma2": true, "gemma3": true, "phi3": true, "qwen2": true}

// unread are files of tokenizers that are in none of the forms read.
var unread = []string{"tokenizer.model", "tekken.json", "vocab.json", "merges.txt", "vocab.txt", "vocab.bpe", "spiece.model", "sentencepiece.bpe.model", "spm.model",
	"tiktoken.model", "tokenizer.tiktoken", "qwen.tiktoken", "added_tokens.json", "special_tokens_map.json", settingsName}

// vocabulary reads the first form of a tokenizer that the model has; nil where it
// has none at all.
func (s *source) vocabulary() (*vocabulary, error) {
	text, err := s.read(jsonName, maxFile)
	if err != nil {
		return nil, err
	}
	if sentencepieceFirst[s.Architecture] && !(s.Architecture == "phi3" && s.class == "GPT2Tokenizer") {
		model, err := s.read(pieceName, maxFile)
		if err != nil {
			return nil, err
		}
		if model != nil {
			if text != nil { // for its added tokens and its template
				if s.document, err = parseDocument(text, s.Rows, false); err != nil {
					return nil, err
				}
			}
			return s.sentencepiece(model)
		}
	}
	if text != nil {
		if s.document, err = parseDocument(text, s.Rows, true); err != nil {
			return nil, err
		}
		return s.fast()
	}
	if v, err := s.slow(); v != nil || err != nil {
		return v, err
	}
	for _, name := range unread {
		if there, err := s.has(name); err != nil {
			return nil, err
		} else if there {
			return nil, fmt.Errorf("tokenizer format: the model has %s and neither a %s nor another form that is read here", name, jsonName)
		}
	}
	return nil, nil
}

// fast reads the vocabulary of a tokenizer.json.
func (s *source) fast() (*vocabulary, error) {
	d := s.document
	switch kind := d.model.form(); {
	case kind == "BPE" && d.model.byteFallback:
		return s.spm()
	case kind == "BPE":
		return s.bpe()
	case kind == "WordPiece":
		return s.wordpiece()
	case kind == "Unigram":
		return nil, d.problem("its model is Unigram, which is not read yet")
	case kind == "":
		return nil, d.problem("its model does not say of which type it is")
	default:
		return nil, d.problem("its model is %s, which llama.cpp does not have", tensorfs.Quote(kind))
	}
}
