package tokenizer

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"unicode/utf8"

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

// Keys returns the keys tokenizer.* of a GGUF file. Their values are strings, bools,
// uint32, []string, []int32, []float32 and []uint8. It is an error if two tokens are
// equal: llama.cpp stops the whole process where they are.
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
	texts, types, scores, pad := slices.Clone(v.Tokens), slices.Clone(v.Types), slices.Clone(v.Scores), "[PAD"
	if v.Model == "bert" {
		pad = space + pad
		for id := range texts {
			texts[id] = mark(texts[id], types[id])
		}
	}
	for id, kind := range types {
		if kind == unset {
			texts[id], types[id] = pad+strconv.Itoa(id)+"]", unused
		}
	}
	x, err := distinct(texts, "llama.cpp takes no two that are equal")
	if err != nil {
		return nil, err
	}
	if v.Model == "llama" && scores == nil {
		scores = slices.Repeat([]float32{unmerged}, len(texts))
		for rank, m := range v.Merges {
			if id := x.find(m.Left + m.Right); id >= 0 && scores[id] == unmerged {
				scores[id] = float32(-rank)
			}
		}
	}
	add(keyPre, v.Pre)
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
	if v.Model == "gpt2" || v.Model == "gemma4" {
		add(keyMerges, mergeLines(v.Merges))
	}
	if v.Segments > 0 {
		add(keySegment, uint32(v.Segments))
	}
	flags := func(names ...string) {
		for _, name := range names {
			if value, ok := v.Flags[name]; ok {
				add(prefix+name, value)
			}
		}
	}
	flags(flagPrefix, flagLowercase, flagAccents, flagTrim)
	if v.Charsmap != nil {
		add(keyCharmap, v.Charsmap)
	}
	for _, role := range roles {
		if id, ok := v.Special[role.name]; ok && id >= 0 {
			add(roleKey(role.keys[0]), uint32(id))
		}
	}
	flags(flagBOS, flagEOS, flagSEP)
	return append(list, v.templateKeys()...), nil
}

// Limits of what the metadata of a GGUF file may have. The largest vocabularies
// have a million tokens, some 10 MB of text and twice as many merges.
const (
	maxTokens = 1 << 22
	maxMerges = 1 << 22
	maxText   = 32 << 20 // bytes of all tokens, and of all templates
	maxMap    = 16 << 20 // bytes of a precompiled_charsmap
)

// metadata is that of a GGUF file.
type metadata struct {
	get   func(key string) any // nil where there is no such key
	count int                  // of tokens
	wrong string               // the first key whose value is of a wrong type
}

// ReadKeys reads the tokenizer that the metadata of a GGUF file has. get returns the
// value of a key as package gguf does, nil where there is none; arch is
// general.architecture. The error's text is one line, for users.
func ReadKeys(get func(key string) any, arch string) (*Vocabulary, error) {
	m := &metadata{get: get}
	v := m.scalars()
	switch known := fileForms[v.Model] != nil; {
	case v.Model == "" && m.wrong == "":
		return nil, fmt.Errorf("the file has no tokenizer (%s)", keyModel)
	case !known:
		return nil, fmt.Errorf("its tokenizer is of the model %s, which tokenizer.json cannot express", tensorfs.Quote(v.Model))
	case m.wrong != "":
		return nil, fmt.Errorf("%s is of a wrong type", tensorfs.Printable(m.wrong))
	}
	if err := m.tokens(v); err != nil {
		return nil, err
	}
	v.name, _ = get("general.name").(string)
	v.context, _ = integer(get(arch + ".context_length"))
	v.readTemplateKeys(get)
	var err error
	switch v.Model {
	case "gpt2", "gemma4", "llama":
		err = m.merges(v)
	case "t5":
		_, err = m.each(keyCharmap, maxMap, func(_ int, value any) error {
			n, ok := integer(value)
			if !ok || n < math.MinInt8 || n > math.MaxUint8 {
				return errWrongType
			}
			v.Charsmap = append(v.Charsmap, byte(n))
			return nil
		})
	}
	return v, err
}

// scalars reads all but arrays. Special tokens that do not exist are -1.
func (m *metadata) scalars() *Vocabulary {
	v := &Vocabulary{Special: map[string]int{}, Flags: map[string]bool{}}
	v.Model, _ = scalar[string](m, keyModel)
	v.Pre, _ = scalar[string](m, keyPre)
	for _, name := range []string{flagPrefix, flagLowercase, flagAccents, flagTrim, flagBOS, flagEOS, flagSEP} {
		if value, ok := scalar[bool](m, prefix+name); ok {
			v.Flags[name] = value
		}
	}
	if a, ok := m.get(keyTokens).(tensorfs.Array); ok {
		m.count = a.Len()
	}
	for _, role := range roles {
		for _, name := range role.keys {
			value := m.get(roleKey(name))
			id, ok := integer(value)
			switch {
			case value == nil:
				continue
			case !ok:
				m.fail(roleKey(name))
				continue
			case id < 0 || id >= int64(m.count):
				id = -1
			}
			v.Special[role.name] = int(id)
			break
		}
	}
	return v
}

// scalar returns the value of a key, if there is one of its type.
func scalar[T any](m *metadata, key string) (T, bool) {
	value := m.get(key)
	v, ok := value.(T)
	if !ok && value != nil {
		m.fail(key)
	}
	return v, ok
}

