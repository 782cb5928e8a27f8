package tokenizer

import (
	"slices"
	"strconv"

	"github.com/tensorfs/tensorfs"
)

// Keys of GGUF.
const (
	prefix     = "tokenizer.ggml."
	keyModel   = prefix + "model"
	keyPre     = prefix + "pre"
	keyTokens  = prefix + "tokens"
	keyScores  = prefix + "scores"
	keyTypes   = prefix + "token_type"
	keyMerges  = prefix + "merges"
	keySegment = prefix + "token_type_count"
	keyCharmap = prefix + "precompiled_charsmap"
)

// Flags of a [Vocabulary], as the ends of their keys.
const (
	flagPrefix    = "add_space_prefix" // a space is put before a text
	flagLowercase = "normalizer.lowercase"
	flagAccents   = "normalizer.strip_accents"
	flagTrim      = "remove_extra_whitespaces"
	flagBOS       = "add_bos_token" // a text begins with bos
	flagEOS       = "add_eos_token" // and ends with eos
	flagSEP       = "add_sep_token" // and has sep before a second one
)

// The flags, in the order of keys: those before the special tokens, and those after.
var (
	flagsBefore = []string{flagPrefix, flagLowercase, flagAccents, flagTrim}
	flagsAfter  = []string{flagBOS, flagEOS, flagSEP}
)

// roles are what special tokens are for, in the order of GGUF, and their keys, which
// have its own spelling.
var roles = []struct {
	name string
	keys []string
}{
	{"bos", []string{"bos"}}, {"eos", []string{"eos"}}, {"unk", []string{"unknown"}}, {"sep", []string{"seperator", "separator"}}, {"pad", []string{"padding"}},
	{"cls", []string{"cls"}}, {"mask", []string{"mask"}}, {"prefix", []string{"prefix"}}, {"suffix", []string{"suffix"}}, {"middle", []string{"middle"}},
	{"eot", []string{"eot"}}, {"eom", []string{"eom"}},
}

func roleKey(name string) string { return prefix + name + "_token_id" }

// Scores of tokens that the source has none for.
const (
	padScore = -10000   // of ids that no token has
	unmerged = -1000000 // of tokens that no merge makes
)

// padName is the text of an id that no token has.
func padName(id int) string { return "[PAD" + strconv.Itoa(id) + "]" }

// Keys returns the keys tokenizer.* of a GGUF file. Their values are strings, bools,
// uint32, []string, []int32, []float32 and []uint8. It is an error if two tokens are equal,
// because llama.cpp would abort.
//
// llama.cpp joins the pair of characters whose token has the highest score. With the
// rank of the merge as score it joins as a source does that has merges. Its converter
// writes the same score for all, which gives other tokens.
func (v *Vocabulary) Keys() ([]tensorfs.Meta, error) {
	var list []tensorfs.Meta
	add := func(key string, value any) { list = append(list, tensorfs.Meta{Key: key, Value: value}) }
	if add(keyModel, v.Model); v.Model == noModel {
		return list, nil
	}
	texts, types, scores, before := slices.Clone(v.Tokens), slices.Clone(v.Types), slices.Clone(v.Scores), ""
	if v.Model == wordsModel {
		before = space
		for id := range texts {
			texts[id] = mark(texts[id], types[id])
		}
	}
	for id, kind := range types {
		if kind == unset {
			texts[id], types[id] = before+padName(id), unused
		}
	}
	var f failure
	x := f.distinct(texts, "llama.cpp takes no two that are equal")
	if v.Model == charsModel && scores == nil {
		scores = slices.Repeat([]float32{unmerged}, len(texts))
		for rank, m := range v.Merges {
			if id := x.indexOfText(m.Left + m.Right); id >= 0 && scores[id] == unmerged {
				scores[id] = float32(-rank)
			}
		}
	}
	if v.Pre != "" {
		add(keyPre, v.Pre)
	}
	add(keyTokens, texts)
	if scores != nil {
		for id, kind := range v.Types {
			if kind == unset {
				scores[id] = padScore
			}
		}
		add(keyScores, scores)
	}
	add(keyTypes, types)
	if v.Model == BytesModel || v.Model == textModel {
		add(keyMerges, mergeLines(v.Merges))
	}
	if v.Segments > 0 {
		add(keySegment, uint32(v.Segments))
	}
	flags := func(names []string) {
		for _, name := range names {
			if value, ok := v.Flags[name]; ok {
				add(prefix+name, value)
			}
		}
	}
	flags(flagsBefore)
	if v.Charsmap != nil {
		add(keyCharmap, v.Charsmap)
	}
	for _, role := range roles {
		if id, ok := v.Special[role.name]; ok && id >= 0 {
			add(roleKey(role.keys[0]), uint32(id))
		}
	}
	flags(flagsAfter)
	return append(list, v.templateKeys()...), f.err
}
