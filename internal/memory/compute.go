package memory

import (
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
)

// compute returns how large the buffer is in which a graph is computed, and whether that is
// exact.
func (m *model) compute(c *checked, s *resolved) (bytes int64, exact bool) {
	if bytes, ok := m.graphed(c, s); ok {
		return bytes, true
	}
	return m.formula(c, s), false
}

// quantised reports whether the cache is rotated before it is rounded, which takes a matrix
// beside it.
func (m *model) rotates(t tensorfs.DType) bool {
	return !m.mla && t.Kind() != tensorfs.KindFloat && m.key > 0 && m.key%64 == 0 && m.any(m.isCached)
}

// dimensions are the names of forms.txt.
func (m *model) dimensions(c *checked, s *resolved) map[string]int64 {
	d := map[string]int64{
		"E": m.width, "H": largest(m.heads), "F": largest(m.feedForward), "X": m.experts, "M": 0, "DF": 0, "N": 0,
		"I": m.inner, "S": m.state, "G": m.groups, "C": m.conv, "R": m.rank, "T": s.tokens, "P": s.sequences,
	}
	d["Q"] = c.mul(d["H"], m.key)
	if m.experts == 0 || m.dense > 0 {
		d["DF"] = d["F"]
	}
	if m.experts > 0 {
		d["M"] = c.mul(3, m.used, m.expertForward)
		if m.width > 2*m.expertForward { // their output does not fit into what gate and up leave
			d["M"] = c.add(d["M"], c.mul(m.used, m.width))
		}
	}
	if !s.flash {
		if d["N"] = s.cells; m.noCache {
			d["N"] = s.tokens
		}
	}
	return d
}

// formula adds up what lives at a time in each phase of a graph. It is a multiple of the tokens
// as long as nothing is left over between tensors.
func (m *model) formula(c *checked, s *resolved) int64 {
	tokens, d := s.tokens, m.dimensions(c, s)
	hasCache, hasWindows, hasState := m.any(m.isCached), m.any(func(i int) bool { return m.isCached(i) && m.hasWindow(i) }), m.any(m.hasState)
	mask, caches := int64(2), int64(1) // bytes of an element
	if !s.flash {
		mask = 4
	}
	if hasWindows {
		caches = 2
	}
	inputs := c.add(c.mul(8, tokens), c.pad(c.mul(4, s.sequences), alignment))
	switch {
	case m.noCache:
		inputs = c.add(inputs, c.mul(tokens, tokens, mask))
	case hasCache:
		inputs = c.add(inputs, c.mul(s.cells, tokens, mask), c.mul(caches, tokens, 8))
		if hasWindows {
			inputs = c.add(inputs, c.mul(s.cellsSWA, tokens, mask))
		}
		if !m.mla {
			each := int64(1)
			if !s.flash {
				each = c.mul(largest(m.pairs), m.value)
			}
			inputs = c.add(inputs, c.mul(caches, tokens, 8, each))
		}
	}
	if hasState {
		inputs = c.add(inputs, c.pad(c.mul(4, s.sequences), alignment))
	}
	if m.rotates(s.typeK) {
		power := m.key & -m.key
		inputs = c.add(inputs, c.mul(caches, 4, power, power))
	}
	if m.rotates(s.typeV) {
		inputs = c.add(inputs, c.mul(caches, 4, 64, 64))
	}
	f := forms()[m.form]
	if m.mla && m.form == "usual" {
		f = forms()["mla"]
	}
	env := &architectures.Env{Facts: func(name string) any {
		if n, ok := d[name]; ok {
			return n
		}
		panic("forms.txt: there is no dimension " + name)
	}}
	phases := c.value(f.ffn, env)
	if hasCache || m.noCache {
		phases = max(phases, c.value(f.attention, env))
	}
	n := min(tokens, s.outputs) // rows of logits
	all := c.add(inputs, max(c.mul(4, tokens, phases), c.value(f.ssm, env)), c.pad(c.mul(4, n), alignment), -c.pad(c.mul(4, s.sequences), alignment))
	if n <= s.sequences || m.noOutput {
		return all
	}
	beside := int64(2)
	if hasState {
		beside = 3
	}
	return max(all, c.mul(4, n, c.add(m.vocabulary, c.mul(beside, m.width), 1)))
}

// listed reports whether a list fits the model's graph: the header has no feature that the
// list lacks, and the cache has a type that lists were compared with.
func (m *model) listed(g *graphList, s *resolved) bool {
	if m.experts > 0 && (m.used < 2 || m.used > m.experts || m.used > 256) {
		return false
	}
	if g.unless != nil && g.unless.Holds(func(name string) any { return m.fact(name, 0) }) {
		return false
	}
	for i := range m.header.Tensors {
		name := m.header.Tensors[i].Name
		if layerOf(name) < 0 {
			continue
		}
		if _, name, _ = strings.Cut(strings.TrimPrefix(name, "blk."), "."); !g.tensors[name] {
			return false
		}
	}
	for _, t := range []tensorfs.DType{s.typeK, s.typeV} {
		if !slices.Contains(listedTypes, t) {
			return false
		}
	}
	return true
}

// listedTypes are the cache types that graphs were compared with.
var listedTypes = []tensorfs.DType{tensorfs.F16, tensorfs.Q8_0, tensorfs.Q4_0}
