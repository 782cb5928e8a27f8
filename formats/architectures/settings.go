package architectures

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Settings are a block's lines about config.json and the keys of a GGUF file.
type Settings struct {
	Name    string
	GGUF    string // general.architecture
	Classes []Class
	Written Class // in the config.json of a directory that is converted from a GGUF file
	When    *Expr // the condition under which a GGUF file of that name is meant; nil if the name is unambiguous
	Where   *Expr // the condition under which a config.json of its classes is meant; nil if the class is unambiguous
	Only    []Only
	Keys    []Setting // facts that are written to a GGUF file
	Config  []Setting // fields that are written to a config.json
	words   map[string][]Item
}

// WithExperts ends the name of a class if some of its models have layers of experts, and
// therefore another architecture in GGUF.
const WithExperts = "+experts"

// HasExpertLayers reports whether the words of layers_block_type, or the letters of
// hybrid_override_pattern, say that a layer has experts.
func HasExpertLayers(words []string, letters string) bool {
	return slices.Contains(words, "moe") || len(words) == 0 && strings.Contains(letters, "E")
}

// Class names an architecture in config.json. Either name may be missing.
type Class struct{ Name, ModelType string }

// Only is what a field of config.json may be: a string, float64 or bool. Without
// values the field has to be absent.
type Only struct {
	Field  string
	Values []any
	Said   bool // the field may not be absent
}

// Setting is a fact that is written to a GGUF file, or a field of config.json.
type Setting struct {
	Name   string
	Fact   *Fact  // nil if no key has this field of config.json
	Field  string // name in config.json; "" if it follows from the fact
	Value  *Expr  // nil: without the field, or the key, there is nothing
	Always bool   // the value is not read from the other side
	Said   bool   // a field of config.json that is null is not the value
	When   *Expr
}

// Has reports whether the items of a word have a name.
func (s *Settings) Has(word, name string) bool {
	return slices.ContainsFunc(s.words[word], func(x Item) bool { return x.Name == name })
}

// Lossy reports whether an item of that name is lost from GGUF to config.json.
func (s *Settings) Lossy(word, name string) bool {
	return slices.ContainsFunc(s.words[word], func(x Item) bool { return x.Text == name+">" })
}

// Words returns the items of a word.
func (s *Settings) Words(word string) (list []string) {
	for _, x := range s.words[word] {
		list = append(list, x.Text)
	}
	return list
}

// Word returns the first item of a word, "" without one.
func (s *Settings) Word(word string) string {
	if len(s.words[word]) == 0 {
		return ""
	}
	return s.words[word][0].Text
}

// Calls returns the items of a word that are calls.
func (s *Settings) Calls(word string) []*Expr {
	var list []*Expr
	for _, x := range s.words[word] {
		if e, err := ParseExpr(x.Text); err == nil { // it was read before
			list = append(list, e)
		}
	}
	return list
}

// Makes reports whether tensorfs makes gguf, hf or mlx from such a model.
func (s *Settings) Makes(what string) bool {
	return s.words["makes"] == nil || s.Has("makes", what)
}

// AllSettings returns the settings of all blocks that have a class, in their order:
// several blocks may be of one architecture.
var AllSettings = sync.OnceValue(func() []*Settings {
	return must(readSettings("architectures.txt", architecturesText))
})

func readSettings(file, text string) ([]*Settings, error) {
	blocks, err := readBlocks(file, text)
	if err != nil {
		return nil, err
	}
	var list []*Settings
	for i, b := range blocks {
		s := &Settings{Name: b.name, GGUF: b.name, words: b.words}
		for word, items := range b.words {
			read := settingReaders[word]
			if read == nil {
				continue
			}
			if items, err = expanded(file, blocks[:i], word, items); err != nil {
				return nil, err
			}
			b.words[word] = items
			for _, x := range items {
				if err := read(s, x); err != nil {
					return nil, mistake(file, x.Line, "%s: %s", x.Text, err)
				}
			}
		}
		if s.Classes != nil {
			if s.Written == (Class{}) {
				s.Written = s.Classes[0]
			}
			list = append(list, s)
		}
	}
	return list, nil
}

