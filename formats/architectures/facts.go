package architectures

import (
	_ "embed"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
)

// A Fact is what both a GGUF file and a config.json say of a model, under names of
// their own.
type Fact struct {
	Name   string
	Kind   Kind
	List   bool     // there are several values
	Most   int64    // of a Size: the largest that a GGUF file is made with; 0: what its type holds
	Keys   []string // of GGUF, without the architecture's name; the first is written
	Unread []string // of these keys, the ones that llama.cpp does not read
	Fields []string // of config.json, in the order in which they are looked for
}

// Kind is what values a fact has.
type Kind string

// The kinds of facts.
const (
	Size   Kind = "size"   // a whole number of at least 1
	Count  Kind = "count"  // a whole number of at least 0
	Index  Kind = "index"  // a whole number of at least -1, in lists
	Option Kind = "option" // a whole number; 0 means that the model lacks it
	Real   Kind = "real"
	Bound  Kind = "bound" // a real of any sign, or less than all of them
	Text   Kind = "text"
	Flag   Kind = "flag"
)

//go:embed keys.txt
var keysText string

// AllFacts returns the rows of keys.txt, in their order.
var AllFacts = sync.OnceValue(func() []Fact { return must(readFacts("keys.txt", keysText)) })

// factIndex are the facts by their names, the first fact of each field of config.json, and the
// facts of each key.
type factIndex struct {
	names, fields map[string]*Fact
	keys          map[string][]*Fact
}

var factsBy = sync.OnceValue(func() (by factIndex) {
	by = factIndex{map[string]*Fact{}, map[string]*Fact{}, map[string][]*Fact{}}
	all := AllFacts()
	for i := range all {
		f := &all[i]
		by.names[f.Name] = f
		for _, field := range f.Fields {
			if by.fields[field] == nil {
				by.fields[field] = f
			}
		}
		for _, key := range f.Keys {
			by.keys[key] = append(by.keys[key], f)
		}
	}
	return by
})

// FactOf returns a fact by its name, nil without it.
func FactOf(name string) *Fact { return factsBy().names[name] }

// FactOfField returns the first fact that a field of config.json has, nil without one.
func FactOfField(field string) *Fact { return factsBy().fields[field] }

// FactsOfKey returns the facts that have a key, by its name without the architecture's.
func FactsOfKey(key string) []*Fact { return factsBy().keys[key] }

//go:embed fields.txt
var fieldsText string

// harmless are the names and patterns of fields.txt.
var harmless = sync.OnceValue(func() (list []string) {
	for line := range strings.Lines(fieldsText) {
		line, _, _ = strings.Cut(line, "#")
		list = append(list, strings.Fields(line)...)
	}
	return list
})

//go:embed metadata.txt
var metadataText string

// metadataKeys are the patterns of metadata.txt: of keys that need no row, and of keys that
// are noted.
var metadataKeys = sync.OnceValue(func() (list [2][]string) {
	part := 0
	for line := range strings.Lines(metadataText) {
		line, _, _ = strings.Cut(line, "#")
		for _, word := range strings.Fields(line) {
			if word == "harmless" {
				part = 1
				continue
			}
			list[part] = append(list[part], word)
		}
	}
	return list
})

// NeedsNoRow reports whether a key of a GGUF file is one that no description has to have.
func NeedsNoRow(key string) bool { return matches(metadataKeys()[0], key) }

// Harmless reports whether a key does not change what a model of an architecture computes:
// because of its prefix, or because its row is for other architectures, whose loaders are
// the only ones that read it.
func Harmless(key, architecture string) bool {
	if matches(metadataKeys()[1], key) {
		return true
	}
	name, own := strings.CutPrefix(key, architecture+".")
	return own && FactsOfKey(name) != nil
}

//go:embed llama.txt
var llamaText string

// loaded are the names of llama.txt.
var loaded = sync.OnceValue(func() map[string]bool {
	names := map[string]bool{}
	for line := range strings.Lines(llamaText) {
		line, _, _ = strings.Cut(line, "#")
		for _, name := range strings.Fields(line) {
			names[name] = true
		}
	}
	return names
})

// Loads reports whether llama.cpp has an architecture, by GGUF's name.
func Loads(architecture string) bool { return loaded()[architecture] }

func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return match(pattern, name) })
}

// match is path.Match. A file may have a hundred thousand names, and nearly all patterns differ from them before the
// first character that means more than itself.
func match(pattern, name string) bool {
	literal := strings.IndexAny(pattern, `*?[\`)
	if literal < 0 {
		return pattern == name
	}
	if !strings.HasPrefix(name, pattern[:literal]) {
		return false
	}
	ok, _ := path.Match(pattern, name)
	return ok
}

// Knows reports whether a field of config.json is in the description, or has no influence
// on what a model computes.
func (s *Settings) Knows(field string) bool {
	if matches(harmless(), field) {
		return true
	}
	has := func(x Setting) bool {
		return x.Name == field || x.Field == field || x.Fact != nil && slices.Contains(x.Fact.Fields, field)
	}
	return slices.ContainsFunc(s.words["known"], func(x Item) bool { return match(x.Text, field) }) ||
		slices.ContainsFunc(s.Only, func(o Only) bool { return o.Field == field }) ||
		s.Constant(field) == nil && (slices.ContainsFunc(s.Keys, has) || slices.ContainsFunc(s.Config, has))
}

// Constant returns the value that a field of config.json must have, nil if any is allowed.
// A field with another value is unknown.
func (s *Settings) Constant(field string) any {
	for _, x := range s.Config {
		if x.Name == field && x.Always && x.Value.Literal != nil {
			return x.Value.Literal
		}
	}
	return nil
}

func readFacts(file, text string) ([]Fact, error) {
	var list []Fact
	n := 0
	for line := range strings.Lines(text) {
		n++
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		f, err := readFact(line)
		if err == nil && slices.ContainsFunc(list, func(g Fact) bool { return g.Name == f.Name }) {
			err = fmt.Errorf("%s is there twice", f.Name)
		}
		if err != nil {
			return nil, mistake(file, n, "%s", err)
		}
		list = append(list, f)
	}
	return list, nil
}

func readFact(line string) (Fact, error) {
	var columns []string
	for c := range strings.SplitSeq(line, "  ") {
		if c = strings.TrimSpace(c); c != "" {
			columns = append(columns, c)
		}
	}
	if len(columns) != 4 {
		return Fact{}, fmt.Errorf("%d columns, not 4", len(columns))
	}
	kind, most, bounded := strings.Cut(columns[1], ":")
	kind, list := strings.CutSuffix(kind, "[]")
	f := Fact{Name: columns[0], Kind: Kind(kind), List: list, Keys: strings.Fields(columns[2])}
	for i, key := range f.Keys {
		if name, unread := strings.CutPrefix(key, "~"); unread {
			f.Keys[i], f.Unread = name, append(f.Unread, name)
		}
	}
	if columns[3] != "-" {
		f.Fields = strings.Fields(columns[3])
	}
	if !slices.Contains([]Kind{Size, Count, Index, Option, Real, Bound, Text, Flag}, f.Kind) {
		return f, fmt.Errorf("there is no kind %q", kind)
	}
	if bounded {
		if f.Most, _ = literal(most).(int64); f.Most < 1 {
			return f, fmt.Errorf("%q is no bound", most)
		}
	}
	return f, nil
}
