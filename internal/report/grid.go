package report

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Place is where a tensor is in the map: a kind and a layer, or outside of the layers.
type Place struct {
	Kind  string
	Layer int // -1 outside
}

var layered = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(.*?)(?:layers|blocks|layer)\.(\d{1,5})\.(.+)$`)
})

// PlaceOf finds the place of a canonical name: attention.q in layer 3 for
// layers.3.attention.q.weight. A number behind the layer's, such as an expert's, is part of the
// kind.
func PlaceOf(name string) Place {
	m := layered().FindStringSubmatch(name)
	if m == nil {
		return Place{strings.TrimSuffix(name, ".weight"), -1}
	}
	n, _ := strconv.Atoi(m[2])
	return Place{m[1] + strings.TrimSuffix(m[3], ".weight"), n}
}

// Grid lays places out: kinds in the order in which they come first, by the layers.
type Grid struct {
	Kinds   []string
	Layers  int
	Outside []string // kinds that are in no layer
}

// NewGrid lays out the tensors of those names.
func NewGrid(names []string) (g Grid) {
	seen := map[string]bool{}
	for _, name := range names {
		p := PlaceOf(name)
		g.Layers = max(g.Layers, p.Layer+1)
		key := strconv.FormatBool(p.Layer < 0) + p.Kind
		if seen[key] {
			continue
		}
		seen[key] = true
		if p.Layer < 0 {
			g.Outside = append(g.Outside, p.Kind)
		} else {
			g.Kinds = append(g.Kinds, p.Kind)
		}
	}
	slices.SortStableFunc(g.Kinds, func(a, b string) int { return rank(a) - rank(b) })
	return g
}

// order lists the parts of a layer as a token meets them.
var order = []string{"attention_norm", "attention.q", "attention.k", "attention.v", "attention.qkv", "attention.output", "attention", "ssm", "ffn_norm", "ffn.gate", "ffn.up", "ffn.gate_up", "ffn.down", "ffn", "experts"}

func rank(kind string) int {
	for i, o := range order {
		if kind == o || strings.HasPrefix(kind, o+".") || o == "attention" && strings.HasPrefix(kind, o) {
			return i
		}
	}
	return len(order)
}

// Span writes layers as people do: "4-10, 13".
func Span(layers []int) string {
	slices.Sort(layers)
	layers = slices.Compact(layers)
	var parts []string
	for i := 0; i < len(layers); {
		k := i
		for k+1 < len(layers) && layers[k+1] == layers[k]+1 {
			k++
		}
		text := strconv.Itoa(layers[i])
		if k > i+1 {
			text += "-" + strconv.Itoa(layers[k])
		} else if k > i {
			text += ", " + strconv.Itoa(layers[k])
		}
		parts = append(parts, text)
		i = k + 1
	}
	return strings.Join(parts, ", ")
}
