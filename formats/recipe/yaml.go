package recipe

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/near"
	"go.yaml.in/yaml/v3"
)

// Limits of a recipe. mergekit's own examples have some kilobytes.
const (
	maxText  = 1 << 20
	maxMarks = 1 << 16
	maxDepth = 16   // of lists in mappings
	maxItems = 1024 // of a list: slices, models, filters, values of a gradient
	maxKeys  = 64   // of a mapping
	maxLayer = 1 << 16
)

// marks are the characters that begin or part values: each value takes one at least, and
// some hundred bytes of memory.
const marks = ",:-?[{"

// object is a mapping and its place in the text.
type object struct {
	at     string // "", "models[0]"
	keys   []string
	values []*yaml.Node
}

// document parses a text of one YAML document, which is a mapping.
func document(text []byte) (object, error) {
	if len(text) > maxText {
		return object{}, fmt.Errorf("it has more than %d bytes, which no recipe has", maxText)
	}
	n := 0
	for _, c := range []byte(marks) {
		n += bytes.Count(text, []byte{c})
	}
	if n > maxMarks {
		return object{}, fmt.Errorf("it has more than %d of the characters %s, which no recipe has", maxMarks, marks)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var root, more yaml.Node
	if err := decoder.Decode(&root); err != nil {
		if err == io.EOF {
			return object{}, errors.New("it is empty")
		}
		return object{}, errors.New(tensorfs.OneLine(strings.TrimPrefix(err.Error(), "yaml: ")))
	}
	if decoder.Decode(&more) != io.EOF {
		return object{}, errors.New("it has several documents; want one recipe")
	}
	if root.Kind != yaml.DocumentNode || len(root.Content) != 1 {
		return object{}, errors.New("it is not a mapping of keys")
	}
	top, err := new(resolver).resolve(root.Content[0], 0)
	if err != nil {
		return object{}, err
	}
	return objectOf(top, "")
}

// resolver puts values into the places of their aliases.
type resolver struct{ nodes int }

// resolve returns a node with its aliases replaced by their values. It refuses deep
// nesting, and aliases that expand too much.
func (r *resolver) resolve(n *yaml.Node, depth int) (*yaml.Node, error) {
	line := n.Line
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	r.nodes++
	switch {
	case r.nodes > maxMarks:
		return nil, fmt.Errorf("line %d: its aliases expand to more than %d values, far beyond any recipe", line, maxMarks)
	case depth > maxDepth:
		return nil, fmt.Errorf("line %d: it is nested more than %d deep", line, maxDepth)
	case n.Kind == yaml.SequenceNode && len(n.Content) > maxItems:
		return nil, fmt.Errorf("line %d: the list has %d items, and at most %d are read", line, len(n.Content), maxItems)
	case n.Kind == yaml.MappingNode && len(n.Content) > 2*maxKeys:
		return nil, fmt.Errorf("line %d: the mapping has %d keys, and at most %d are read", line, len(n.Content)/2, maxKeys)
	}
	var err error
	for i, c := range n.Content {
		if n.Content[i], err = r.resolve(c, depth+1); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// objectOf returns a mapping with the keys of the mappings that << merges into it, which count after its own.
func objectOf(n *yaml.Node, at string) (object, error) {
	o := object{at: at}
	if n.Kind != yaml.MappingNode {
		return o, fmt.Errorf("%s: want a mapping of keys", place(at, n))
	}
	var merged []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch {
		case key.Kind != yaml.ScalarNode:
			return o, fmt.Errorf("%s: want keys that are words", place(at, key))
		case key.Tag == "!!merge" && value.Kind == yaml.SequenceNode:
			merged = append(merged, value.Content...)
			continue
		case key.Tag == "!!merge":
			merged = append(merged, value)
			continue
		case o.has(key.Value):
			return o, fmt.Errorf("%s: %s is there twice", place(at, key), tensorfs.Quote(key.Value))
		}
		o.keys, o.values = append(o.keys, key.Value), append(o.values, value)
	}
	for _, m := range merged {
		more, err := objectOf(m, at)
		if err != nil {
			return o, err
		}
		for i, key := range more.keys {
			if !o.has(key) {
				o.keys, o.values = append(o.keys, key), append(o.values, more.values[i])
			}
		}
	}
	return o, nil
}

// place is where a node is, for messages.
func place(at string, n *yaml.Node) string {
	if at == "" {
		return fmt.Sprintf("line %d", n.Line)
	}
	return at
}

// path is where the value of a key is.
func (o object) path(key string) string {
	if o.at == "" {
		return tensorfs.Printable(key)
	}
	return o.at + "." + tensorfs.Printable(key)
}

func (o object) has(key string) bool { return slices.Contains(o.keys, key) }

// get returns the value of a key; nil if the key is missing or null.
func (o object) get(key string) *yaml.Node {
	i := slices.Index(o.keys, key)
	if i < 0 || o.values[i].Tag == "!!null" {
		return nil
	}
	return o.values[i]
}

// only notes all other keys, which mergekit ignores, and refuses mistyped ones.
func (r *Recipe) only(o object, known []string) error {
	for _, key := range o.keys {
		if slices.Contains(known, key) {
			continue
		}
		if meant := mistyped(key, known); meant != "" {
			return fmt.Errorf("%s is not a key that is read here; did you mean %s?", o.path(key), meant)
		}
		r.ignore(o.path(key))
	}
	return nil
}

// mistyped returns the known name that differs from a given one in few letters, else "".
func mistyped(given string, known []string) string {
	for _, name := range near.Names(given, known, 1) {
		if !strings.Contains(name, given) || len(name) == len(given)+1 {
			return name
		}
	}
	return ""
}

// maxIgnored bounds the keys that the note names.
const maxIgnored = 8

// ignore adds a key to the note about keys that mergekit does not read.
func (r *Recipe) ignore(path string) {
	if r.ignored++; r.ignored <= maxIgnored {
		r.paths = append(r.paths, path)
	}
}

// Notes say what the recipe has that changes no number of the merge.
func (r *Recipe) Notes() []string {
	if r.ignored == 0 {
		return nil
	}
	keys := strings.Join(r.paths, ", ")
	if more := r.ignored - len(r.paths); more > 0 {
		keys += fmt.Sprintf(" and %d more", more)
	}
	return []string{fmt.Sprintf("a merge by %s does not use these keys of the recipe: %s", r.Method.Name, keys)}
}

func (o object) text(key string) (string, error) {
	s, err := o.optionalText(key)
	if err == nil && s == "" {
		err = fmt.Errorf("%s is not there", o.path(key))
	}
	return s, err
}

func (o object) optionalText(key string) (string, error) {
	n := o.get(key)
	if n == nil {
		return "", nil
	}
	if n.Kind != yaml.ScalarNode || n.Value == "" || len(n.Value) > 4096 || strings.ContainsFunc(n.Value, func(c rune) bool { return c < ' ' }) {
		return "", fmt.Errorf("%s: want a word", o.path(key))
	}
	return n.Value, nil
}

// reference returns the name of a model, "" without one: a text, or the mapping that mergekit
// writes for names with blanks, {model: {path, revision}, lora: {path, revision}}.
func (r *Recipe) reference(o object, key string) (string, error) {
	n := o.get(key)
	if n == nil || n.Kind != yaml.MappingNode {
		return o.optionalText(key)
	}
	x, err := objectOf(n, o.path(key))
	if err != nil {
		return "", err
	}
	if x.get("override_architecture") != nil {
		return "", fmt.Errorf("%s: every model is read by its own config.json; remove this line", x.path("override_architecture"))
	}
	if err := r.only(x, []string{"model", "lora", "override_architecture"}); err != nil {
		return "", err
	}
	name, err := r.modelPath(x, "model")
	if err == nil && name == "" {
		err = fmt.Errorf("%s is not there; want a word, or {model: {path: NAME}}", x.path("model"))
	}
	if err != nil {
		return "", err
	}
	adapter, err := r.modelPath(x, "lora")
	if adapter != "" {
		name += "+" + adapter
	}
	return name, err
}

// modelPath returns a path and its revision: a text, or {path, revision}.
func (r *Recipe) modelPath(o object, key string) (string, error) {
	n := o.get(key)
	if n == nil || n.Kind != yaml.MappingNode {
		return o.optionalText(key)
	}
	x, err := objectOf(n, o.path(key))
	if err != nil {
		return "", err
	}
	if err := r.only(x, []string{"path", "revision"}); err != nil {
		return "", err
	}
	name, err := x.text("path")
	if err != nil {
		return "", err
	}
	revision, err := x.optionalText("revision")
	if revision != "" {
		name += "@" + revision
	}
	return name, err
}

// requiredReference is reference for a model that has to be there.
func (r *Recipe) requiredReference(o object, key string) (string, error) {
	name, err := r.reference(o, key)
	if err == nil && name == "" {
		err = fmt.Errorf("%s is not there", o.path(key))
	}
	return name, err
}

// objects returns a list of mappings that is not empty.
func (o object) objects(key string) (list []object, err error) {
	n := o.get(key)
	if n == nil || n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		return nil, fmt.Errorf("%s: want a list that is not empty", o.path(key))
	}
	for i, c := range n.Content {
		x, err := objectOf(c, fmt.Sprintf("%s[%d]", o.path(key), i))
		if err != nil {
			return nil, err
		}
		list = append(list, x)
	}
	return list, nil
}

// span returns two layers, the second beyond the first.
func (o object) span(key string) (from, to int, err error) {
	n := o.get(key)
	if n == nil || n.Kind != yaml.SequenceNode || len(n.Content) != 2 {
		return 0, 0, fmt.Errorf("%s: want the first layer and the one after the last, such as [0, 16]", o.path(key))
	}
	var ends [2]int
	for i, c := range n.Content {
		if ends[i], err = strconv.Atoi(c.Value); err != nil || c.Kind != yaml.ScalarNode || ends[i] < 0 || ends[i] > maxLayer {
			return 0, 0, fmt.Errorf("%s: %s is not the number of a layer", o.path(key), tensorfs.Quote(c.Value))
		}
	}
	if ends[0] >= ends[1] {
		return 0, 0, fmt.Errorf("%s: [%d, %d] has no layers; the end is exclusive", o.path(key), ends[0], ends[1])
	}
	return ends[0], ends[1], nil
}

// settingsOf returns the parameters in an object.
func (r *Recipe) settingsOf(o object) (map[string]*Setting, error) {
	n, m := o.get("parameters"), r.Method
	if n == nil {
		return nil, nil
	}
	list, err := objectOf(n, o.path("parameters"))
	if err != nil {
		return nil, err
	}
	settings := map[string]*Setting{}
	for i, key := range list.keys {
		if !m.param(key) {
			if meant := mistyped(key, m.params()); meant != "" && !anyParam(key) {
				return nil, fmt.Errorf("%s: %s has no such parameter; did you mean %s?", list.path(key), m.Name, meant)
			}
			r.ignore(list.path(key))
			continue
		}
		value, err := r.settingOf(list.values[i], list.path(key))
		if err != nil {
			return nil, err
		}
		settings[key] = &value
	}
	return settings, nil
}

func (r *Recipe) settingOf(n *yaml.Node, at string) (s Setting, err error) {
	switch n.Kind {
	case yaml.ScalarNode:
		if n.Tag == "!!null" {
			return s, nil
		}
		s.value, err = scalar(n, at)
		return s, err
	case yaml.MappingNode:
		w, err := r.whereOf(n, at)
		return Setting{filter: []where{w}}, err
	}
	filters := len(n.Content) > 0 && n.Content[0].Kind == yaml.MappingNode
	for i, c := range n.Content {
		at := fmt.Sprintf("%s[%d]", at, i)
		if (c.Kind == yaml.MappingNode) != filters {
			return s, fmt.Errorf("%s: a list has either values or filters", at)
		}
		if filters {
			w, err := r.whereOf(c, at)
			if err != nil {
				return s, err
			}
			s.filter = append(s.filter, w)
			continue
		}
		v, err := scalar(c, at)
		if err != nil {
			return s, err
		}
		s.list = append(s.list, v)
		if x, ok := v.(float64); ok {
			s.numbers = append(s.numbers, x)
		}
	}
	return s, nil
}

func (r *Recipe) whereOf(n *yaml.Node, at string) (w where, err error) {
	o, err := objectOf(n, at)
	if err != nil {
		return w, err
	}
	if err := r.only(o, []string{"filter", "value"}); err != nil {
		return w, err
	}
	if w.text, err = o.optionalText("filter"); err != nil {
		return w, err
	}
	if v := o.get("value"); v != nil {
		w.value, err = r.settingOf(v, o.path("value"))
	}
	return w, err
}

// scalar is a value as recipes mean it: a number may be written as a text.
func scalar(n *yaml.Node, at string) (any, error) {
	if n.Kind != yaml.ScalarNode {
		return nil, fmt.Errorf("%s: want a number", at)
	}
	if n.Tag == "!!bool" {
		var b bool
		err := n.Decode(&b)
		return b, err
	}
	if x, err := strconv.ParseFloat(n.Value, 64); err == nil && !math.IsNaN(x) && !math.IsInf(x, 0) {
		return x, nil
	}
	if n.Tag == "!!str" && len(n.Value) <= 64 {
		switch strings.ToLower(n.Value) { // the words of YAML 1.1, which mergekit reads
		case "true", "yes", "on":
			return true, nil
		case "false", "no", "off":
			return false, nil
		}
	}
	return nil, fmt.Errorf("%s: %s is not a number", at, tensorfs.Quote(n.Value))
}

// instead suggests a similar word, or lists all.
func instead(given string, have []string) string {
	if names := near.Names(given, have, 1); len(names) > 0 {
		return "; " + near.Question(names)
	}
	return "; want " + near.Either(have)
}
