package names

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs/formats/images"
)

// Layout is the naming scheme of a source.
type Layout int

// The layouts. Ollama is HF with the companions and components of Ollama's
// tensor blobs; a GGUF blob of Ollama is GGUF.
const (
	GGUF Layout = iota
	HF
	Ollama
)

// Source is a tensor as its file names it.
type Source struct {
	Name  string
	Shape []int64 // row-major
}

// Result is what a tensor is to be called.
type Result struct {
	// Name is the canonical name, or the escaped source name. It is unique in
	// the model and can name a file; it has at most 209 bytes.
	Name string
	// Role is what a companion is to its module: "scales", "biases", ...
	// It is empty for other tensors and for companions that kept their source name.
	Role string
	// Stem is the canonical name of the module, without a last part:
	// "layers.0.ffn.up.weight" and its companion "layers.0.ffn.up.scales" both have the
	// stem "layers.0.ffn.up". It is empty for biases and if Mapped is false.
	Stem string
	// Mapped tells a canonical name from an escaped one.
	Mapped bool
	// Reason explains why another tensor has the name that this one should have; empty
	// otherwise. Text from the file is quoted.
	Reason string
}

// Map names the tensors of all files of a model together, because a name may
// depend on other tensors. Results are in the order of src. The
// names in src must be unique; arch is GGUF's name of the architecture; "" and
// unknown names are no error.
func Map(layout Layout, arch string, src []Source) []Result {
	if images.Find(arch) != nil {
		return ofImage(src)
	}
	m := &mapper{layout: layout, arch: arch, src: src, table: hfSpellings(), index: make(map[string]int32, len(src))}
	if layout == GGUF {
		m.table = ggufSpellings()
	} else {
		m.wrap = wrappers()
	}
	for i := range src {
		m.index[src[i].Name] = int32(i)
	}
	results := make([]Result, len(src))
	matches := make([]match, len(src))
	taken := make(map[string]int32, len(src)) // name to index in src

	claim := func(i int32) {
		c := matches[i].canonical
		if j, ok := taken[c]; !ok || m.before(matches, i, j) {
			taken[c] = i
		}
	}
	for i := range int32(len(src)) {
		var ok bool
		if matches[i], ok = m.resolve(i); ok && matches[i].role == "" {
			claim(i)
		}
	}
	// A companion goes with its weight: it may not be beside another's.
	for i := range int32(len(src)) {
		mt := &matches[i]
		if mt.role == "" {
			continue
		}
		if o := mt.owner; o >= 0 && !owns(taken, matches[o].canonical, o) {
			results[i].Reason = fmt.Sprintf("%q keeps its name, as its weight %q does", src[i].Name, src[o].Name)
			mt.canonical = ""
		} else if j, ok := taken[mt.canonical]; !ok || matches[j].role != "" {
			claim(i)
		}
	}
	for i := range int32(len(src)) {
		c := matches[i].canonical
		if c == "" {
			continue
		}
		if j := taken[c]; j != i {
			results[i].Reason = fmt.Sprintf("%q keeps its name: %s is %q", src[i].Name, c, src[j].Name)
			continue
		}
		results[i] = Result{Name: c, Role: matches[i].role, Stem: stem(c, matches[i].role), Mapped: true}
	}
	for i := range int32(len(src)) {
		if !results[i].Mapped {
			m.keep(&results[i], i, taken)
		}
	}
	return results
}

// ofImage names the tensors of an image model: as its files do, without what the names of a
// denoiser begin with in a file that has other parts.
func ofImage(src []Source) []Result {
	list := make([]string, len(src))
	for i := range src {
		list[i] = src[i].Name
	}
	prefix := images.Prefix(list)
	m := &mapper{src: slices.Clone(src)}
	results, taken := make([]Result, len(src)), make(map[string]int32, len(src))
	for _, isDenoiser := range []bool{true, false} { // other parts take what names are left
		for i := range src {
			name, cut := strings.CutPrefix(src[i].Name, prefix)
			if cut == isDenoiser {
				m.src[i].Name = name
				m.keep(&results[i], int32(i), taken)
			}
		}
	}
	return results
}

func owns(taken map[string]int32, name string, i int32) bool {
	j, ok := taken[name]
	return ok && j == i
}

// before reports whether tensor i has a better right than j to the name that
// both have by their rules.
func (m *mapper) before(matches []match, i, j int32) bool {
	if a, b := matches[i].wrapper, matches[j].wrapper; a != b {
		return a < b
	}
	return m.src[i].Name < m.src[j].Name
}

// keep gives tensor i its source name, escaped.
func (m *mapper) keep(r *Result, i int32, taken map[string]int32) {
	name := m.src[i].Name
	r.Name = Escape(name)
	if j, ok := taken[r.Name]; ok {
		if r.Reason == "" {
			r.Reason = fmt.Sprintf("%q has a mark after its name: %s is %q", name, r.Name, m.src[j].Name)
		}
		r.Name += "~" + digest(name)[:8]
		if _, ok := taken[r.Name]; ok {
			// Two long names with one beginning and the same 64 bits of hash do not occur
			// by accident. The whole hash tells them apart.
			r.Name = "~" + digest(name)
		}
	}
	taken[r.Name] = i
}

// stem returns a canonical name without its last part, "" for a bias.
func stem(canonical, role string) string {
	cut := len(".weight")
	if role != "" {
		cut = len(role) + 1
	} else if end := canonical[max(0, len(canonical)-len(".bias")):]; end == ".bias" {
		return ""
	} else if len(canonical) < cut || canonical[len(canonical)-cut:] != ".weight" {
		return canonical
	}
	return canonical[:len(canonical)-cut]
}
