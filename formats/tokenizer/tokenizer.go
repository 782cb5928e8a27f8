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

// ReadFiles reads the tokenizer of a Hugging Face directory. It has as many tokens
// as the embedding has rows, or fewer where the embedding has to be cut, and none
// where the model has no tokenizer at all. The error's text is the reason why it
// cannot be given: one line, for users.
func ReadFiles(o Options) (*Vocabulary, error) {
	if o.Rows < 1 || o.Rows > maxRows {
		return nil, fmt.Errorf("the embedding has %d rows, and a vocabulary has 1 to %d", o.Rows, maxRows)
	}
	s, err := newSource(o)
	if err != nil {
		return nil, err
	}
	v := &Vocabulary{Special: map[string]int{}, Flags: map[string]bool{}}
	if err := s.form(v); err != nil || v.Model == noModel {
		return v, err
	}
	if err := s.special(v); err != nil {
		return nil, err
	}
	return v, s.chat(v)
}

// sentencepieceFirst are the architectures whose tokenizer.model counts for more
// than their tokenizer.json.
var sentencepieceFirst = map[string]bool{"llama": true, "gemma": true, "gemma2": true, "gemma3": true, "phi3": true, "qwen2": true}

// unread are files of tokenizers that are in none of the forms read.
var unread = []string{"tokenizer.model", "tekken.json", "vocab.json", "merges.txt", "vocab.txt", "vocab.bpe", "spiece.model", "sentencepiece.bpe.model", "spm.model",
	"tiktoken.model", "tokenizer.tiktoken", "qwen.tiktoken", "added_tokens.json", "special_tokens_map.json", settingsName}

// form reads the first form of a tokenizer that the model has.
func (s *source) form(v *Vocabulary) error {
	text, err := s.read(jsonName, maxFile)
	if err != nil {
		return err
	}
	var model []byte
	if sentencepieceFirst[s.Architecture] && !(s.Architecture == "phi3" && s.class == "GPT2Tokenizer") {
		if model, err = s.read(pieceName, maxFile); err != nil {
			return err
		}
	}
	if text != nil { // beside a tokenizer.model for its added tokens and its template
		if s.document, err = parseDocument(text, s.Rows, model == nil); err != nil {
			return err
		}
	}
	switch {
	case model != nil:
		return s.sentencepiece(v, model)
	case text != nil:
		return s.fast(v)
	}
	if ok, err := s.slow(v); ok || err != nil {
		return err
	}
	for _, name := range unread {
		if d, err := s.open(name); err != nil {
			return err
		} else if d != nil {
			return fmt.Errorf("tokenizer format: the model has %s and neither a %s nor another form that is read here", name, jsonName)
		}
	}
	v.Model = noModel
	return nil
}

// fast reads the vocabulary of a tokenizer.json.
func (s *source) fast(v *Vocabulary) error {
	d := s.document
	switch form := d.model.form(); {
	case form == "BPE" && d.model.byteFallback:
		return s.charBPE(v)
	case form == "BPE":
		return s.byteBPE(v)
	case form == "WordPiece":
		return s.wordpiece(v)
	case form == "Unigram":
		return s.unigram(v)
	case form == "":
		return d.problem("its model does not say of which type it is")
	default:
		return d.problem("its model is %s, which llama.cpp does not have", tensorfs.Quote(form))
	}
}
