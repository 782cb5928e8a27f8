package whole

import (
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
)

// index returns where in the model's tensors a weight is, or -1.
func (x *maker) index(name string) int {
	if x.codes == nil {
		x.codes = map[string]int32{}
		for i := range x.m.Tensors {
			if t := &x.m.Tensors[i]; t.Quant != nil && t.Quant.Weight != "" {
				x.codes[t.Quant.Weight] = int32(i)
			}
		}
	}
	if i, ok := x.codes[name]; ok {
		return int(i)
	}
	i, ok := slices.BinarySearchFunc(x.m.Tensors, name, func(t tensorfs.Tensor, s string) int { return strings.Compare(t.Name, s) })
	if !ok || x.m.Tensors[i].Owner != "" {
		return -1
	}
	return i
}

// pattern says which tensors are of no use: by the start of the canonical name, or
// by the start or the end of the name in the model's files.
type pattern struct{ name, source, end string }

// commonDropped are of no use in any architecture: what is computed from the config.
// Parts of models beside the language model are counted as [Towers].
var commonDropped = []pattern{{end: "rotary_emb.inv_freq"}}

func dropped(t *tensorfs.Tensor, patterns []pattern) bool {
	return slices.ContainsFunc(patterns, func(p pattern) bool {
		return strings.HasPrefix(t.Weight(), p.name) && strings.HasPrefix(t.Source, p.source) && strings.HasSuffix(t.Source, p.end)
	})
}
