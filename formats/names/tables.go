package names

import (
	"embed"
	"fmt"
	"slices"
	"strings"
	"sync"
)

//go:embed tables/*.txt
var files embed.FS

// Files with spellings. The conditional ones come first: rules of one spelling
// are tried in the order they were read.
var spellingFiles = []string{
	"conditional", "global", "attention", "ffn", "experts", "encdec", "ssm",
	"rwkv", "layer", "vision", "projector", "audio", "rest",
}

// rule is the meaning of one spelling.
type rule struct {
	canonical string     // with {n} and {e}, and {s} if the spelling has it
	when      *condition // nil means always
	next      *rule      // another rule of the same spelling, tried after this one
}

// condition restricts a rule, see tables/conditional.txt.
type condition struct {
	verb string // has, lacks, arch, twice
	args []string
}

// spellings are the rules of one ecosystem. Keys have {n} and {e} for numbers, and {s} for
// weight and bias if the line is for both.
type spellings struct {
	rules   map[string]*rule
	longest int // length of the longest key
}

var (
	ggufSpellings = sync.OnceValue(func() *spellings { return readSpellings(GGUF) })
	hfSpellings   = sync.OnceValue(func() *spellings { return readSpellings(HF) })
	wrappers      = sync.OnceValue(readWrappers)
	innerParts    = sync.OnceValue(readInner)
	companions    = sync.OnceValue(readCompanions)
)

// params are the words that {s} matches.
var params = [...]string{"weight", "bias", "input_min", "input_max", "output_min", "output_max"}

// lines yields the lines of a table except comments and empty lines. A table that
// cannot be read is a mistake of the build, so everything here panics.
func lines(table string) func(yield func(string) bool) {
	b, err := files.ReadFile("tables/" + table + ".txt")
	if err != nil {
		panic(err)
	}
	text := string(b)
	return func(yield func(string) bool) {
		for line := range strings.Lines(text) {
			line = strings.TrimSuffix(line, "\n")
			if line != "" && line[0] != '#' && !yield(line) {
				return
			}
		}
	}
}

// cut returns the first word of a line and what follows it.
func cut(line string) (word, rest string) {
	word, rest, _ = strings.Cut(line, " ")
	return word, strings.TrimLeft(rest, " ")
}

// line is a line of the files with spellings.
type line struct {
	gguf                bool
	spelling, canonical string
	when                string
}

var spellingLines = sync.OnceValue(func() []line {
	list := make([]line, 0, 2048)
	for _, table := range spellingFiles {
		for text := range lines(table) {
			ecosystem, text := cut(text)
			spelling, text := cut(text)
			canonical, when := cut(text)
			list = append(list, line{gguf: ecosystem == "gguf", spelling: spelling, canonical: canonical, when: when})
		}
	}
	return list
})

func readSpellings(layout Layout) *spellings {
	s := &spellings{rules: make(map[string]*rule, 1500)}
	for _, l := range spellingLines() {
		if l.gguf != (layout == GGUF) {
			continue
		}
		r := &rule{canonical: l.canonical}
		if f := strings.Fields(l.when); len(f) > 0 {
			r.when = &condition{verb: f[0], args: f[1:]}
		}
		s.add(l.spelling, r)
	}
	return s
}

func (s *spellings) add(key string, r *rule) {
	s.longest = max(s.longest, len(key)+len("weight")-len("{s}"))
	last := s.rules[key]
	if last == nil {
		s.rules[key] = r
		return
	}
	for last.next != nil {
		last = last.next
	}
	if last.when == nil {
		panic("names: two meanings of " + key)
	}
	last.next = r
}

// wrapper is a prefix of every name of some exports.
type wrapper struct {
	from, to string
	leftover bool // of training
}

func readWrappers() []wrapper {
	var ws []wrapper
	nothing := strings.NewReplacer("-", "")
	for line := range lines("wrappers") {
		from, to := cut(line)
		if from == "inner" {
			continue
		}
		if from == "leftover" {
			ws = append(ws, wrapper{from: to, leftover: true})
			continue
		}
		ws = append(ws, wrapper{from: nothing.Replace(from), to: nothing.Replace(to)})
	}
	return ws
}

// readInner returns what training leaves in the middle of names.
func readInner() (parts []string) {
	for line := range lines("wrappers") {
		if part, ok := strings.CutPrefix(line, "inner "); ok {
			parts = append(parts, part)
		}
	}
	return parts
}

// companion is a suffix of tensors that belong to another one.
type companion struct {
	suffix, role string
	ollama       bool   // only in an Ollama store
	beside       string // only where the module also has this suffix
}

func readCompanions() []companion {
	var cs []companion
	for line := range lines("companions") {
		suffix, line := cut(line)
		role, line := cut(line)
		_, line = cut(line)
		c := companion{suffix: suffix, role: role}
		switch verb, arg := cut(line); verb {
		case "":
		case "ollama":
			c.ollama = true
		case "beside":
			c.beside = arg
		default:
			panic(fmt.Sprintf("names: condition %q of companion %s", verb, suffix))
		}
		cs = append(cs, c)
	}
	slices.SortStableFunc(cs, func(a, b companion) int { return len(b.suffix) - len(a.suffix) })
	return cs
}
