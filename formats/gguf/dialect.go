package gguf

import (
	_ "embed"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/names"
	"github.com/tensorfs/tensorfs/internal/assemble"
)

// The library of Ollama has files that its own converter wrote, with other keys and names
// than llama.cpp's. Their views show them as stored. Conversions read the same model with
// llama.cpp's keys and names, which InLlama returns.

//go:embed ollama.txt
var ollamaText string

// dialect is a block of ollama.txt.
type dialect struct {
	from, to   string
	conditions [][]string // the lines "if"
	never      []string   // of "unless"
	lines      []step
}

// has reports whether the block has a line with a word.
func (d *dialect) has(word string) bool {
	return slices.ContainsFunc(d.lines, func(s step) bool { return s.word == word })
}

// step is a line of a block.
type step struct {
	word string
	args []string
}

var dialects = sync.OnceValue(func() []dialect {
	var list []dialect
	shared := map[string][]step{}
	name := "" // of shared lines
	for line := range strings.Lines(ollamaText) {
		f := strings.Fields(line)
		if len(f) == 0 || f[0][0] == '#' {
			continue
		}
		switch f[0] {
		case "from":
			list, name = append(list, dialect{from: f[1], to: f[1]}), ""
			continue
		case "lines":
			name = f[1]
			continue
		}
		if name != "" {
			shared[name] = append(shared[name], lineOf(f))
			continue
		}
		switch d := &list[len(list)-1]; f[0] {
		case "to":
			d.to = f[1]
		case "if":
			d.conditions = append(d.conditions, f[1:])
		case "unless":
			d.never = f[1:]
		case "use":
			d.lines = append(d.lines, shared[f[1]]...)
		default:
			d.lines = append(d.lines, lineOf(f))
		}
	}
	return list
})

// lineOf returns the step that a line's words say.
func lineOf(f []string) step {
	if steps[f[0]] == nil {
		panic("ollama.txt has no word " + f[0])
	}
	return step{f[0], f[1:]}
}

// translation is a file on its way from one form to the other.
type translation struct {
	Spelling
	from    string
	meta    []tensorfs.Meta
	tensors []tensorfs.Tensor
	before  func(key string) any // the file's keys as they are
	own     func(*tensorfs.Tensor) bool
	base    int64 // number of layers before the ones that predict further tokens
	next    int   // layers that do
}

// Spelling is a model of Ollama's own converter in the keys and names of llama.cpp.
type Spelling struct {
	Model   *tensorfs.Model
	Left    []string // tensors that llama.cpp does not load in the language model, which are left out
	PlusOne []string // tensors to whose numbers one has to be added, by Source
	// MayLackOne are further tensors to which one has to be added, all or none of them, and
	// for each a tensor that has it.
	MayLackOne [][2]string
	Notes      []string // how the file differs, and what was assumed
	Absent     string   // why the model cannot be had in llama.cpp's form; "" if it can
}

// FromOllama notes that a model's keys and names are llama.cpp's instead of Ollama's.
const FromOllama = "Ollama's own converter wrote the file; its keys and names are shown as llama.cpp's converter writes them"

// OllamaModel is the name below source/ of the language model in an Ollama model.
const OllamaModel = "model.gguf"

// InLlama returns a model with the keys and tensors that llama.cpp has, if its GGUF file is
// one of Ollama's own converter; nil if it is not.
func InLlama(m *tensorfs.Model) *Spelling {
	if m.Layout != "gguf" || len(m.Metadata) == 0 || len(m.Tensors) == 0 {
		return nil
	}
	type file struct {
		meta    *tensorfs.Meta
		keys    int
		tensors *tensorfs.Tensor
		count   int
	}
	s, _ := m.Once(file{&m.Metadata[0], len(m.Metadata), &m.Tensors[0], len(m.Tensors)}, func() any { return inLlama(m) }).(*Spelling)
	return s
}

// AsInLlama gives an opened model the config that it has in llama.cpp's form.
func AsInLlama(m *tensorfs.Model) {
	if s := InLlama(m); s != nil {
		m.Config = s.Model.Config
	}
}

func inLlama(m *tensorfs.Model) *Spelling {
	own := ownTensors(m)
	t := translate(m.Metadata, m.Tensors, own)
	if t == nil {
		return nil
	}
	c := *m
	c.Metadata, c.Tensors = t.meta, t.tensors
	value := lookup(t.meta)
	c.Architecture, _ = value("general.architecture").(string)
	kept := make([]string, len(c.Tensors))
	for i := range c.Tensors {
		kept[i] = c.Tensors[i].Name
	}
	ts := assemble.Tensors{List: c.Tensors}
	ts.Name(names.GGUF, c.Architecture)
	for i := range c.Tensors {
		if !own(&c.Tensors[i]) {
			c.Tensors[i].Name = kept[i]
		}
	}
	c.Config = ts.Config(func(key string) (any, bool) { v := value(key); return v, v != nil })
	slices.SortFunc(c.Tensors, func(a, b tensorfs.Tensor) int { return strings.Compare(a.Name, b.Name) })
	t.Model = &c
	return &t.Spelling
}

// ownTensors returns a function that reports whether a tensor is stored in the language model's file. An
// Ollama model also has the tensors of its other layers.
func ownTensors(m *tensorfs.Model) func(*tensorfs.Tensor) bool {
	return func(x *tensorfs.Tensor) bool {
		e := tensorfs.Extents(x.Data)
		return m.Format != "ollama" || len(e) == 0 || e[0].File == OllamaModel
	}
}

