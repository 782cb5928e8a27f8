package whole

import (
	"slices"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/gguf"
	"github.com/tensorfs/tensorfs/formats/tokenizer"
	"github.com/tensorfs/tensorfs/views/tree/whole/layout"
)

// composed returns the file of a model whose tensors have the names and the layout
// of Hugging Face: a header that is written here, before tensors that are composed
// of the stored ones when they are read.
//
//	config.json ----> architecture ---> keys ------------------+
//	tokenizer.* ----> tokens, merges, special ids -------------+--> header
//	tensors --------> moved, renamed, as types that ggml has --+--> data
func composed(m *tensorfs.Model, opts Options) (*Files, error) {
	cfg, err := readSettings(m, "config.json")
	if err != nil {
		return nil, err
	}
	arch, err := architecture(m, cfg)
	if err != nil {
		return nil, err
	}
	rows := embeddingRows(m)
	vocabulary, err := tokenizer.ReadFiles(tokenizer.Options{File: m.File, Architecture: arch, Config: cfg.top, Rows: rows})
	if err != nil {
		return nil, err
	}
	tokens, err := vocabulary.Keys()
	if err != nil {
		return nil, err
	}
	list, notes, err := tensors(m, cfg, arch, opts, len(vocabulary.Tokens))
	if err != nil {
		return nil, err
	}
	meta, err := keys(m, cfg, facts{rows: int64(rows), tokenizer: len(vocabulary.Tokens) > 0, fileType: notes.FileType, tensor: shapesOf(m)})
	if err != nil {
		return nil, err
	}
	d, err := gguf.Compose(slices.Concat(meta, tokens), list)
	if err != nil {
		return nil, err
	}
	f := &Files{
		List: []File{{ggufName, d}}, Tensors: len(list), Types: notes.Types, Exact: notes.Exact,
		Notes: slices.Concat(notes.Notes, vocabulary.Notes),
	}
	f.LeaveOut(notes.Left, "llama.cpp takes it from a file of its own (--mmproj), which is not made")
	return f, nil
}

// shapesOf returns a function that gives the shape of a tensor by its canonical name,
// nil where there is none.
func shapesOf(m *tensorfs.Model) func(string) []int64 {
	all := layout.TensorsOf(m)
	return func(name string) []int64 {
		if t := all.Find(name); t != nil {
			return t.Numbers()
		}
		return nil
	}
}
