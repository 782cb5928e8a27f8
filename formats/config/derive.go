package config

import (
	"fmt"
	"slices"

	"github.com/tensorfs/tensorfs/formats/architectures"
)

// maxCount bounds every count: fields in the files have 32 bits.
const maxCount = 1<<32 - 1

func inRange(n int64, ok bool) (any, bool) { return n, ok && n >= 0 && n <= maxCount }

func always(v any) func(*model) (any, bool) {
	return func(*model) (any, bool) { return v, true }
}

func same(name string) func(*model) (any, bool) {
	return func(m *model) (any, bool) { return m.value(name) }
}

func quotient(a, b string) func(*model) (any, bool) {
	return func(m *model) (any, bool) {
		x, okX := m.count(a)
		y, okY := m.count(b)
		if !okX || !okY || y == 0 {
			return nil, false
		}
		return x / y, true
	}
}

func product(a, b string) func(*model) (any, bool) {
	return func(m *model) (any, bool) {
		x, okX := m.count(a)
		y, okY := m.count(b)
		return multiply(x, y, okX && okY)
	}
}

// multiply is exact: both factors are counts, so the product has 64 bits.
func multiply(x, y int64, ok bool) (any, bool) {
	if !ok || x != 0 && y > maxCount/x {
		return nil, false
	}
	return x * y, true
}

func architecture(m *model) (any, bool) { return m.arch, true }

// columns derives a count from the last dimension of a tensor.
func columns(tensor string) func(*model) (any, bool) {
	return func(m *model) (any, bool) {
		s := m.shape(tensor)
		if len(s) < 2 {
			return nil, false
		}
		return inRange(s[len(s)-1], true)
	}
}

// inner derives a count from a matrix between the hidden state and that many numbers. Its
// last dimension is the count, unless the matrix is stored as [in, out], as GPT-2's are.
func inner(tensor string) func(*model) (any, bool) {
	return func(m *model) (any, bool) {
		s := m.shape(tensor)
		if dim, ok := m.count("dim"); ok && len(s) == 2 && s[1] == dim {
			return inRange(s[0], true)
		}
		return columns(tensor)(m)
	}
}

func layerCount(m *model) (any, bool) { return inRange(int64(m.layers), m.layers > 0) }

// layersProper is the number of layers without the ones that only predict further tokens,
// which GGUF files include in their count.
func layersProper(m *model) (any, bool) {
	count := func(key string) int64 {
		if m.scopes != nil {
			return 0
		}
		v, _ := m.firstValue(keys(key), nil)
		n, _ := toCount(v)
		return n
	}
	all, next := count("block_count"), count("nextn_predict_layers")
	return all - next, next > 0 && next < all
}

// maxNext bounds how many layers that predict further tokens are looked for.
const maxNext = 16

// nextLayers counts the layers that only predict further tokens by their tensors.
func nextLayers(m *model) (any, bool) {
	n := int64(0)
	for n < maxNext && m.shape(fmt.Sprintf("mtp.layers.%d.attention_norm.weight", n)) != nil {
		n++
	}
	return n, true
}

// headless reports whether a model has no attention. Its config.json has the heads of the state
// space, and their width, under the names that other models have for attention.
func (m *model) headless() bool { return m.block != nil && m.block.Word("heads") == "none" }

// global returns a number for each layer if layers with full attention have another one: in
// a field of its own, or in the configs that transformers 5 writes for single layers.
func (m *model) global(field, far string) (any, bool) {
	n, ok := Count(m.get, field)
	layers, _ := m.count("n_layers")
	if !ok || layers < 1 || layers > maxLayers {
		return nil, false
	}
	list := make([]int64, layers)
	for i := range list {
		list[i] = n
	}
	if _, said := m.firstValue(nil, keys("per_layer_config")); said {
		for i := range list {
			if own, ok := Count(m.get, fmt.Sprintf("per_layer_config.%d.%s", i, field)); ok {
				list[i] = own
			}
		}
		return list, slices.Min(list) != slices.Max(list)
	}
	own, said := Count(m.get, far)
	windows := m.windows()
	if !said || len(windows) < len(list) { // the list may include layers that predict further tokens
		return nil, false
	}
	for i, window := range windows[:len(list)] {
		if !window {
			list[i] = own
		}
	}
	return list, slices.Min(list) != slices.Max(list)
}

// windows reports for each layer whether its tokens attend only to a window, by
// layer_types; nil if that field does not determine it.
func (m *model) windows() []bool {
	v, _ := m.firstValue(nil, keys("layer_types"))
	_, list, _, _ := toPattern(v, m.fullFirst())
	return list
}

// unusedWindow is for a config.json whose layers all see everything, whatever window it has.
func unusedWindow(m *model) (any, bool) {
	if m.scopes == nil {
		return nil, false
	}
	windows := m.windows()
	return int64(0), windows != nil && !slices.Contains(windows, true)
}

// scalingTensors is how rotary embeddings are scaled in a GGUF file that has it in a tensor.
func scalingTensors(m *model) (any, bool) {
	switch {
	case m.scopes != nil:
	case m.shape("rope_factors_long.weight") != nil:
		return "longrope", true
	case m.shape("rope_freqs.weight") != nil && !architectures.HasTrait(m.arch, architectures.Proportional):
		return "llama3", true
	}
	return nil, false
}

// unlessScaledByTensors is a default where the numbers of a scaling are not in a tensor.
func unlessScaledByTensors(v any) func(*model) (any, bool) {
	return func(m *model) (any, bool) {
		t, _ := m.value("rope_scaling_type")
		return v, t != "llama3"
	}
}

func vocabulary(m *model) (any, bool) {
	if s := m.shape("token_embedding.weight"); len(s) == 2 {
		return inRange(s[0], true)
	}
	if v, ok := m.firstValue(keys("tokenizer.ggml.tokens"), nil); ok {
		if n, _, ok := elements(v); ok {
			return inRange(int64(n), true)
		}
	}
	return nil, false
}

func ropeDim(m *model) (any, bool) {
	d, ok := m.count("head_dim")
	share := 1.0
	if v, present := m.firstValue(nil, keys("partial_rotary_factor rope_pct rotary_pct")); present && ok {
		share, ok = toReal(v)
	}
	return int64(float64(d) * min(share, 1)), ok && share <= 1
}

func tied(m *model) (any, bool) {
	return m.shape("output.weight") == nil, m.shape("token_embedding.weight") != nil
}

// hasEncoder keeps the d_model of a plain decoder from looking like an encoder's.
func hasEncoder(m *model) bool { return m.positive("enc_n_layers") }

// usualPattern returns the pattern of an architecture whose files do not state it: the constant
// that the description has for config.json.
func usualPattern(m *model) (any, bool) {
	if m.block != nil && m.positive("sliding_window") {
		for _, s := range m.block.Config {
			if s.Always && (s.Name == "sliding_window_pattern" || s.Name == "layer_types") && m.holds(s.When) {
				if p, list, skip, ok := toPattern(m.eval(s.Value), m.fullFirst()); ok && !skip && (list == nil || p != any(nil)) {
					return p, true
				}
			}
		}
	}
	return int64(0), true
}