// lookup returns the values of metadata by key.
func lookup(meta []tensorfs.Meta) func(key string) any {
	values := make(map[string]any, len(meta))
	for _, x := range meta {
		if _, twice := values[x.Key]; !twice {
			values[x.Key] = x.Value
		}
	}
	return func(key string) any { return values[key] }
}

// translate applies the first block whose file this is; nil if no block is of this file.
// Tensors that are not the file's own stay as they are.
func translate(meta []tensorfs.Meta, tensors []tensorfs.Tensor, own func(*tensorfs.Tensor) bool) *translation {
	t := &translation{meta: meta, tensors: tensors, before: lookup(meta), own: own}
	t.from, _ = t.before("general.architecture").(string)
	for _, d := range dialects() {
		if d.from != t.from || slices.ContainsFunc(d.conditions, t.holdsNone) || slices.ContainsFunc(d.never, t.holds) {
			continue
		}
		t.meta, t.tensors = slices.Clone(meta), slices.Clone(tensors)
		for _, s := range d.lines {
			steps[s.word](t, s.args)
		}
		if !d.has("note") {
			t.Notes = append([]string{FromOllama}, t.Notes...)
		}
		for i, x := range t.meta {
			switch rest, own := strings.CutPrefix(x.Key, d.from+"."); {
			case x.Key == "general.architecture":
				t.meta[i].Value = d.to
			case own:
				t.meta[i].Key = d.to + "." + rest
			}
		}
		return t
	}
	return nil
}

// holdsNone reports whether the file has nothing of what a line "if" names.
func (t *translation) holdsNone(conditions []string) bool {
	return !slices.ContainsFunc(conditions, t.holds)
}

// holds reports whether the file has what a condition names.
func (t *translation) holds(condition string) bool {
	what, pattern, _ := strings.Cut(condition, ":")
	name, text, _ := strings.Cut(pattern, "=")
	switch what {
	case "key":
		return slices.ContainsFunc(t.meta, func(x tensorfs.Meta) bool { return matches(t.full(pattern), x.Key) })
	case "without":
		return t.before(t.full(pattern)) == nil
	case "is":
		v := t.before(t.full(name))
		return v != nil && fmt.Sprint(v) == text
	case "contains":
		v, _ := t.before(t.full(name)).(string)
		return strings.Contains(v, text)
	case "texts":
		a, ok := t.before(t.full(pattern)).(*array)
		return ok && a.elem == typeString
	case "token":
		at, _ := strconv.Atoi(name)
		return t.token(at) == text
	case "rows":
		a, b := t.firstTensor(name), t.firstTensor(text)
		return a != nil && b != nil && len(a.Shape) == 2 && len(b.Shape) == 2 && a.Shape[0] != b.Shape[0]
	}
	return t.firstTensor(pattern) != nil
}

// token returns a token of the vocabulary, "" if it has no such token.
func (t *translation) token(at int) string {
	a, ok := t.before("tokenizer.ggml.tokens").(*array)
	if !ok || a.elem != typeString || at < 0 || at >= a.Len() {
		return ""
	}
	for v := range a.Values() {
		if at == 0 {
			s, _ := v.(string)
			return s
		}
		at--
	}
	return ""
}

func matches(pattern, name string) bool {
	ok, _ := path.Match(pattern, name)
	return ok
}

// full returns a key as the file has it.
func (t *translation) full(name string) string {
	if strings.HasPrefix(name, "tokenizer.") || strings.HasPrefix(name, "clip.") {
		return name
	}
	return t.from + "." + name
}

// at returns where a key is in the metadata, -1 without it.
func (t *translation) at(name string) int {
	return slices.IndexFunc(t.meta, func(x tensorfs.Meta) bool { return x.Key == t.full(name) })
}

// set gives a key a value.
func (t *translation) set(name string, v any) {
	if i := t.at(name); i >= 0 {
		t.meta[i].Value = v
	} else {
		t.meta = append(t.meta, tensorfs.Meta{Key: t.full(name), Value: v})
	}
}

// setMissing gives a key a value if the file does not have it.
func (t *translation) setMissing(name string, v any) {
	if t.at(name) < 0 {
		t.set(name, v)
	}
}

// remove removes the keys that match a pattern.
func (t *translation) remove(pattern string) {
	t.meta = slices.DeleteFunc(t.meta, func(x tensorfs.Meta) bool { return matches(t.full(pattern), x.Key) })
}

// integerKey returns a key of the file that is a whole number, 0 without it.
func (t *translation) integerKey(name string) int64 {
	n, _ := integer(t.before(t.full(name)))
	return n
}

// list returns the whole numbers of a key of the file that is a list.
func (t *translation) list(name string) (list []int64) {
	a, ok := t.before(t.full(name)).(tensorfs.Array)
	if !ok || a.Len() > maxLayers {
		return nil
	}
	for v := range a.Values() {
		n, ok := integer(v)
		if !ok {
			return nil
		}
		list = append(list, n)
	}
	return list
}

// maxLayers bounds the lists that are read here.
const maxLayers = 1 << 16

// firstTensor returns the first tensor whose name matches.
func (t *translation) firstTensor(pattern string) *tensorfs.Tensor {
	for i := range t.tensors {
		if t.own(&t.tensors[i]) && matches(pattern, t.tensors[i].Source) {
			return &t.tensors[i]
		}
	}
	return nil
}

// constant reads a value of the text.
func constant(s string) any {
	if n, err := strconv.ParseUint(s, 10, 32); err == nil {
		return uint32(n)
	}
	if x, err := strconv.ParseFloat(s, 32); err == nil {
		return float32(x)
	}
	return s
}
