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

// stored is the tokenizer that the metadata of a GGUF file has.
type stored struct {
	get    func(key string) any
	arch   string
	model  string
	count  int // of tokens
	tokens tokens
	index  *index // of tokens.texts
	added  []int  // ids of tokens that are looked for before all else
	said   map[string]int
	ids    map[string]int // said, and what llama.cpp takes where nothing is said
	wrong  string         // the first key whose value is of a wrong type
}

// assumedIDs are the special tokens that llama.cpp takes where the metadata says
// nothing, by model and role.
var assumedIDs = map[string]map[string]int{
	"llama": {"bos": 1, "eos": 2, "unk": 0},
	"bert":  {"unk": 100, "pad": 0, "mask": 103, "cls": 101, "sep": 102},
	"t5":    {"unk": 2, "eos": 1, "pad": 0},
}

// storedRoles are the roles of special tokens in the order of Hugging Face's
// files, and their keys.
var storedRoles = []struct {
	name string
	keys []string
}{
	{"bos", []string{"bos"}}, {"eos", []string{"eos"}}, {"unk", []string{"unknown"}}, {"pad", []string{"padding"}},
	{"sep", []string{"seperator", "separator"}}, {"cls", []string{"cls"}}, {"mask", []string{"mask"}},
	{"eot", []string{"eot"}}, {"eom", []string{"eom"}}, // only among [Ends]
}

// newStored returns the special tokens of a GGUF file; see read for the others.
func newStored(get func(key string) any, arch string) *stored {
	s := &stored{get: get, arch: arch, said: map[string]int{}, ids: map[string]int{}}
	s.model = s.text("tokenizer.ggml.model")
	if a, ok := get(keyTokens).(tensorfs.Array); ok {
		s.count = a.Len()
	}
	for role, id := range assumedIDs[s.model] {
		s.setID(s.ids, role, int64(id))
	}
	for _, role := range storedRoles {
		for _, key := range role.keys {
			key = "tokenizer.ggml." + key + "_token_id"
			v := get(key)
			if v == nil {
				continue
			}
			id, ok := integer(v)
			if !ok {
				s.fail(key)
				continue
			}
			s.setID(s.said, role.name, id)
			s.setID(s.ids, role.name, id)
			break
		}
	}
	return s
}

// setID gives a role a token, or none where there is no such token.
func (s *stored) setID(ids map[string]int, role string, id int64) {
	if delete(ids, role); id >= 0 && id < int64(s.count) {
		ids[role] = int(id)
	}
}

// id returns the token of the first of the roles that has one, or -1.
func (s *stored) id(roles ...string) int {
	for _, role := range roles {
		if id, ok := s.ids[role]; ok {
			return id
		}
	}
	return -1
}

const keyTokens = "tokenizer.ggml.tokens"

// read reads the tokens, their types and scores. spell changes their texts.
func (s *stored) read(scored bool, spell func(text string, kind int32) string) error {
	if s.wrong != "" {
		return fmt.Errorf("%s is of a wrong type", tensorfs.Printable(s.wrong))
	}
	t := &s.tokens
	total := 0
	found, err := s.each(keyTokens, maxTokens, func(i int, v any) error {
		text, ok := v.(string)
		total += len(text)
		switch {
		case !ok:
			return errWrongType
		case !utf8.ValidString(text):
			return fmt.Errorf("the token %d, %s, is not UTF-8, and tokenizer.json can hold no other text", i, tensorfs.Quote(text))
		case total > maxText:
			return fmt.Errorf("its tokens have more than %d bytes", maxText)
		}
		t.texts = append(t.texts, text)
		return nil
	})
	if err != nil {
		return err
	}
	if !found || len(t.texts) == 0 {
		return fmt.Errorf("the file has no tokens (%s)", keyTokens)
	}
	s.count = len(t.texts)
	if err := s.readTypes(); err != nil {
		return err
	}
	if scored {
		if t.scores, err = s.scores(); err != nil {
			return err
		}
	}
	s.index = newIndex(t.texts)
	for id, text := range t.texts {
		if text = spell(text, t.types[id]); text == "" {
			text = fmt.Sprintf("[EMPTY_%d]", id)
		}
		t.texts[id] = text
		if other, ok := s.index.add(int32(id)); !ok {
			return fmt.Errorf("the tokens %d and %d are both %s, and tokenizer.json can hold no two that are equal", other, id, tensorfs.Quote(text))
		}
	}
	return nil
}

// readTypes reads the types of the tokens. Where there are none, the special
// tokens are those that have a role.
func (s *stored) readTypes() error {
	t := &s.tokens
	t.types = slices.Repeat([]int32{normal}, s.count)
	const key = "tokenizer.ggml.token_type"
	found, err := s.eachToken(key, func(id int, v any) error {
		kind, ok := integer(v)
		if !ok {
			return errWrongType
		}
		if kind >= int64(normal) && kind <= int64(byteToken) {
			t.types[id] = int32(kind)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if !found {
		for _, role := range []string{"bos", "eos", "unk", "pad"} {
			if id := s.id(role); id >= 0 {
				t.types[id] = control
			}
		}
	}
	for id, kind := range t.types {
		if kind == unknown || kind == control || kind == userDefined {
			s.added = append(s.added, id)
		}
	}
	return nil
}

// scores reads the scores of the tokens: all 0 where there are none, as in
// llama.cpp.
func (s *stored) scores() ([]float32, error) {
	scores := make([]float32, s.count)
	_, err := s.eachToken("tokenizer.ggml.scores", func(id int, v any) error {
		switch v := v.(type) {
		case float32:
			scores[id] = v
		case float64:
			scores[id] = float32(v)
		default:
			return errWrongType
		}
		return nil
	})
	return scores, err
}

// eachToken is each for an array that has a value for each token.
func (s *stored) eachToken(key string, do func(id int, v any) error) (found bool, err error) {
	if a, ok := s.get(key).(tensorfs.Array); ok && a.Len() != s.count {
		return false, fmt.Errorf("%s has %d values, and there are %d tokens", key, a.Len(), s.count)
	}
	return s.each(key, maxTokens, do)
}

// errWrongType is what each puts the key of an array in.
var errWrongType = fmt.Errorf("a value is of a wrong type")

// each calls do for the values of an array, if there is one.
func (s *stored) each(key string, most int, do func(i int, v any) error) (found bool, err error) {
	v := s.get(key)
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

// fail remembers a key whose value is of a wrong type.
func (s *stored) fail(key string) {
	if s.wrong == "" {
		s.wrong = key
	}
}

// flag returns the value of a key that is true or false.
func (s *stored) flag(key string, otherwise bool) bool {
	switch v := s.get(key).(type) {
	case nil:
	case bool:
		return v
	default:
		s.fail(key)
	}
	return otherwise
}

// text returns the value of a key that is a text.
func (s *stored) text(key string) string {
	switch v := s.get(key).(type) {
	case nil:
	case string:
		return v
	default:
		s.fail(key)
	}
	return ""
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
