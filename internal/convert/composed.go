package convert

import (
	"fmt"
	"slices"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/gguf"
	"github.com/tensorfs/tensorfs/formats/tokenizer"
	"github.com/tensorfs/tensorfs/internal/convert/internal/settings"
	"github.com/tensorfs/tensorfs/internal/convert/layout"
)

// composed returns the file of a model whose tensors have the names and the layout
// of Hugging Face: a header that is written here, before tensors that are composed
// of the stored ones when they are read.
//
//	config.json ----> architecture ---> keys ------------------+
//	tokenizer.* ----> tokens, merges, special ids -------------+--> header
//	tensors --------> moved, renamed, as types that ggml has --+--> data
func composed(m *tensorfs.Model, opts Options) (*Files, error) {
	cfg, about, err := configOf(m)
	if err != nil {
		return nil, err
	}
	rows := embeddingRows(m)
	vocabulary, err := tokenizer.ReadFiles(tokenizer.Options{File: m.File, Block: about.Block(), Config: cfg.Top(), Rows: rows})
	if err != nil {
		return nil, err
	}
	answers, err := answersOf(about, vocabulary)
	if err != nil {
		return nil, err
	}
	tokens, err := vocabulary.Keys()
	if err != nil {
		return nil, err
	}
	given := settings.Given{Rows: int64(rows), Tokenizer: len(vocabulary.Tokens) > 0, Own: int64(vocabulary.Own), Templates: len(vocabulary.Templates), Tensor: layout.TensorsOf(m).Find}
	meta, err := about.Keys(given)
	if err != nil {
		return nil, err
	}
	tokens = slices.DeleteFunc(tokens, func(t tensorfs.Meta) bool { // the description of an architecture may say them otherwise
		return slices.ContainsFunc(meta, func(said tensorfs.Meta) bool { return said.Key == t.Key })
	})
	list, notes, err := tensors(m, cfg, opts, len(vocabulary.Tokens), sizesOf(meta), answers...)
	if err != nil {
		return nil, err
	}
	meta = quantisedKeys(named(meta, m), notes.FileType, opts.Importance)
	meta, err = apply(opts.Changes, slices.Concat(meta, tokens))
	if err != nil {
		return nil, err
	}
	d, err := gguf.Compose(meta, list)
	if err != nil {
		return nil, err
	}
	f := &Files{
		List: []File{{LanguageFile, d}}, Tensors: len(list), Types: notes.Types, Exact: notes.Exact,
		Notes: slices.Concat(notes.Notes, about.Notes(), vocabulary.Notes), Mix: notes.Mix, weights: weightsOf(list),
	}
	f.noteLlama(meta, list)
	for _, note := range []string{settings.Beyond(m), settings.Prompts(m), about.LostEnds(vocabulary.Tokens, meta)} {
		if note != "" {
			f.Notes = append(f.Notes, note)
		}
	}
	f.addProjector(m, cfg, opts, vocabulary.Tokens, notes.Left)
	return f, nil
}

// rerank is how llama.cpp asks a reranker, whose answer is one word.
const rerank = `<|im_start|>system
Judge whether the Document meets the requirements based on the Query and the Instruct provided. Note that the answer can only be "yes" or "no".<|im_end|>
<|im_start|>user
<Instruct>: Given a web search query, retrieve relevant passages that answer the query
<Query>: {query}
<Document>: {document}<|im_end|>
<|im_start|>assistant
<think>

</think>

`

// answersOf returns the rows of the tokens that are a model's possible answers, nil if it
// answers with text, and adds the form of its questions to its templates.
func answersOf(about *settings.Model, v *tokenizer.Vocabulary) (rows []int64, err error) {
	for _, answer := range about.Answers() {
		row := slices.Index(v.Tokens, answer)
		if row < 0 {
			return nil, fmt.Errorf("the vocabulary has no token %q, with which the model answers", answer)
		}
		rows = append(rows, int64(row))
	}
	if rows != nil {
		v.Templates = append(v.Templates, tokenizer.Template{Name: "rerank", Text: rerank})
	}
	return rows, nil
}

// noSpeech is why files of language models have no tensors that make speech.
const noSpeech = "llama.cpp does not make speech with such models"

// addProjector adds the file of the model's towers, if it has any, or notes why it does not
// have one of them. left are the tensors that the file of the language model leaves out.
func (f *Files) addProjector(m *tensorfs.Model, cfg settings.Fields, opts Options, tokens []string, left Towers) {
	f.LeaveOut(Towers{Speech: left[Speech]}, noSpeech)
	if left[Vision] == 0 && left[Audio] == 0 {
		f.LeaveOut(Towers{projectorTower: left[projectorTower]}, ownFile)
		return
	}
	x, err := projectorsOf(m, cfg, opts, tokens, left)
	var d tensorfs.Data
	if err == nil && len(x.list) > 0 {
		d, err = gguf.Compose(x.keys(), x.list)
	}
	if err != nil {
		f.LeaveOut(Towers{Vision: left[Vision], Audio: left[Audio], projectorTower: left[projectorTower]}, ownFile+": "+tensorfs.OneLine(err.Error()))
		return
	}
	for _, part := range []string{Vision, Audio} {
		if why := x.whyNot[part]; why != nil {
			without := Towers{part: left[part]}
			if d == nil {
				without[projectorTower], left[projectorTower] = left[projectorTower], 0
			}
			f.LeaveOut(without, ownFile+": "+tensorfs.OneLine(why.Error()))
		}
	}
	if d == nil {
		return
	}
	f.addMmproj(d, x.notes.Types, x.notes.Exact)
	f.Notes = append(f.Notes, x.notes.Notes...)
}

// addMmproj adds the file of towers, whose tensors have these types.
func (f *Files) addMmproj(d tensorfs.Data, types map[string]int, exact bool) {
	f.List = append(f.List, File{TowerFile, d})
	for t, n := range types {
		f.Types[t] += n
		f.Tensors += n
	}
	f.Exact = f.Exact && exact
}

// configOf reads config.json, and finds the description of the architecture that it names.
func configOf(m *tensorfs.Model) (settings.Fields, *settings.Model, error) {
	cfg, err := settings.Read(m, "config.json")
	if err != nil {
		return cfg, nil, err
	}
	about, err := settings.ToGGUF(m, cfg)
	return cfg, about, err
}
