package images

import (
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Source describes which tensors of diffusers make a tensor of the reference.
type Source struct {
	Name     string   // as the reference calls it
	Of       []string // names of diffusers, whose rows follow one another
	Exchange bool     // the two halves of the rows are exchanged
}

// rule is a line of diffusers.txt.
type rule struct {
	to       string
	from     []*regexp.Regexp
	ofLast   bool
	exchange bool
}

//go:embed diffusers.txt
var diffusersText string

// rules returns the lines of diffusers.txt, by architecture.
var rules = sync.OnceValue(func() map[string][]rule { return readRules(diffusersText) })

func readRules(text string) map[string][]rule {
	all, of := map[string][]rule{}, ""
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		switch {
		case len(words) == 0 || words[0][0] == '#':
		case words[0] == "of":
			of = words[1]
		case words[1] != "=":
			panic(fmt.Sprintf("diffusers.txt: no = in %q", line))
		default:
			r := rule{to: words[0], ofLast: strings.Contains(line, "LAST")}
			for _, part := range words[2:] {
				part, r.exchange = strings.CutPrefix(part, "^")
				r.from = append(r.from, pattern(part))
			}
			all[of] = append(all[of], r)
		}
	}
	return all
}

// pattern returns what the names of a module's tensors match.
func pattern(module string) *regexp.Regexp {
	text := strings.NewReplacer(`%`, `([0-9]+)`, `LAST`, `([0-9]+)`, `\*`, `(.+)`).Replace(regexp.QuoteMeta(module))
	return regexp.MustCompile(`^` + text + `(\.weight|\.bias)?$`)
}

// find returns the tensor that a tensor of diffusers is a part of, and which part it is.
func find(list []rule, name, last string) (r *rule, to string, part int) {
	for i := range list {
		r := &list[i]
		for part, from := range r.from {
			m := from.FindStringSubmatch(name)
			if m == nil || r.ofLast && m[1] != last {
				continue
			}
			return r, r.fill(m[1:]), part
		}
	}
	return nil, "", 0
}

// fill returns the name of the reference, with what a name of diffusers has for its marks.
func (r *rule) fill(found []string) string {
	to := strings.ReplaceAll(r.to, "LAST", "%")
	var b strings.Builder
	for {
		at := strings.IndexAny(to, "%*")
		if at < 0 {
			return b.String() + to + found[len(found)-1]
		}
		b.WriteString(to[:at] + found[0])
		to, found = to[at+1:], found[1:]
	}
}

// Translated reports whether names of diffusers are known for the architecture.
func (a *Architecture) Translated() bool { return rules()[a.Name] != nil }

// FromDiffusers returns the tensors of the reference that tensors of diffusers make, sorted by
// name. The error names one whose part in it is not known, or that lacks another part.
func (a *Architecture) FromDiffusers(names []string) ([]Source, error) {
	list, last := rules()[a.Name], lastBlock(names)
	made := map[string]*Source{}
	for _, name := range names {
		r, to, part := find(list, name, last)
		if r == nil {
			return nil, fmt.Errorf("%q is no tensor of diffusers' %s that is known", name, a.Title)
		}
		s := made[to]
		if s == nil {
			s = &Source{Name: to, Of: make([]string, len(r.from)), Exchange: r.exchange}
			made[to] = s
		}
		if part >= len(s.Of) || s.Of[part] != "" {
			return nil, fmt.Errorf("%q and another tensor are both %s", name, to)
		}
		s.Of[part] = name
	}
	sorted := make([]Source, 0, len(made))
	for _, s := range made {
		if i := slices.Index(s.Of, ""); i >= 0 {
			have := slices.IndexFunc(s.Of, func(name string) bool { return name != "" })
			return nil, fmt.Errorf("%q is there without the tensors that it belongs with", s.Of[have])
		}
		sorted = append(sorted, *s)
	}
	slices.SortFunc(sorted, func(a, b Source) int { return strings.Compare(a.Name, b.Name) })
	return sorted, nil
}

// lastBlock returns the number of the last transformer block.
func lastBlock(names []string) string {
	last := -1
	for _, name := range names {
		rest, ok := strings.CutPrefix(name, "transformer_blocks.")
		number, _, _ := strings.Cut(rest, ".")
		if n, err := strconv.Atoi(number); ok && err == nil {
			last = max(last, n)
		}
	}
	return strconv.Itoa(last)
}
