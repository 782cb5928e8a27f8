package architectures

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// MLXClass is what mlx-lm's class of a model type asks for, and does not do.
type MLXClass struct {
	Fields []Setting // of config.json that it reads and transformers does not write
	words  map[string][]string
}

// Has reports whether mlx.txt has a word about the class.
func (c *MLXClass) Has(word string) bool { return c.words[word] != nil }

// Says reports whether the word says that.
func (c *MLXClass) Says(word, what string) bool { return slices.Contains(c.words[word], what) }

// Names are what the word says.
func (c *MLXClass) Names(word string) []string { return c.words[word] }

//go:embed mlx.txt
var mlxText string

// MLXClasses returns the classes of mlx.txt by model type.
var MLXClasses = sync.OnceValue(func() map[string]*MLXClass { return must(readMLX("mlx.txt", mlxText)) })

func readMLX(file, text string) (map[string]*MLXClass, error) {
	all := map[string]*MLXClass{}
	n := 0
	for line := range strings.Lines(text) {
		n++
		items := strings.Fields(line)
		if len(items) == 0 || items[0][0] == '#' {
			continue
		}
		c := &MLXClass{words: map[string][]string{}}
		if all[items[0]] != nil {
			return nil, mistake(file, n, "%s is there twice", items[0])
		}
		all[items[0]] = c
		for _, text := range items[1:] {
			field, _, err := readSetting(Item{Text: text})
			word, what, _ := strings.Cut(text, ":")
			switch {
			case field.Always && field.Value != nil && err == nil:
				c.Fields = append(c.Fields, field)
				continue
			case err == nil && !slices.Contains([]string{"rope", "windows", "packed", "refuses", "notes"}, word):
				err = fmt.Errorf("it is not FIELD:=VALUE, and there is no such word")
			}
			if err != nil {
				return nil, mistake(file, n, "%s: %s", text, err)
			}
			c.words[word] = strings.Split(what, ",")
		}
	}
	return all, nil
}
