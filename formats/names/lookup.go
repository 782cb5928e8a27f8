package names

import (
	"bytes"
	"slices"
	"strings"
)

const (
	maxNumbers = 3 // decimal segments of a name that the tables can know
	maxDigits  = 6
	maxGroup   = 64 // length of an Ollama component
)

// groups are sub-models whose tensors are named like a model's, after a prefix.
var groups = []string{"draft.", "mtp.", "talker."}

// mapper holds what the lookup of one name needs to know of all others.
type mapper struct {
	layout Layout
	arch   string
	src    []Source
	index  map[string]int32 // source name to index in src
	table  *spellings
	wrap   []wrapper // none in GGUF
	name   []byte    // the name being looked up, unwrapped
	key    []byte
	probe  []byte
}

// match is what a source name means.
type match struct {
	canonical string
	wrapper   int    // index in wrappers, -1 for a literal match
	role      string // of a companion
	owner     int32  // index of a companion's weight in src, or -1
}

// resolve finds what src[i] means. It costs at most a few dozen probes of a map
// whatever the name is.
func (m *mapper) resolve(i int32) (match, bool) {
	group, shown, name := m.group(m.src[i].Name)
	if c, w, ok := m.lookup(group, name, "", i); ok {
		return match{canonical: shown + c, wrapper: w, owner: -1}, true
	}
	for _, c := range companions() {
		stem, ok := strings.CutSuffix(name, c.suffix)
		if !ok || c.ollama && m.layout != Ollama {
			continue
		}
		if c.beside != "" && m.indexOfSource(group, stem, c.beside) < 0 {
			continue
		}
		for _, param := range [...]string{".weight", ""} {
			owner := m.indexOfSource(group, stem, param)
			if canonical, w, ok := m.lookup(group, stem, param, owner); ok {
				return match{shown + strings.TrimSuffix(canonical, ".weight") + "." + c.role, w, c.role, owner}, true
			}
		}
	}
	return match{}, false
}

// group splits the prefix of a sub-model off a name: as it is in the source, as
// it is shown, and the rest.
func (m *mapper) group(name string) (prefix, shown, rest string) {
	if m.layout == GGUF {
		return "", "", name
	}
	for _, g := range groups {
		if strings.HasPrefix(name, g) {
			return g, g, name[len(g):]
		}
	}
	if m.layout == Ollama {
		if x, rest, ok := strings.Cut(name, "/"); ok && isComponent(x) {
			return name[:len(x)+1], x + ".", rest
		}
	}
	return "", "", name
}

// isComponent reports whether an Ollama component may be part of a canonical name.
func isComponent(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return s != "" && len(s) <= maxGroup
}

// indexOfSource returns the index in src of a source name given in pieces, or -1.
func (m *mapper) indexOfSource(pieces ...string) int32 {
	m.probe = m.probe[:0]
	for _, p := range pieces {
		m.probe = append(m.probe, p...)
	}
	if i, ok := m.index[string(m.probe)]; ok {
		return i
	}
	return -1
}

// lookup finds the canonical name of stem+tail, literally and then after each
// wrapper. self is the tensor whose shape counts, or -1.
func (m *mapper) lookup(group, stem, tail string, self int32) (canonical string, wrap int, ok bool) {
	if c, ok := m.literal(group, wrapper{}, stem, tail, self); ok {
		return c, -1, true
	}
	for i, w := range m.wrap {
		if rest, ok := strings.CutPrefix(stem, w.from); ok {
			if c, ok := m.literal(group, w, rest, tail, self); ok {
				return c, i, true
			}
		}
	}
	if clean := withoutInner(stem); len(m.wrap) > 0 && clean != stem {
		return m.lookup(group, clean, tail, self)
	}
	return "", 0, false
}

// span is a segment of a name that is a number.
type span struct{ from, to int }

