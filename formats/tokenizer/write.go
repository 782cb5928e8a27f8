package tokenizer

import (
	"fmt"
	"strings"

	"github.com/tensorfs/tensorfs"
)

// Write returns the tokenizer files of a Hugging Face directory for the metadata
// of a GGUF file, by name: tokenizer.json, tokenizer_config.json,
// special_tokens_map.json. get returns the value of a key as package gguf does, nil
// where there is none; arch is general.architecture. The error is the reason why
// there are none, in a line.
func Write(get func(key string) any, arch string) (map[string][]byte, error) {
	s := newStored(get, arch)
	write := writers[s.model]
	if write == nil {
		if s.wrong == "" && s.model == "" {
			return nil, fmt.Errorf("the file has no tokenizer (tokenizer.ggml.model)")
		}
		return nil, fmt.Errorf("its tokenizer is of the model %s, which tokenizer.json cannot express", tensorfs.Quote(s.model))
	}
	f, err := write(s)
	if err != nil {
		return nil, err
	}
	if s.wrong != "" {
		return nil, fmt.Errorf("%s is of a wrong type", tensorfs.Printable(s.wrong))
	}
	files := map[string][]byte{}
	if files[jsonName], err = s.tokenizerJSON(f); err != nil {
		return nil, err
	}
	if files[settingsName], err = s.settings(f); err != nil {
		return nil, err
	}
	files[specialMapName] = append(append([]byte{'{'}, strings.TrimPrefix(string(s.appendSpecials(nil)), ",")...), "}\n"...)
	return files, nil
}

// form is what a model of GGUF becomes in a tokenizer.json. The texts are JSON.
type form struct {
	normalizer, preTokenizer, decoder string
	around                            around
	model                             func(b []byte) ([]byte, error)
}

// writers make the forms of the models that llama.cpp has, by their names.
var writers = map[string]func(s *stored) (*form, error){
	"gpt2":   (*stored).byteBPE,
	"llama":  (*stored).sentencepieceBPE,
	"gemma4": (*stored).textBPE,
	"bert":   (*stored).wordPiece,
	"t5":     (*stored).unigram,
}

// asStored leaves the text of a token as it is.
func asStored(text string, _ int32) string { return text }

// tokenizerJSON returns the main file.
func (s *stored) tokenizerJSON(f *form) ([]byte, error) {
	b := make([]byte, 0, s.estimate())
	b = append(b, `{"version":"1.0","truncation":null,"padding":null,"added_tokens":[`...)
	for i, id := range s.added {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"id":`...)
		b = appendInt(b, id)
		b = append(s.appendAdded(append(b, ','), id), '}')
		if len(b) > maxFile {
			return nil, errLarge
		}
	}
	b = append(b, `],"normalizer":`...)
	b = append(b, f.normalizer...)
	b = append(b, `,"pre_tokenizer":`...)
	b = append(b, f.preTokenizer...)
	b = append(b, `,"post_processor":`...)
	b = s.appendAround(b, &f.around)
	b = append(b, `,"decoder":`...)
	b = append(b, f.decoder...)
	b = append(b, `,"model":`...)
	b, err := f.model(b)
	return append(b, "}\n"...), err
}

// estimate returns how long a tokenizer.json becomes, roughly.
func (s *stored) estimate() int {
	n := 4096
	for _, text := range s.tokens.texts {
		n += len(text) + len(`"":123456,`)
	}
	return n + n/2
}

// errLarge is the reason for a file that Read would not take either.
var errLarge = fmt.Errorf("tokenizer.json would have more than %d bytes", maxFile)

// appendAdded appends what is said of an added token but its id.
func (s *stored) appendAdded(b []byte, id int) []byte {
	text := s.tokens.texts[id]
	left, right := s.strips(text)
	b = appendQuoted(append(b, `"content":`...), text)
	for _, e := range []struct {
		name  string
		value bool
	}{{`,"single_word":`, false}, {`,"lstrip":`, left}, {`,"rstrip":`, right}, {`,"normalized":`, false}, {`,"special":`, s.tokens.types[id] != userDefined}} {
		b = appendBool(append(b, e.name...), e.value)
	}
	return b
}

// strips reports whether an added token takes the spaces before and after it with
// it. GGUF does not say so; llama.cpp knows these models by their names.
func (s *stored) strips(text string) (left, right bool) {
	switch pre, _ := s.get("tokenizer.ggml.pre").(string); pre {
	case "jina-v2-de", "jina-v2-es", "jina-v2-code":
		left = text == "<mask>"
	}
	name, _ := s.get("general.name").(string)
	if name = strings.ToLower(name[:min(len(name), 1000)]); strings.Contains(name, "phi-3") || strings.Contains(name, "phi3") {
		right = text != "<unk>" && text != "<s>" && text != "<|endoftext|>"
	}
	return left, right
}

// appendVocab appends the tokens and their ids.
func (s *stored) appendVocab(b []byte) ([]byte, error) {
	b = append(b, '{')
	for id, text := range s.tokens.texts {
		if id > 0 {
			b = append(b, ',')
		}
		b = appendInt(append(appendQuoted(b, text), ':'), id)
		if len(b) > maxFile {
			return nil, errLarge
		}
	}
	return append(b, '}'), nil
}
