package settings

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
)

// Unread returns notes about the keys of the GGUF file that nothing here reads, to be asked
// for when all that reads keys has. A key that may change what the model computes is an error.
func (s *Model) Unread() (notes []string, err error) {
	var silent []string
	for _, key := range slices.Sorted(maps.Keys(s.keys.at)) {
		v := s.keys.at[key]
		if s.keys.asked[key] || architectures.NeedsNoRow(key) || s.describes(key) || isNothing(v) {
			continue
		}
		if _, text := v.(string); !text && !architectures.Harmless(key, strings.TrimSuffix(s.keys.prefix, ".")) {
			return nil, fmt.Errorf("%s is %s, and what it means for a model of %s is not known", tensorfs.Quote(key), Shown(v), s.arch.GGUF)
		}
		silent = append(silent, tensorfs.Printable(key))
	}
	if s.bidirectional {
		notes = append(notes, "every token sees those after it, by is_causal of config.json: transformers 5 obeys it, and transformers 4 does not read it")
	}
	if len(silent) > 0 {
		notes = append(notes, "of the file's keys these are not read: "+someOf(silent))
	}
	if keys := s.unreadThere(); len(keys) > 0 {
		notes = append(notes, "llama.cpp does not read these of the file's keys, which are obeyed here: "+someOf(keys))
	}
	return notes, nil
}

// unreadThere returns the keys that were read here and that llama.cpp does not read.
func (s *Model) unreadThere() (keys []string) {
	for _, f := range architectures.AllFacts() {
		if v, key := s.keys.find(f.Keys...); v != nil && slices.ContainsFunc(f.Unread, func(name string) bool { return s.keys.full(name) == key }) {
			keys = append(keys, key)
		}
	}
	return keys
}

// someOf lists the first few of names.
func someOf(names []string) string {
	if more := len(names) - few; more > 0 {
		names = append(names[:few:few], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

// isNothing reports whether a value is 0, false or an empty text, as of an option that is off.
func isNothing(v any) bool {
	n, whole := wholeNumber(v)
	return v == false || v == "" || v == float32(0) || v == float64(0) || whole && n == 0
}

// few is how many keys a note names.
const few = 8

// describes reports whether the description of the architecture has a fact with that key.
func (s *Model) describes(key string) bool {
	for _, items := range [][]architectures.Setting{s.arch.Keys, s.arch.Config} {
		for _, x := range items {
			if x.Fact != nil && slices.ContainsFunc(x.Fact.Keys, func(name string) bool { return s.keys.full(name) == key }) {
				return true
			}
		}
	}
	return false
}