// fail remembers a key whose value is of a wrong type.
func (m *metadata) fail(key string) {
	if m.wrong == "" {
		m.wrong = key
	}
}

// tokens reads the tokens, their types and scores.
func (m *metadata) tokens(v *Vocabulary) error {
	total := 0
	found, err := m.each(keyTokens, maxTokens, func(i int, value any) error {
		text, ok := value.(string)
		total += len(text)
		switch {
		case !ok:
			return errWrongType
		case !utf8.ValidString(text):
			return fmt.Errorf("the token %d, %s, is not UTF-8, and tokenizer.json can hold no other text", i, tensorfs.Quote(text))
		case total > maxText:
			return fmt.Errorf("its tokens have more than %d bytes", maxText)
		}
		v.Tokens = append(v.Tokens, text)
		return nil
	})
	if err != nil {
		return err
	}
	if m.count = len(v.Tokens); !found || m.count == 0 {
		return fmt.Errorf("the file has no tokens (%s)", keyTokens)
	}
	if err := m.types(v); err != nil {
		return err
	}
	if v.Model == "llama" || v.Model == "t5" {
		v.Scores = make([]float32, m.count) // all 0 where there are none, as in llama.cpp
		_, err := m.eachToken(keyScores, func(id int, value any) error {
			switch n := value.(type) {
			case float32:
				v.Scores[id] = n
			case float64:
				v.Scores[id] = float32(n)
			default:
				return errWrongType
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	for id, text := range v.Tokens {
		if v.Model == "bert" {
			text = unmark(text, v.Types[id])
		}
		if text == "" {
			text = fmt.Sprintf("[EMPTY_%d]", id)
		}
		v.Tokens[id] = text
	}
	v.index, err = distinct(v.Tokens, "tokenizer.json can hold no two that are equal")
	return err
}

// types reads the types of the tokens. Where there are none, the special tokens are
// those that have a role.
func (m *metadata) types(v *Vocabulary) error {
	v.Types = slices.Repeat([]int32{normal}, m.count)
	found, err := m.eachToken(keyTypes, func(id int, value any) error {
		kind, ok := integer(value)
		if !ok {
			return errWrongType
		}
		if kind >= int64(normal) && kind <= int64(byteToken) {
			v.Types[id] = int32(kind)
		}
		return nil
	})
	for _, role := range []string{"bos", "eos", "unk", "pad"} {
		if id := v.role(role); id >= 0 && !found {
			v.Types[id] = control
		}
	}
	return err
}

// eachToken is each for an array that has a value for each token.
func (m *metadata) eachToken(key string, do func(id int, v any) error) (found bool, err error) {
	if a, ok := m.get(key).(tensorfs.Array); ok && a.Len() != m.count {
		return false, fmt.Errorf("%s has %d values, and there are %d tokens", key, a.Len(), m.count)
	}
	return m.each(key, maxTokens, do)
}

// errWrongType is what each puts the key of an array in.
var errWrongType = fmt.Errorf("a value is of a wrong type")

// each calls do for the values of an array, if there is one.
func (m *metadata) each(key string, most int, do func(i int, v any) error) (found bool, err error) {
	v := m.get(key)
	if v == nil {
		return false, nil
	}
	a, ok := v.(tensorfs.Array)
	switch {
	case !ok:
		return false, fmt.Errorf("%s is not an array", key)
	case a.Len() > most:
		return false, fmt.Errorf("%s has %d values, and at most %d are read", key, a.Len(), most)
	}
	i := 0
	for v := range a.Values() {
		if i == a.Len() {
			break
		}
		if err := do(i, v); err == errWrongType {
			return false, fmt.Errorf("the value %d of %s is of a wrong type", i, key)
		} else if err != nil {
			return false, err
		}
		i++
	}
	if i < a.Len() {
		return false, fmt.Errorf("%s cannot be read to its end: the file has changed", key)
	}
	return true, nil
}

// integer returns a value of any type of integers that fits an int64.
func integer(v any) (int64, bool) {
	switch r := reflect.ValueOf(v); {
	case r.CanInt():
		return r.Int(), true
	case r.CanUint() && r.Uint() <= math.MaxInt64:
		return int64(r.Uint()), true
	}
	return 0, false
}

// assumedIDs are the special tokens that llama.cpp takes where the metadata says
// nothing, by model and role.
var assumedIDs = map[string]map[string]int{
	"llama": {"bos": 1, "eos": 2, "unk": 0},
	"bert":  {"unk": 100, "pad": 0, "mask": 103, "cls": 101, "sep": 102},
	"t5":    {"unk": 2, "eos": 1, "pad": 0},
}

// role returns the token of the first of the roles that has one, or -1.
func (v *Vocabulary) role(names ...string) int {
	for _, name := range names {
		id, said := v.Special[name]
		if !said {
			id, said = assumedIDs[v.Model][name]
		}
		if v.Model == "bert" && name == "unk" && v.index != nil && !v.said(name) {
			if found := v.index.find("[UNK]"); found >= 0 {
				return int(found)
			}
		}
		if said && id >= 0 && id < len(v.Tokens) {
			return id
		}
	}
	return -1
}

// said reports whether a role was given a token that exists.
func (v *Vocabulary) said(role string) bool {
	id, ok := v.Special[role]
	return ok && id >= 0
}
