package architectures

import (
	"cmp"
	_ "embed"
	"maps"
	"slices"
	"strings"
	"sync"
)

//go:embed missing.txt
var missingText string

// SupportColumns are the columns of [Support]: gguf is converted from a directory of
// Hugging Face, hf and mlx from a GGUF file, and vision and audio are the model's towers in a
// file.
var SupportColumns = []string{"gguf", "hf", "mlx", string(Vision), string(Audio)}

// Supported describes what tensorfs makes from models of a class in config.json.
type Supported struct {
	Class        string
	Architecture string           // GGUF's name, "" if it is not known
	Columns      map[string]Given // only columns that the class can have
}

// Given reports that a conversion is supported, or why it is not.
type Given struct {
	Made   bool
	Reason string
}

// Support returns the classes that llama.cpp's converter takes and the classes that are
// described here, by name.
var Support = sync.OnceValue(func() []Supported { return must(readSupport("missing.txt", missingText)) })

// readSupport reads missing.txt, and adds the classes of the descriptions.
func readSupport(file, text string) ([]Supported, error) {
	lists, reasons, err := readMissing(file, text)
	if err != nil {
		return nil, err
	}
	all := map[string]*Supported{}
	of := func(class string) *Supported {
		if all[class] == nil {
			all[class] = &Supported{class, NameOf(class, ""), map[string]Given{}}
		}
		return all[class]
	}
	for word, columns := range map[string][]string{"text": {"gguf", "hf", "mlx"}, "vision": {"vision"}, "audio": {"audio"}} {
		for _, class := range lists[word] {
			for _, c := range columns {
				of(class).Columns[c] = Given{Reason: reasons[word][class]}
			}
		}
	}
	for _, class := range lists["wrapped"] {
		for _, c := range []string{"gguf", "hf", "mlx"} {
			of(class).Columns[c] = Given{Made: true}
		}
	}
	for _, p := range Projectors() {
		for _, c := range p.Classes {
			of(c.Name).Columns[string(p.Part)] = Given{Made: true}
		}
	}
	for _, s := range AllSettings() {
		for _, c := range s.Classes {
			if c.Name == "" || s.Where != nil || strings.HasSuffix(c.Name, WithExperts) { // not decided by the class
				continue
			}
			of(c.Name).Architecture = s.GGUF
			for _, column := range []string{"gguf", "hf", "mlx"} {
				of(c.Name).Columns[column] = s.gives(column, c, reasons[column][c.Name])
			}
		}
	}
	delete(all, "")
	return slices.SortedFunc(func(yield func(Supported) bool) {
		for _, s := range all {
			if !yield(*s) {
				return
			}
		}
	}, func(a, b Supported) int { return strings.Compare(a.Class, b.Class) }), nil
}

// gives reports what the block's models of a class can be converted to. A class that mlx-lm
// lacks does not count against the block.
func (s *Settings) gives(column string, c Class, reason string) Given {
	written := cmp.Or(s.Word("whole"), s.writtenBack(c))
	switch {
	case column == "mlx" && MLXClassOf(written) == nil:
		return Given{Reason: "mlx-lm does not have the model type " + written}
	case s.Makes(column) && reason == "":
		return Given{Made: true}
	}
	return Given{Reason: reason}
}

// writtenBack returns the model type that hf/ has for a GGUF file of a class of the block. If several blocks are for
// one architecture and no condition tells them apart, the first block decides.
func (s *Settings) writtenBack(c Class) string {
	if s.Written.ModelType != "" && s.Written != s.Classes[0] {
		return s.Written.ModelType
	}
	for _, other := range AllSettings() {
		if (s.When.String() == "never" || s.Classes[0].ModelType == "") && other.Name == s.GGUF {
			return other.Written.ModelType
		}
	}
	return cmp.Or(s.Written.ModelType, c.ModelType)
}

// readMissing reads the lists of missing.txt, by their words, and the reasons of the classes
// in them.
func readMissing(file, text string) (lists map[string][]string, reasons map[string]map[string]string, err error) {
	lists, reasons = map[string][]string{}, map[string]map[string]string{}
	why, word := "", ""
	n := 0
	for line := range strings.Lines(text) {
		n++
		items := strings.Fields(line)
		indented := strings.HasPrefix(line, " ")
		switch {
		case len(items) == 0 || items[0][0] == '#':
			continue
		case !indented && items[0] == "why":
			why, word = strings.Join(items[1:], " "), ""
			continue
		case !indented:
			why = ""
		}
		if slices.Contains([]string{"wrapped", "text", "vision", "audio", "hf", "mlx"}, items[0]) {
			word, items = items[0], items[1:]
		}
		if word == "" || (why == "") != (word == "wrapped") {
			return nil, nil, mistake(file, n, "a list without its word, or a reason")
		}
		if reasons[word] == nil {
			reasons[word] = map[string]string{}
		}
		for _, class := range items {
			if _, twice := reasons[word][class]; twice {
				return nil, nil, mistake(file, n, "%s is there twice", class)
			}
			reasons[word][class] = why
		}
		lists[word] = append(lists[word], items...)
	}
	return lists, reasons, nil
}

// Reasons are why something is not made, each once, in the order of the columns.
func (s *Supported) Reasons() (list []string) {
	for _, c := range SupportColumns {
		if g, ok := s.Columns[c]; ok && !g.Made && !slices.Contains(list, g.Reason) {
			list = append(list, g.Reason)
		}
	}
	return list
}

// Made are the columns in which something is made.
func (s *Supported) Made() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(s.Columns)), func(c string) bool { return !s.Columns[c].Made })
}
