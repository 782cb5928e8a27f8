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
