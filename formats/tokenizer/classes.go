package tokenizer

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
)

//go:embed classes.txt
var classesText string

// class is a row of classes.txt, which explains the fields.
type class struct {
	pre, file, name, bos string
	first                []string
	reserved             int

	nfc, bytes, begins, counted, lines bool
}

// classes are the rows by their patterns, "" for a source that names no class: it is like Llama's.
var classes = sync.OnceValue(func() map[string]*class {
	all, err := readClasses("classes.txt", classesText)
	if err != nil {
		panic("tokenizer: " + err.Error())
	}
	return all
})

// classOf returns the row of a class: the one of its name, else of the beginning of its name.
func classOf(name string) *class {
	all := classes()
	if c := all[name]; c != nil {
		return c
	}
	for pattern, c := range all {
		if begin, ok := strings.CutSuffix(pattern, "*"); ok && strings.HasPrefix(name, begin) {
			return c
		}
	}
	return &class{}
}

func readClasses(file, text string) (map[string]*class, error) {
	all := map[string]*class{"": {begins: true}}
	n := 0
	for line := range strings.Lines(text) {
		n++
		words := strings.Fields(line)
		if len(words) == 0 || words[0][0] == '#' {
			continue
		}
		c := &class{}
		if all[words[0]] != nil {
			return nil, fmt.Errorf("%s:%d: %s is there twice", file, n, words[0])
		}
		all[words[0]] = c
		for _, word := range words[1:] {
			if !c.read(word) {
				return nil, fmt.Errorf("%s:%d: there is no word %s", file, n, word)
			}
		}
	}
	return all, nil
}

// read reads a word of a row; ok is false if there is no such word.
func (c *class) read(word string) (ok bool) {
	name, value, valued := strings.Cut(word, "=")
	texts := map[string]*string{"pre": &c.pre, "file": &c.file, "name": &c.name, "bos": &c.bos}
	flags := map[string]*bool{"nfc": &c.nfc, "bytes": &c.bytes, "begins": &c.begins, "counted": &c.counted, "lines": &c.lines}
	switch {
	case flags[name] != nil && !valued:
		*flags[name] = true
		return true
	case value == "":
	case texts[name] != nil:
		*texts[name] = value
		return true
	case name == "first":
		c.first = strings.Split(value, ",")
		return true
	case name == "reserved":
		var err error
		c.reserved, err = strconv.Atoi(value)
		return err == nil && c.reserved > 0
	}
	return false
}

// special returns the texts of the special tokens after so many ranks.
func (c *class) special(base int) []string {
	list := slices.Clone(c.first)
	for n := range c.reserved {
		if !c.counted {
			n += base
		}
		list = append(list, fmt.Sprintf(c.name, n))
	}
	return list
}