// settingReaders read the items of words.
var settingReaders = map[string]func(*Settings, Item) error{
	"only": (*Settings).readOnly, "keys": (*Settings).readKey, "config": (*Settings).readField,
	"needs": isFact, "check": isCall, "agree": isCall, "hf_agree": isCall, "mlx_agree": isCall,
	"tokenizer": (*Settings).readTokenizer, "traits": isTrait,
	"gguf":   func(s *Settings, x Item) error { s.GGUF = x.Text; return nil },
	"when":   func(s *Settings, x Item) (err error) { s.When, err = ParseExpr(x.Text); return err },
	"where":  func(s *Settings, x Item) (err error) { s.Where, err = ParseExpr(x.Text); return err },
	"class":  func(s *Settings, x Item) error { s.Classes = append(s.Classes, classOf(x.Text)); return nil },
	"writes": func(s *Settings, x Item) error { s.Written = classOf(x.Text); return nil },
}

func classOf(text string) Class {
	name, modelType, _ := strings.Cut(text, ":")
	return Class{name, modelType}
}

func indexOf(blocks []*block, name string) int {
	return slices.IndexFunc(blocks, func(b *block) bool { return b.name == name })
}

// expanded replaces like(NAME) by the list of another block, which must come before. Items
// replace listed items of the same name.
func expanded(file string, before []*block, word string, items []Item) ([]Item, error) {
	var list []Item
	for _, x := range items {
		more := []Item{x}
		if name, ok := strings.CutPrefix(x.Text, "like("); ok {
			i := indexOf(before, strings.TrimSuffix(name, ")"))
			if i < 0 {
				return nil, mistake(file, x.Line, "%s: there is no such block before", x.Text)
			}
			more = before[i].words[word]
		}
		for _, x := range more {
			if i := slices.IndexFunc(list, func(y Item) bool { return x.Name == y.Name && x.Name != "" }); i >= 0 {
				list[i] = x
			} else {
				list = append(list, x)
			}
		}
	}
	return list, nil
}

func isFact(_ *Settings, x Item) error {
	if FactOf(x.Text) == nil {
		return fmt.Errorf("there is no such fact in keys.txt")
	}
	return nil
}

func isCall(_ *Settings, x Item) error {
	_, err := ParseExpr(x.Text)
	return err
}

func (s *Settings) readOnly(x Item) error {
	name, values, ok := strings.Cut(x.Text, "=")
	if !ok {
		return fmt.Errorf("it is not FIELD=VALUES")
	}
	values, said := strings.CutSuffix(values, "!")
	o := Only{Field: name, Said: said}
	for v := range strings.SplitSeq(values, ",") {
		switch l := literal(v).(type) {
		case int64:
			o.Values = append(o.Values, float64(l))
		case float64, bool:
			o.Values = append(o.Values, l)
		default:
			if v != "" {
				o.Values = append(o.Values, v)
			}
		}
	}
	s.Only = append(s.Only, o)
	return nil
}

func (s *Settings) readKey(x Item) error {
	k, from, err := readSetting(x)
	k.Fact, k.Field = FactOf(k.Name), from
	if err == nil {
		err = isFact(s, Item{Text: k.Name})
	}
	s.Keys = append(s.Keys, k)
	return err
}

func (s *Settings) readField(x Item) error {
	k, from, err := readSetting(x)
	if k.Fact = FactOfField(k.Name); from != "" {
		k.Fact = FactOf(from)
	}
	if err == nil && k.Fact == nil && !k.Always {
		err = isFact(s, Item{})
	}
	s.Config = append(s.Config, k)
	return err
}

// readSetting reads NAME@FROM=VALUE, NAME:=VALUE or NAME=VALUE!.
func readSetting(x Item) (k Setting, from string, err error) {
	text, value, valued := strings.Cut(x.Text, "=")
	text, k.Always = strings.CutSuffix(text, ":")
	k.Name, from, _ = strings.Cut(text, "@")
	k.When = x.When
	if value, k.Said = strings.CutSuffix(value, "!"); valued {
		k.Value, err = ParseExpr(value)
	}
	return k, from, err
}

// literal returns a value in JSON, nil if the text is not one.
func literal(text string) any {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	var v any
	if json.Unmarshal([]byte(text), &v) != nil {
		return nil
	}
	switch v := v.(type) {
	case float64, string, bool:
		return v
	case nil:
		return Null{}
	}
	return nil
}