// literal looks w.to+stem+tail up: with two of its numbers replaced by {n} and
// {e}, then with one replaced by {n}, then as it is.
func (m *mapper) literal(group string, w wrapper, stem, tail string, self int32) (string, bool) {
	n := len(w.to) + len(stem) + len(tail)
	if n > m.table.longest+maxNumbers*(maxDigits-len("{n}")) {
		return "", false
	}
	m.name = append(append(append(m.name[:0], w.to...), stem...), tail...)
	if bytes.IndexByte(m.name, '{') >= 0 {
		return "", false // would look like a placeholder
	}
	var nums [maxNumbers]span
	count := 0
	for from := 0; from < n; {
		to := from
		digits := true
		for to < n && m.name[to] != '.' {
			digits = digits && m.name[to] >= '0' && m.name[to] <= '9'
			to++
		}
		if l := to - from; digits && l > 0 && l <= maxDigits && (l == 1 || m.name[from] != '0') {
			if count == maxNumbers {
				return "", false
			}
			nums[count] = span{from, to}
			count++
		}
		from = to + 1
	}
	for i := range count {
		for j := i + 1; j < count; j++ {
			if c, ok := m.try(group, w, self, nums[i], nums[j]); ok {
				return c, true
			}
		}
	}
	for i := range count {
		if c, ok := m.try(group, w, self, nums[i]); ok {
			return c, true
		}
	}
	return m.try(group, w, self)
}

// try looks m.name up with the given numbers replaced.
func (m *mapper) try(group string, w wrapper, self int32, nums ...span) (string, bool) {
	m.key = m.key[:0]
	at := 0
	for i, s := range nums {
		m.key = append(m.key, m.name[at:s.from]...)
		m.key = append(m.key, '{', "ne"[i], '}')
		at = s.to
	}
	m.key = append(m.key, m.name[at:]...)
	r := m.table.rules[string(m.key)]
	if end := param(m.name); r == nil && end != "" {
		r = m.table.rules[string(append(m.key[:len(m.key)-len(end)], "{s}"...))]
	}
	for ; r != nil; r = r.next {
		if r.when == nil || m.holds(r.when, group, w, self, nums) {
			return string(m.fill(r.canonical, nums)), true
		}
	}
	return "", false
}

// param returns the end of a name that {s} matches, "" without one.
func param(name []byte) string {
	for _, end := range params {
		if len(name) >= len(end) && string(name[len(name)-len(end):]) == end {
			return end
		}
	}
	return ""
}

// fill replaces {n} and {e} in a pattern by numbers of m.name, and {s} by its end. The
// result is valid until the next call.
func (m *mapper) fill(pattern string, nums []span) []byte {
	m.key = m.key[:0]
	for {
		before, after, ok := strings.Cut(pattern, "{")
		m.key = append(m.key, before...)
		if !ok {
			return m.key
		}
		if after[0] == 's' {
			m.key = append(m.key, param(m.name)...)
		} else {
			i := strings.IndexByte("ne", after[0])
			m.key = append(m.key, m.name[nums[i].from:nums[i].to]...)
		}
		pattern = after[2:]
	}
}

// holds evaluates a condition for the tensor self, whose name has the given
// group and wrapper; names in the condition are taken to have the same.
func (m *mapper) holds(c *condition, group string, w wrapper, self int32, nums []span) bool {
	other := func(pattern string) int32 {
		name, ok := strings.CutPrefix(string(m.fill(pattern, nums)), w.to)
		if !ok {
			return -1
		}
		return m.indexOfSource(group, w.from, name)
	}
	switch c.verb {
	case "has", "lacks":
		for _, a := range c.args {
			if other(a) >= 0 {
				return c.verb == "has"
			}
		}
		return c.verb == "lacks"
	case "arch":
		for _, a := range c.args {
			if a == m.arch {
				return true
			}
		}
		return false
	case "twice":
		cols := other(c.args[0])
		if cols < 0 || self < 0 {
			return false
		}
		a, b := m.src[self].Shape, m.src[cols].Shape
		return len(a) > 0 && len(b) > 0 && a[0] > 0 && a[0]%2 == 0 && a[0]/2 == b[len(b)-1]
	}
	panic("names: condition " + c.verb)
}

// withoutInner returns the name of a tensor without what training left in its middle.
func withoutInner(name string) string {
	for _, part := range innerParts() {
		name = strings.ReplaceAll(name, part, ".")
	}
	return name
}

// Leftover returns the name of a tensor without what training left before it and in its middle, and
// both of these; they are empty if it left nothing.
func Leftover(source string) (name, before, inner string) {
	name = source
	for _, w := range slices.Backward(wrappers()) { // of wrappers with the same beginning the longest is last
		if rest, found := strings.CutPrefix(source, w.from); found && w.leftover {
			name, before = rest, w.from
			break
		}
	}
	for _, part := range innerParts() {
		if strings.Contains(name, part) {
			name, inner = withoutInner(name), strings.TrimPrefix(part, ".")
		}
	}
	return name, before, inner
}
