package memory

import (
	_ "embed"
	"regexp"
	"strings"
	"sync"

	"github.com/tensorfs/tensorfs/formats/architectures"
)

// use is an operation that takes no place: what it makes is in the cache.
const use = "use"

// statement is an operation of a block.
type statement struct {
	when    *architectures.Expr // nil: always
	name    string
	output  bool
	op      string
	bytes   *architectures.Expr
	sources []string
}

// step is a block in a list of a graph.
type step struct {
	when  *architectures.Expr
	block string
}

// graphList is a graph of graphs.txt.
type graphList struct {
	start, early, first, then, end []step
	tensors                        map[string]bool     // of layers
	unless                         *architectures.Expr // nil: never
}

// graphTable is graphs.txt.
type graphTable struct {
	inPlace map[string]bool
	inputs  map[string]*architectures.Expr
	blocks  map[string][]statement
	graphs  map[string]*graphList
}

//go:embed graphs.txt
var graphsText string

//go:embed graphs_states.txt
var graphsStatesText string

// graphs is read at its first use: most commands need none of it.
var graphs = sync.OnceValue(func() *graphTable { return readGraphs(graphsText + "\n" + graphsStatesText) })

// bracketed are the words of a line of a table: blanks separate them unless they are in brackets.
var bracketed = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?:\[[^]]*\]|[^\s[])+`) })

func readGraphs(text string) *graphTable {
	g := &graphTable{map[string]bool{}, map[string]*architectures.Expr{}, map[string][]statement{}, map[string]*graphList{}}
	block, graph := "", (*graphList)(nil)
	for line := range strings.Lines(text) {
		f := bracketed().FindAllString(line, -1)
		switch {
		case len(f) == 0 || f[0] == "#":
		case f[0] == "in-place":
			for _, op := range f[1:] {
				g.inPlace[op] = true
			}
		case f[0] == "input":
			g.inputs[f[1]] = parsed(f[2])
		case f[0] == "block":
			block, graph = f[1], nil
		case f[0] == "graph":
			graph = &graphList{tensors: map[string]bool{}}
			g.graphs[f[1]] = graph
		case graph != nil && f[0] == "tensors":
			for _, name := range f[1:] {
				graph.tensors[name] = true
			}
		case graph != nil && f[0] == "unless":
			graph.unless = parsed(strings.Join(f[1:], " "))
		case graph != nil:
			to := map[string]*[]step{"start": &graph.start, "early": &graph.early, "first": &graph.first, "then": &graph.then, "end": &graph.end}[f[0]]
			when := (*architectures.Expr)(nil)
			for _, word := range f[1:] {
				if c, ok := condition(word); ok {
					when = c
				} else {
					*to = append(*to, step{when, word})
				}
			}
		default:
			g.blocks[block] = append(g.blocks[block], statementOf(f))
		}
	}
	return g
}

// condition parses a word in brackets; the condition is nil if nothing is in them.
func condition(word string) (when *architectures.Expr, ok bool) {
	if word[0] != '[' {
		return nil, false
	}
	if text := strings.Trim(word, "[]"); text != "" {
		when = parsed(text)
	}
	return when, true
}

func statementOf(f []string) (s statement) {
	if when, ok := condition(f[0]); ok {
		s.when, f = when, f[1:]
	}
	s.name, s.output = strings.CutSuffix(f[0], "!")
	s.op = f[1]
	rest := f[2:]
	if len(rest) > 0 && rest[0] != "<" {
		s.bytes, rest = parsed(rest[0]), rest[1:]
	}
	if len(rest) > 0 {
		s.sources = rest[1:]
	}
	return s
}

// builder makes the nodes of a graph.
type builder struct {
	*model
	c      *checked
	s      *resolved
	d      map[string]int64
	layer  int
	nodes  []node
	names  map[string]int
	inputs map[string]int
	env    architectures.Env
}

// value evaluates an expression in the layer that is built.
func (b *builder) value(e *architectures.Expr) int64 { return b.c.value(e, &b.env) }

// graphed returns the peak of a model's graph. It is false if the graph is not listed, or
// no list was compared with the options.
func (m *model) graphed(c *checked, s *resolved) (bytes int64, ok bool) {
	g := graphs().graphs[m.graph]
	if g == nil || m.layers == 0 || m.blocks != m.layers || m.cached != m.layers || !m.listed(g, s) {
		return 0, false
	}
	return place(c, m.build(c, s), c.mul(4, m.width, s.tokens)), true
}

// build lists the operations of a model's graph.
func (m *model) build(c *checked, s *resolved) []node {
	g := graphs().graphs[m.graph]
	b := &builder{model: m, c: c, s: s, d: m.dimensions(c, s), names: map[string]int{}, inputs: map[string]int{}}
	b.env.Facts = b.fact
	b.enter(0)
	b.all(g.start)
	fetched := b.fetch(g, 0)
	for i := range m.layers {
		b.enter(i)
		b.all(g.first)
		if i == fetched {
			fetched = b.fetch(g, i+1)
			b.enter(i)
		}
		b.all(g.then)
	}
	b.all(g.end)
	return b.nodes
}

// fetch does the early part of the next layer, from this one on, that has a state or a
// cache, and returns it: layers in between are computed only when their results are wanted.
func (b *builder) fetch(g *graphList, layer int) int {
	for ; layer < b.layers; layer++ {
		if b.noCache || b.hasState(layer) || b.isCached(layer) {
			b.enter(layer)
			b.all(g.early)
			break
		}
	}
	return layer
}

// enter sets the dimensions of a layer.
func (b *builder) enter(layer int) {
	m, c, d := b.model, b.c, b.d
	b.layer = layer
	key, value, cells := m.key, m.value, b.s.cells
	if m.hasWindow(layer) {
		key, value, cells = m.keyWindow, m.valueWindow, b.s.cellsSWA
	}
	if m.noCache {
		cells = b.s.tokens
	}
	heads, pairs := m.heads[layer], m.pairs[layer]
	d["H"], d["F"], d["N"], d["D"] = heads, m.feedForward[layer], cells, key
	d["Q"], d["A"], d["K"], d["W"] = c.mul(heads, key), c.mul(heads, value), c.mul(pairs, key), c.mul(pairs, value)
	d["FX"], d["u"], d["V"], d["t"], d["O"] = m.expertForward, m.used, m.vocabulary, b.s.tokens, min(b.s.outputs, b.s.tokens)
	d["B"], d["Y"], d["J"] = 2, 1, m.key&-m.key
	if !b.s.flash {
		d["B"], d["Y"] = 4, c.mul(largest(m.pairs), m.value)
	}
	d["r"], d["s"] = m.stateOf(c)
	d["L"], d["ST"] = m.short, b.s.streams
	d["QA"], d["LR"], d["RR"] = m.rankQ, m.rankKV, m.rotated
	d["MK"], d["MV"] = m.keyMLA, m.valueMLA
	if d["SX"] = m.sharedForward; m.sharedForward == 0 {
		d["SX"] = c.mul(m.shared, m.expertForward)
	}
	if d["GN"] = m.expertGroups; m.expertGroups > 0 {
		d["GX"] = c.mul(m.experts/m.expertGroups, m.groupsUsed)
	}
}

// fact returns what a condition calls by a name, in the layer that is built.
func (b *builder) fact(name string) any {
	switch name {
	case "flash":
		return b.s.flash
	case "rotk":
		return b.rotates(b.s.typeK)
	case "rotv":
		return b.rotates(b.s.typeV)
	case "state":
		return b.hasState(b.layer)
	case "cached":
		return b.isCached(b.layer)
	case "last":
		return b.layer == b.layers-1
	}
	if n, ok := b.d[name]; ok {
		return n
	}
	return b.model.fact(name, b.layer)
}

func (b *builder) all(steps []step) {
	for _, s := range steps {
		if !s.when.HoldsIn(&b.env) {
			continue
		}
		list, ok := graphs().blocks[s.block]
		if !ok {
			panic("graphs.txt: there is no block " + s.block)
		}
		for i := range list {
			if list[i].when.HoldsIn(&b.env) {
				b.do(&list[i])
			}
		}
	}
}

// perCache are inputs that each of two caches has for itself.
var perCache = map[string]bool{"kidx": true, "vidx": true, "mask": true, "krot": true, "vrot": true}

// source returns the node of a name, here.
func (b *builder) source(name string) int {
	input, ok := strings.CutPrefix(name, "@")
	if !ok {
		id, ok := b.names[name]
		if !ok {
			panic("graphs.txt: " + name + " is used before it is defined")
		}
		return id
	}
	key := input
	if perCache[input] && b.hasWindow(b.layer) {
		key += " of windows"
	}
	id, ok := b.inputs[key]
	if !ok {
		id = b.push(node{input: true, view: -1, bytes: b.value(graphs().inputs[input])})
		b.inputs[key] = id
	}
	return id
}

func (b *builder) push(n node) int {
	b.nodes = append(b.nodes, n)
	return len(b.nodes) - 1
}

// view makes one of a node, or of what that is a view of.
func (b *builder) view(of int) int {
	root := of
	if b.nodes[of].view >= 0 {
		root = b.nodes[of].view
	}
	return b.push(node{op: "view", view: root, sources: []int{of}})
}

// do adds an operation.
func (b *builder) do(s *statement) {
	n := node{op: s.op, view: -1, output: s.output}
	for _, name := range s.sources {
		n.sources = append(n.sources, b.source(name))
	}
	if s.bytes != nil {
		n.bytes = b.value(s.bytes)
	}
	switch s.op {
	case "view":
		b.names[s.name] = b.view(n.sources[0])
	case "onto":
		id := b.view(n.sources[len(n.sources)-1])
		b.nodes[id].sources = n.sources
		b.names[s.name] = id
	case "pick":
		if b.layer == b.layers-1 {
			out := b.source("@out")
			b.d["t"] = b.d["O"]
			b.names[s.name] = b.push(node{op: "get_rows", view: -1, bytes: b.c.mul(4, b.width, b.d["O"]), sources: []int{b.source(s.name), out}})
		}
	case "sum":
		var views []int
		for range b.used {
			views = append(views, b.view(n.sources[0]))
		}
		sum := views[0]
		for _, v := range views[1:] {
			sum = b.push(node{op: "add", view: -1, bytes: n.bytes, sources: []int{sum, v}})
		}
		b.names[s.name] = sum
	default:
		b.names[s.name] = b.push(n)
	}
}
