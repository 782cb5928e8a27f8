package architectures

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// MLXClass is what mlx-lm's class of a model type asks for, and does not do.
type MLXClass struct {
	Needs  []string  // fields of config.json without which it refuses a model
	Fields []Setting // the fields that it reads and that releases may lack; Said: the value replaces another
	words  map[string][]string
}

// Has reports whether mlx.txt has a word about the class.
func (c *MLXClass) Has(word string) bool { return c.words[word] != nil }

// Lists reports whether the word lists that item.
func (c *MLXClass) Lists(word, what string) bool { return slices.Contains(c.words[word], what) }

// Names returns the items of the word.
func (c *MLXClass) Names(word string) []string { return c.words[word] }

//go:embed mlx_needs.txt
var mlxNeedsText string

//go:embed mlx.txt
var mlxText string

//go:embed mlx_converts.txt
var mlxConvertsText string

//go:embed mlx_reasons.txt
var mlxReasonsText string

// MLXReason is why a class of mlx-lm does not load a model, or computes something else.
type MLXReason struct {
	When   *Expr // nil: always
	parts  []string
	values []*Expr // between the parts
}

// Text returns the reason in words, with values of the model.
func (r *MLXReason) Text(env *Env) string {
	text := r.parts[0]
	for i, e := range r.values {
		text += fmt.Sprint(e.In(env)) + r.parts[i+1]
	}
	return text
}

// MLXReasons returns the lines of mlx_reasons.txt by their names.
var MLXReasons = sync.OnceValue(func() map[string]*MLXReason { return must(readReasons("mlx_reasons.txt", mlxReasonsText)) })

func readReasons(file, text string) (map[string]*MLXReason, error) {
	all := map[string]*MLXReason{}
	return all, eachRow(file, text, func(name string, words []string) (err error) {
		r := &MLXReason{}
		rest := strings.Join(words, " ")
		if condition, conditional := strings.CutPrefix(rest, "["); conditional {
			condition, rest, _ = strings.Cut(condition, "] ")
			if r.When, err = ParseExpr(condition); err != nil {
				return err
			}
		}
		for {
			part, after, more := strings.Cut(rest, "{")
			r.parts = append(r.parts, part)
			if !more {
				break
			}
			value, after, _ := strings.Cut(after, "}")
			e, err := ParseExpr(value)
			if err != nil {
				return err
			}
			r.values, rest = append(r.values, e), after
		}
		all[name] = r
		return nil
	})
}

// MLXClassOf returns mlx-lm's class of a model type and the classes that transformers
// has of the model, nil if it has none.
func MLXClassOf(modelType string, of ...string) *MLXClass {
	if strings.ContainsAny(modelType, "/:") {
		return nil
	}
	all := MLXClasses()
	for _, class := range of {
		if c := all[modelType+":"+class]; c != nil {
			return c
		}
	}
	return all[modelType]
}

// MLXClasses returns the classes of mlx-lm by model type. The class for the language model
// in a model of several parts has the key TYPE/CLASS; a class that is meant for one class
// of transformers has the key TYPE:CLASS.
var MLXClasses = sync.OnceValue(func() map[string]*MLXClass { return must(withConversions(readMLX("mlx", mlxNeedsText, mlxText))) })

// mlxWords are the words of mlx.txt, except fields.
var mlxWords = strings.Fields("as rope windows text packed strips drops refuses notes")

// readMLX reads mlx_needs.txt and mlx.txt.
func readMLX(file, needs, facts string) (map[string]*MLXClass, error) {
	all := map[string]*MLXClass{}
	others := map[string]string{} // names of types
	err := eachRow(file+"_needs.txt", needs, func(name string, items []string) error {
		if len(items) == 2 && items[0] == "=" {
			others[name] = items[1]
		} else {
			all[name] = &MLXClass{Needs: items, words: map[string][]string{}}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = eachRow(file+".txt", facts, func(name string, items []string) error {
		c := all[name]
		as, same := "", false
		if len(items) > 0 {
			as, same = strings.CutPrefix(items[0], "as:")
		}
		of := all[others[name]] // has it facts of its own?
		if same {
			of = all[as]
		}
		switch {
		case c != nil:
		case of == nil:
			return fmt.Errorf("%s is no type of %s_needs.txt", name, file)
		case same:
			c = &MLXClass{Needs: of.Needs, Fields: of.Fields, words: maps.Clone(of.words)}
		default:
			c = &MLXClass{Needs: of.Needs, words: map[string][]string{}}
		}
		all[name] = c
		for _, text := range items {
			if err := c.read(text); err != nil {
				return fmt.Errorf("%s: %w", text, err)
			}
		}
		return nil
	})
	for name, of := range others {
		if all[name] == nil {
			all[name] = all[of]
		}
		if all[of] == nil && err == nil {
			err = fmt.Errorf("%s_needs.txt: %s is another name of %s, which is not a type of this file", file, name, of)
		}
	}
	return all, err
}

// read reads a word about the class.
func (c *MLXClass) read(text string) error {
	field, _, err := readSetting(Item{Text: text})
	word, what, _ := strings.Cut(text, ":")
	switch {
	case err != nil:
		return err
	case field.Always && field.Value != nil:
		c.Fields = append(c.Fields, field)
	case slices.Contains(mlxWords, word):
		c.words[word] = strings.Split(what, ",")
	default:
		return fmt.Errorf("it is not FIELD:=VALUE, and there is no such word")
	}
	return nil
}

// convertWords are the words of mlx_converts.txt.
var convertWords = strings.Fields("moves names beyond tied plain uncast eight")

// withConversions adds the lines of mlx_converts.txt to the classes. Each class that has a
// line gets the word converts.
func withConversions(all map[string]*MLXClass, err error) (map[string]*MLXClass, error) {
	if err != nil {
		return nil, err
	}
	return all, eachRow("mlx_converts.txt", mlxConvertsText, func(name string, items []string) error {
		c := all[name]
		if c == nil {
			return fmt.Errorf("%s is no type of mlx_needs.txt", name)
		}
		c.words["converts"] = []string{}
		for _, text := range items {
			word, what, ok := strings.Cut(text, ":")
			if !ok || !slices.Contains(convertWords, word) {
				return fmt.Errorf("%s: there is no such word", text)
			}
			c.words[word] = strings.Split(what, ",")
		}
		return nil
	})
}

// eachRow calls fn with each line that is not a comment: its first word, which must be
// unique, and the remaining words.
func eachRow(file, text string, fn func(name string, items []string) error) error {
	seen := map[string]bool{}
	n := 0
	for line := range strings.Lines(text) {
		n++
		items := strings.Fields(line)
		if len(items) == 0 || items[0][0] == '#' {
			continue
		}
		if seen[items[0]] {
			return mistake(file, n, "%s is there twice", items[0])
		}
		seen[items[0]] = true
		items = items[:1]
		for rest := strings.TrimPrefix(strings.TrimSpace(line), items[0]); ; {
			item, after, ok := cutItem(strings.TrimLeft(rest, " "))
			if !ok {
				return mistake(file, n, "parentheses do not match")
			}
			if item == "" {
				break
			}
			items, rest = append(items, item), after
		}
		if err := fn(items[0], items[1:]); err != nil {
			return mistake(file, n, "%s", err)
		}
	}
	return nil
}
