package hfdir

import (
	"slices"

	"github.com/tensorfs/tensorfs"
)

const windowKey = "attention.sliding_window_pattern"

// sliding returns for each layer whether it sees a window only. The file has a
// number, after so many layers one sees everything, or a list; usual is
// llama.cpp's number without the key.
func (c *configMaker) sliding(usual int64) []bool {
	list := make([]bool, c.dims["layers"])
	if c.arch.name == "gemma3" {
		if n, _ := c.integer("attention.sliding_window", 0, mostSize); n == 0 {
			return list
		}
	}
	v, key := c.keys.find(windowKey)
	if a, ok := v.(tensorfs.Array); ok {
		if int64(a.Len()) != c.dims["blocks"] {
			c.refuse("%s has %d values, and there are %d layers", key, a.Len(), c.dims["blocks"])
			return list
		}
		i := 0
		for v := range a.Values() {
			set, ok := v.(bool)
			if n, number := wholeNumber(v); number && (n == 0 || n == 1) {
				set, ok = n == 1, true
			}
			if !ok {
				c.refuse("%s has the value %s, neither true nor false", key, shownValue(v))
				return list
			}
			if i < len(list) {
				list[i] = set
			}
			i++
		}
		return list
	}
	if n, ok := c.integer(windowKey, 0, mostSize); ok {
		usual = n
	}
	for i := range list {
		list[i] = usual == 0 || int64(i+1)%usual != 0
	}
	return list
}

// layerTypes returns how far the tokens of each layer see.
func layerTypes(usual int64) configValue {
	return func(c *configMaker) any {
		types := make([]string, 0, c.dims["layers"])
		for _, s := range c.sliding(usual) {
			types = append(types, map[bool]string{true: "sliding_attention", false: "full_attention"}[s])
		}
		return types
	}
}

// windowPattern returns after how many layers one sees everything: the usual number
// where it says the same, else the smallest. mlx-lm knows no other order.
func windowPattern(usual int64) configValue {
	return func(c *configMaker) any {
		list := c.sliding(usual)
		if c.failed != nil {
			return nil
		}
		if hasPeriod(list, usual) {
			return usual
		}
		// The first layer that sees everything is the only one that can end a period.
		if n := int64(slices.Index(list, false)) + 1; n >= 2 && hasPeriod(list, n) {
			return n
		}
		if !slices.Contains(list, false) {
			return int64(len(list)) + 1
		}
		if c.mlx {
			c.refuse("the layers that see a window only have no order that mlx-lm knows")
		}
		return nil
	}
}

// hasPeriod reports whether each layer whose number, from 1, is a multiple of n
// sees everything, and no other.
func hasPeriod(sliding []bool, n int64) bool {
	for i, s := range sliding {
		if s == (int64(i+1)%n == 0) {
			return false
		}
	}
	return true
}
