package settings

import (
	"slices"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
)

// windowMeanings are about layers whose tokens see a window only.
var windowMeanings = map[string]meaning{
	// For each layer whether it does, by layer_types.
	"windowed": {toGGUF: func(c call) any {
		var list []any
		for _, sliding := range c.layerKinds() {
			list = append(list, sliding)
		}
		if list == nil {
			return nil
		}
		return list
	}},
	// Whether any layer of a gemma3 does.
	"slides": {toGGUF: func(c call) any { return c.period(gemmaUsual) != 1 }},
	// The period of layers with full attention, if that is not llama.cpp's default.
	"gemma_period": {toGGUF: func(c call) any {
		if n := c.period(gemmaUsual); n != gemmaUsual {
			return n
		}
		return nil
	}},
	// No layer of the class sees a window only.
	"unwindowed": {fromGGUF: check(func(c call) {
		if n := c.count("sliding_window"); n > 0 {
			c.refuse("%s is %d, which config.json of %s cannot say", c.full("sliding_window"), n, c.modelType())
		}
	})},
	// The order of layers is llama.cpp's: one that sees a window, then one that sees everything.
	"alternate": {toGGUF: check(func(c call) {
		if sliding := c.layerKinds(); sliding != nil && !slices.Equal(sliding, architectures.Windows(len(sliding), 2, false)) {
			c.refuse("layer_types does not alternate between sliding_attention and full_attention, as llama.cpp does")
		}
	})},
	// How far the tokens of each layer see.
	"layer_types": {fromGGUF: func(c call) any {
		types := make([]string, 0, c.count("n_layers"))
		for _, s := range c.slidingLayers() {
			types = append(types, map[bool]string{true: architectures.WindowLayer, false: architectures.FullLayer}[s])
		}
		return types
	}},
	// The period of layers with full attention: the usual number if it is equivalent, else
	// the smallest. mlx-lm knows no other order.
	"window_pattern": {fromGGUF: func(c call) any {
		n := periodOf(c.slidingLayers(), c.number(0))
		if n > 1 && c.failed == nil {
			return n
		}
		if c.given.MLX {
			c.refuse("the layers that see a window only have no order that mlx-lm knows")
		}
		return nil
	}},
	// A number for each layer, which is 0 for the nth of every so many and 1 for all others:
	// how many they are, n, and the fields of config.json that have such a list.
	"zero_every": {check(func(c call) {
		for _, field := range c.args[2:] {
			list := c.cfg.Numbers(field.Name)
			for i, v := range list {
				if (v == 0) != isZero(i, c.number(0), c.number(1)) || int64(len(list)) != c.count("n_layers") {
					c.refuse("%s is not 0 for one layer of every %d, as llama.cpp has it", field.Name, c.number(0))
					return
				}
			}
		}
	}), func(c call) any {
		list := make([]int64, c.count("n_layers"))
		for i := range list {
			if !isZero(i, c.number(0), c.number(1)) {
				list[i] = 1
			}
		}
		return list
	}},
}

// isZero reports whether a layer is the nth of every so many.
func isZero(layer int, many, nth int64) bool { return (int64(layer+1)-nth)%many == 0 }

// formerLayers are older words for kinds of layers, which transformers takes for newer ones.
var formerLayers = map[string]string{"deepseek_sparse_attention": "indexed_attention", "qwen_sparse_attention": "indexed_attention"}

// gemmaUsual is after how many layers of gemma3 one sees everything, if the file
// does not say it.
const gemmaUsual = 6

// layerKinds returns for each layer of a config.json whether its tokens see a window only,
// nil if unknown.
func (s *Model) layerKinds() []bool {
	kinds := s.cfg.Words("layer_types")
	if kinds == nil {
		return nil
	}
	if int64(len(kinds)) != s.count("n_layers") {
		s.refuse("layer_types has %d entries for %d layers", len(kinds), s.count("n_layers"))
		return nil
	}
	sliding := make([]bool, len(kinds))
	for i, k := range kinds {
		var known bool
		if sliding[i], known = architectures.IsWindow(k); !known {
			s.refuse("layer_types has %s, which GGUF files of %s do not know", Shown(k), s.arch.GGUF)
			return nil
		}
	}
	return sliding
}

// periodOf returns the period of layers with full attention: the usual number if it is
// equivalent, and 0 if they are not periodic.
func periodOf(sliding []bool, usual int64) int64 {
	if slices.Equal(sliding, architectures.Windows(len(sliding), usual, false)) {
		return usual
	}
	return architectures.WindowPeriod(sliding, false)
}

// period returns after how many layers of a config.json one sees everything. It is 1
// where all do.
func (s *Model) period(usual int64) int64 {
	sliding := s.layerKinds()
	if sliding == nil {
		n, ok := s.cfg.Integer("sliding_window_pattern", "_sliding_window_pattern")
		if ok && n < 1 {
			s.refuse("sliding_window_pattern is %d", n)
		}
		if !ok || n < 1 || min(n, usual) > s.count("n_layers") {
			return usual
		}
		return n
	}
	n := periodOf(sliding, usual)
	if n == 0 {
		s.refuse("layer_types has no period, and llama.cpp knows no other order")
		return usual
	}
	return n
}

// slidingLayers is sliding for the arguments of a call: the usual number, and a fact without which, or with 0, no
// layer has a window.
func (c call) slidingLayers() []bool {
	if len(c.args) > 1 && c.number(1) == 0 {
		return make([]bool, c.count("n_layers"))
	}
	return c.sliding(c.number(0))
}

// sliding returns for each layer of a GGUF file whether its tokens see a window only.
// The file has a number, after so many layers one sees everything, or a list; usual is
// llama.cpp's number without the key.
func (s *Model) sliding(usual int64) []bool {
	list := make([]bool, s.count("n_layers"))
	v, key := s.keyOf("window_period")
	if a, ok := v.(tensorfs.Array); ok {
		if blocks := s.known["blocks"].(int64); int64(a.Len()) != blocks {
			s.refuse("%s has %d values, and there are %d layers", key, a.Len(), blocks)
			return list
		}
		i := 0
		for v := range a.Values() {
			set, ok := v.(bool)
			if n, number := wholeNumber(v); number && (n == 0 || n == 1) {
				set, ok = n == 1, true
			}
			if !ok {
				s.refuse("%s has the value %s, neither true nor false", key, Shown(v))
				return list
			}
			if i < len(list) {
				list[i] = set
			}
			i++
		}
		return list
	}
	if s.has("window_period") {
		usual = s.count("window_period")
	}
	return architectures.Windows(len(list), usual, false)
}
