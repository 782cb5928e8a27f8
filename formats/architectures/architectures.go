package architectures

import (
	_ "embed"
	"slices"
	"strings"
	"sync"
)

//go:embed architectures.txt
var architecturesText string

// TextConfigs are the objects, by paths with dots, in which a config.json of a model with
// other parts beside it describes the language model. What such an object does not say,
// the fields outside of it do.
var TextConfigs = []string{"text_config", "llm_config", "language_config", "thinker_config.text_config", "lm_config", "lfm"}

// Architecture is what the text describes under one architecture's name.
type Architecture struct {
	Name      string
	Prefix    string // of layers before their number, in names of Hugging Face
	MLXPrefix string // of all these names in mlx-lm
	Bare      *Expr  // the condition under which names of Hugging Face do not begin with "model."; nil means never
	Again     string // like Prefix, of a second stack of as many layers, which GGUF has after the first; "" without one
	Tower     string // what "~" means in names of Hugging Face
	Blocks    string // what names of GGUF have before the number of a layer

	Types map[string]string // of tensors in a file, by their names there with "n" for the number of a layer

	Places map[string]string // what "{p}" means in names of Hugging Face, by the number of a layer with a dot

	First, Layer, Last []Tensor // in the order of GGUF files
	Next               []Tensor // tensors of layers that predict further tokens, besides every layer's

	sizes map[string]*Expr // that are not as in the table of modules
	words map[string][]Item
	table *moduleTable
}

// Makes reports whether tensorfs can convert models of the architecture: to gguf from a
// directory of Hugging Face, to hf or mlx from a GGUF file.
func (a *Architecture) Makes(what string) bool {
	items := a.words["makes"]
	return len(items) == 0 || slices.ContainsFunc(items, func(x Item) bool { return x.Name == what })
}

// Drops reports whether GGUF files do not have a tensor, by its canonical name and by
// its name in the files of the model.
func (a *Architecture) Drops(canonical, source string) bool {
	return slices.ContainsFunc(a.words["dropped"], func(x Item) bool {
		name, end := strings.CutSuffix(x.Text, "*")
		rest, begin := strings.CutPrefix(x.Text, "*")
		switch of, isSource := strings.CutPrefix(name, "source:"); {
		case begin:
			return strings.HasSuffix(source, rest)
		case end && isSource:
			return strings.HasPrefix(source, of)
		}
		return end && strings.HasPrefix(canonical, name)
	})
}

// Type returns what the description has for the type of a tensor in a GGUF file, "" for nothing; see
// projectors.txt and architectures.txt.
func (a *Architecture) Type(name string) string {
	if before, rest, ok := strings.Cut(name, "blk."); ok {
		_, module, _ := strings.Cut(rest, ".")
		name = before + "blk.n." + module
	}
	return a.Types[name]
}

// Varies reports whether layers of the architecture may differ in a fact.
func (a *Architecture) Varies(fact string) bool {
	return slices.ContainsFunc(a.words["varies"], func(x Item) bool { return x.Name == fact })
}

// DropsBeyond reports whether GGUF files do not have layers after the last one.
func (a *Architecture) DropsBeyond() bool {
	return slices.ContainsFunc(a.words["dropped"], func(x Item) bool { return x.Text == "beyond" })
}

// All returns the architectures in the order of the text. It leaves out blocks that exist
// only for others to be like, and blocks that share another block's architecture.
var All = sync.OnceValue(func() []*Architecture {
	all := must(readArchitectures("architectures.txt", architecturesText, modules()))
	return slices.DeleteFunc(all, func(a *Architecture) bool { return a.words["class"] == nil || a.words["gguf"] != nil })
})

// must returns what was read of the program's own text, in which a mistake is one of
// the program.
func must[T any](v T, err error) T {
	if err != nil {
		panic("architectures: " + err.Error())
	}
	return v
}

func readArchitectures(file, text string, table *moduleTable) (all []*Architecture, err error) {
	blocks, err := readBlocks(file, text)
	if err != nil {
		return nil, err
	}
	for _, b := range blocks {
		for word, items := range b.words {
			for i, x := range items {
				if x.Name != "" && slices.ContainsFunc(items[:i], func(y Item) bool { return x.Name == y.Name && x.When.String() == y.When.String() }) {
					return nil, mistake(file, x.Line, "%s has %s twice", word, x.Name)
				}
			}
		}
		a := &Architecture{Name: b.name, Blocks: "blk.", words: b.words, sizes: map[string]*Expr{}, table: table}
		a.Types = map[string]string{}
		for _, x := range b.words["types"] {
			name, value, _ := strings.Cut(x.Text, "=")
			a.Types[name] = value
		}
		for word, to := range map[string]*string{"prefix": &a.Prefix, "mlx": &a.MLXPrefix, "tower": &a.Tower, "again": &a.Again} {
			if *to, err = b.single(file, word); err != nil {
				return nil, err
			}
		}
		if bare, err := b.single(file, "bare"); err != nil {
			return nil, err
		} else if bare != "" {
			if a.Bare, err = ParseExpr(bare); err != nil {
				return nil, mistake(file, b.line, "bare: %s", err)
			}
		}
		for _, word := range []string{"sizes", "implied"} {
			for _, x := range b.words[word] {
				name, text, _ := strings.Cut(x.Text, "=")
				e, err := ParseExpr(text)
				if err != nil {
					return nil, mistake(file, x.Line, "%s: %s", x.Text, err)
				}
				if word == "sizes" {
					a.sizes[name] = e
				}
			}
		}
		for _, part := range []struct {
			word    string
			tensors *[]Tensor
		}{{"first", &a.First}, {"layer", &a.Layer}, {"last", &a.Last}, {"next", &a.Next}} {
			if *part.tensors, err = readTensors(file, b.words[part.word], part.word == "layer" || part.word == "next", table); err != nil {
				return nil, err
			}
		}
		all = append(all, a)
	}
	return all, nil
}

// single is the text of a word that has one item, "" without it.
func (b *block) single(file, word string) (string, error) {
	items := b.words[word]
	switch {
	case len(items) > 1 || len(items) == 1 && items[0].When != nil:
		return "", mistake(file, items[0].Line, "%s has one item without a condition", word)
	case len(items) == 1:
		return items[0].Text, nil
	}
	return "", nil
}
