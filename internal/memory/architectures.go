package memory

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/tensorfs/tensorfs/formats/architectures"
)

// architecture is what is known of an architecture without a header.
type architecture struct {
	known           bool
	window          int64
	windows, cached *architectures.Expr // by layer; nil if the table does not say
	noCache         bool                // tokens see all others, and no layer has a cache
	noOutput        bool                // answers are embeddings: the table of tokens is not used as an output
	mtpCached       bool
	form, graph     string
}

//go:embed architectures.txt
var architecturesText string

//go:embed forms.txt
var formsText string

// table has the lines of architectures.txt, by name.
var table = sync.OnceValue(func() map[string]architecture {
	all := map[string]architecture{}
	for line := range strings.Lines(architecturesText) {
		names, words, ok := strings.Cut(strings.TrimSpace(line), ":")
		if !ok || strings.HasPrefix(names, "#") {
			continue
		}
		a := architecture{known: true, form: "usual"}
		for _, word := range bracketed().FindAllString(words, -1) {
			a.add(word)
		}
		for _, name := range strings.Fields(names) {
			all[name] = a
		}
	}
	return all
})

// add takes a word of a line.
func (a *architecture) add(word string) {
	name, value, _ := strings.Cut(word, "=")
	var err error
	switch name {
	case "window":
		a.window, err = strconv.ParseInt(value, 10, 32)
	case "windows":
		a.windows = parsed(strings.Trim(value, "[]"))
	case "cached":
		a.cached = parsed(strings.Trim(value, "[]"))
		a.noCache = a.cached.Constant() == false
		a.noOutput = a.noCache
	case "mtp-cached":
		a.mtpCached = true
	case "form":
		a.form = value
	case "graph":
		a.graph = value
	default:
		err = fmt.Errorf("what is it?")
	}
	if err != nil {
		panic(fmt.Sprintf("memory: architectures.txt: %s: %v", word, err))
	}
}

// architectureOf returns what the table and the description say of an architecture.
func architectureOf(name string) architecture {
	a, ok := table()[name]
	if !ok {
		a.form = "usual"
	}
	for _, s := range architectures.OfGGUF(name) {
		a.known = true
		a.noCache = a.noCache || slices.Contains(s.Words("agree"), "sees_all")
	}
	if of := architectures.Find(name); of != nil {
		a.noOutput = !slices.ContainsFunc(of.Last, func(t architectures.Tensor) bool { return t.Module == "output" })
	}
	return a
}

// form is a row of forms.txt.
type form struct{ ffn, attention, ssm *architectures.Expr }

var forms = sync.OnceValue(func() map[string]form {
	all := map[string]form{}
	for line := range strings.Lines(formsText) {
		if f := strings.Fields(line); len(f) == 4 && f[0][0] != '#' {
			all[f[0]] = form{parsed(f[1]), parsed(f[2]), parsed(f[3])}
		}
	}
	return all
})
