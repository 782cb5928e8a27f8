package tokenizer

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"unicode/utf8"

	"github.com/tensorfs/tensorfs"
)

// Limits of what the metadata of a GGUF file may have. The largest vocabularies
// have a million tokens, some 10 MB of text and twice as many merges.
const (
	maxTokens = 1 << 22
	maxMerges = 1 << 22
	maxText   = 32 << 20 // bytes of all tokens, and of all templates
	maxMap    = 16 << 20 // bytes of a precompiled_charsmap
)

// metadata is a GGUF file's metadata.
type metadata struct {
	failure
	get   func(key string) any // returns nil if the key is missing
	count int                  // of tokens
}

// ReadKeys reads the tokenizer from the metadata of a GGUF file. get returns the value of a
// key as package gguf does, nil if it is missing; arch is general.architecture. The error's
// text is one line, for users.
func ReadKeys(get func(key string) any, arch string) (*Vocabulary, error) {
	m := &metadata{get: get}
	v := m.scalars()
	switch {
	case v.Model == "" && m.err == nil:
		return nil, fmt.Errorf("the file has no tokenizer (%s)", keyModel)
	case fileForms[v.Model] == nil:
		return nil, fmt.Errorf("its tokenizer is of the model %s, which tokenizer.json cannot express", tensorfs.Quote(v.Model))
	}
	if v.Model == BytesModel && v.Pre == "" {
		v.Notes = append(v.Notes, "the file does not say how a text is cut before its pairs are merged ("+keyPre+"), so llama.cpp's default is taken; the model may have been trained with another")
	}
	m.tokens(v)
	switch v.Model {
	case BytesModel, textModel, charsModel:
		m.merges(v)
	case piecesModel:
		m.each(keyCharmap, maxMap, func(_ int, value any) bool {
			n, ok := integer(value)
			v.Charsmap = append(v.Charsmap, byte(n))
			return ok && n >= math.MinInt8 && n <= math.MaxUint8
		})
	}
	v.readTemplateKeys(get)
	name, _ := get("general.name").(string)
	v.readName(name, arch)
	v.context, _ = integer(get(arch + ".context_length"))
	if m.err != nil {
		return nil, m.err
	}
	return v, nil
}

// scalars reads all but arrays. Special tokens that do not exist are -1.
func (m *metadata) scalars() *Vocabulary {
	v := &Vocabulary{Special: map[string]int{}, Flags: map[string]bool{}}
	v.Model, _ = scalar[string](m, keyModel)
	v.Pre, _ = scalar[string](m, keyPre)
	for _, name := range append(flagsBefore, flagsAfter...) {
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
			if value != nil && !ok {
				m.fail("%s is of a wrong type", roleKey(name))
			}
			if _, said := v.Special[role.name]; !ok || said {
				continue
			}
			if id < 0 || id >= int64(m.count) {
				id = -1
			}
			v.Special[role.name] = int(id)
		}
	}
	return v
}

// scalar returns the value of a key, if there is one of its type.
func scalar[T any](m *metadata, key string) (T, bool) {
	value := m.get(key)
	v, ok := value.(T)
	if !ok && value != nil {
		m.fail("%s is of a wrong type", key)
	}
	return v, ok
}

// tokens reads the tokens, their types and scores.
func (m *metadata) tokens(v *Vocabulary) {
	total := 0
	m.each(keyTokens, maxTokens, func(i int, value any) bool {
		text, ok := value.(string)
		if total += len(text); total > maxText {
			m.fail("its tokens have more than %d bytes", maxText)
		}
		if !utf8.ValidString(text) {
			m.fail("the token %d, %s, is not UTF-8, and tokenizer.json can hold no other text", i, tensorfs.Quote(text))
		}
		v.Tokens = append(v.Tokens, text)
		return ok
	})
	if m.count = len(v.Tokens); m.count == 0 {
		m.fail("the file has no tokens (%s)", keyTokens)
	}
	m.types(v)
	if v.Model == charsModel || v.Model == piecesModel {
		v.Scores = make([]float32, m.count) // all 0 if missing, as in llama.cpp
		m.eachToken(keyScores, func(id int, value any) bool {
			n, wide := value.(float64)
			if v.Scores[id] = float32(n); !wide {
				v.Scores[id], wide = value.(float32)
			}
			return wide
		})
	}
	for id, text := range v.Tokens {
		if v.Model == wordsModel {
			text = unmark(text, v.Types[id])
		}
		if text == "" {
			text = fmt.Sprintf("[EMPTY_%d]", id)
		}
		v.Tokens[id] = text
	}
	v.index = m.distinct(v.Tokens, "tokenizer.json can hold no two that are equal")
}

// types reads the types of the tokens. If they are missing, the special tokens are the
// tokens that have a role.
func (m *metadata) types(v *Vocabulary) {
	v.Types = slices.Repeat([]int32{normal}, m.count)
	found := m.eachToken(keyTypes, func(id int, value any) bool {
		kind, ok := integer(value)
		if kind >= int64(normal) && kind <= int64(byteToken) {
			v.Types[id] = int32(kind)
		}
		return ok
	})
	for _, role := range []string{"bos", "eos", "unk", "pad"} {
		if id := v.role(role); id >= 0 && !found {
			v.Types[id] = control
		}
	}
}

// eachToken is each for an array that has a value for each token.
func (m *metadata) eachToken(key string, do func(id int, v any) bool) (found bool) {
	if a, ok := m.get(key).(tensorfs.Array); ok && a.Len() != m.count {
		m.fail("%s has %d values, and there are %d tokens", key, a.Len(), m.count)
	}
	return m.each(key, maxTokens, do)
}

// each calls do for the values of an array, if there is one. It is an error where do
// finds a value to be of a wrong type.
func (m *metadata) each(key string, most int, do func(i int, v any) bool) (found bool) {
	v := m.get(key)
	a, ok := v.(tensorfs.Array)
	switch {
	case v == nil:
		return false
	case !ok:
		m.fail("%s is not an array", key)
	case a.Len() > most:
		m.fail("%s has %d values, and at most %d are read", key, a.Len(), most)
	}
	if m.err != nil {
		return true
	}
	i := 0
	for v := range a.Values() {
		if i == a.Len() || m.err != nil {
			break
		}
		if !do(i, v) {
			m.fail("the value %d of %s is of a wrong type", i, key)
		}
		i++
	}
	if i < a.Len() {
		m.fail("%s cannot be read to its end: the file has changed", key)
	}
	return true
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

// assumedIDs are llama.cpp's default special tokens, by model and role.
var assumedIDs = map[string]map[string]int{
	charsModel:  {"bos": 1, "eos": 2, "unk": 0},
	wordsModel:  {"unk": 100, "pad": 0, "mask": 103, "cls": 101, "sep": 102},
	piecesModel: {"unk": 2, "eos": 1, "pad": 0},
}

// role returns the token of the first of the roles that has one, or -1.
func (v *Vocabulary) role(names ...string) int {
	for _, name := range names {
		id, said := v.Special[name]
		if !said {
			id, said = assumedIDs[v.Model][name]
		}
		if v.Model == wordsModel && name == "unk" && v.index != nil && !v.hasRole(name) {
			if found := v.index.indexOfText("[UNK]"); found >= 0 {
				return int(found)
			}
		}
		if said && id >= 0 && id < len(v.Tokens) {
			return id
		}
	}
	return -1
}

// hasRole reports whether a role was given a token that exists.
func (v *Vocabulary) hasRole(role string) bool {
	id, ok := v.Special[role]
	return ok && id >= 0
}
