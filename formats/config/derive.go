package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tensorfs/tensorfs"
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
		v, _ := m.find(keys(key), nil)
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

// stateSpaceOnly is for models without attention, whose config.json has the heads of the
// state space and the width of it under the names that others have for attention.
func stateSpaceOnly(m *model) (any, bool) {
	return int64(0), m.scopes != nil && strings.HasPrefix(m.arch, "mamba")
}

// listed gives a number that a field has in a list, at a place.
func listed(hf string, place int) func(*model) (any, bool) {
	return func(m *model) (any, bool) {
		v, _ := m.find(nil, keys(hf))
		list, ok := v.(tensorfs.Array)
		if !ok || m.scopes == nil || list.Len() <= place {
			return nil, false
		}
		i := 0
		for e := range list.Values() {
			if i == place {
				x, ok := toReal(e)
				return x, ok
			}
			i++
		}
		return nil, false
	}
}

// denseLayers counts the layers before the first layer of experts, if config.json has a
// list of numbers, or a text of numbers, that marks the layers of experts.
func denseLayers(m *model) (any, bool) {
	v, _ := m.find(nil, keys("moe_layer_freq"))
	if list, ok := v.(tensorfs.Array); ok && m.scopes != nil {
		n := int64(0)
		for e := range list.Values() {
			if has, ok := toCount(e); !ok || has != 0 {
				return n, true
			}
			n++
		}
	}
	v, _ = m.find(nil, keys("moe_layers_enum"))
	if text, ok := v.(string); ok && m.scopes != nil {
		first, _, _ := strings.Cut(text, ",")
		if n, err := strconv.ParseUint(strings.TrimSpace(first), 10, 31); err == nil {
			return int64(n), true
		}
	}
	return int64(0), true
}

// ffnOf gives the width of feed-forward networks where the field of it does not.
func ffnOf(m *model) (any, bool) {
	if v, ok := stateSpaceOnly(m); ok {
		return v, true
	}
	n, ok := int64(0), m.scopes != nil
	if ok {
		n, ok = Count(m.get, "intermediate_size")
	}
	adjusted, _ := m.find(nil, keys("block_auto_adjust_ff_dim"))
	double, _ := m.find(nil, keys("use_double_wide_mlp"))
	switch {
	case !ok:
		return nil, false
	case double == true:
		return m.doubled(n)
	case m.arch == "nemotron_h_moe":
		n, ok = Count(m.get, "moe_intermediate_size")
		return m.inLayers(experts, n, ok)
	case byLayer[m.arch].ffn:
		return m.inLayers(mlp, n, true)
	case adjusted == true:
		return m.adjusted(n)
	}
	return nil, false
}

// doubled returns the widths of Gemma 4. Layers that take k and v from other layers may be
// twice as wide.
func (m *model) doubled(n int64) (any, bool) {
	layers, _ := m.count("n_layers")
	shared, _ := Count(m.get, "num_kv_shared_layers")
	if layers < 1 || layers > maxLayers || shared > layers || n > math.MaxInt64/2 {
		return nil, false
	}
	list := make([]int64, layers)
	for i := range list {
		if list[i] = n; int64(i) >= layers-shared {
			list[i] = 2 * n
		}
	}
	return list, true
}

// adjusted is the width that LFM2 computes of the one in its config.json: two thirds of it,
// times a factor, and then a multiple of a number.
func (m *model) adjusted(n int64) (any, bool) {
	n = 2 * n / 3
	if v, said := m.find(nil, keys("block_ffn_dim_multiplier")); said {
		x, ok := toReal(v)
		if !ok || x*float64(n) > maxCount {
			return nil, false
		}
		n = int64(x * float64(n))
	}
	of, ok := Count(m.get, "block_multiple_of")
	if !ok || of == 0 {
		return n, true
	}
	return inRange((n+of-1)/of*of, true)
}

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
	if _, said := m.find(nil, keys("per_layer_config")); said {
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
	v, _ := m.find(nil, keys("layer_types"))
	_, list, _, _ := toPattern(v, m.begins())
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

// noExperts is for Nemotron-H without layers of experts, for which transformers 5 writes a
// number of experts all the same.
func noExperts(m *model) (any, bool) {
	if m.scopes == nil || m.arch != "nemotron_h" {
		return nil, false
	}
	return int64(0), !slices.Contains(m.kinds(), experts)
}

// ffnWithoutExperts is the width that experts would have in a model without them.
func ffnWithoutExperts(m *model) (any, bool) {
	n, _ := m.count("ffn_dim")
	_, none := noExperts(m)
	return n, none
}

// scalingTensors is how rotary embeddings are scaled in a GGUF file that has it in a tensor.
func scalingTensors(m *model) (any, bool) {
	switch {
	case m.scopes != nil:
	case m.shape("rope_factors_long.weight") != nil:
		return "longrope", true
	case m.shape("rope_freqs.weight") != nil && m.arch != "gemma4":
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
	if v, ok := m.find(keys("tokenizer.ggml.tokens"), nil); ok {
		if n, _, ok := elements(v); ok {
			return inRange(int64(n), true)
		}
	}
	return nil, false
}

func ropeDim(m *model) (any, bool) {
	d, ok := m.count("head_dim")
	share := 1.0
	if v, present := m.find(nil, keys("partial_rotary_factor rope_pct rotary_pct")); present && ok {
		share, ok = toReal(v)
	}
	return int64(float64(d) * min(share, 1)), ok && share <= 1
}

// usualPattern is the pattern of architectures whose files do not state it.
func usualPattern(m *model) (any, bool) {
	if !m.positive("sliding_window") {
		return int64(0), true
	}
	return map[string]int64{"gemma3": 6, "gemma-embedding": 6, "gemma2": 2, "cohere2": 4, "gpt-oss": 2, "afmoe": 4}[m.arch], true
}

func tied(m *model) (any, bool) {
	return m.shape("output.weight") == nil, m.shape("token_embedding.weight") != nil
}

// ssmInner: in Mamba's config.json, intermediate_size is not an FFN but the state
// space; others give a factor.
func ssmInner(m *model) (any, bool) {
	if strings.HasPrefix(m.arch, "mamba") {
		if v, ok := m.find(nil, keys("intermediate_size")); ok {
			n, ok := toCount(v)
			return n, ok
		}
	}
	v, present := m.find(nil, keys("expand mamba_expand"))
	if !present {
		if m.scopes == nil {
			return nil, false
		}
		n, ok := Count(m.get, "linear_num_value_heads", "linear_value_head_dim")
		return n, ok
	}
	f, okF := toReal(v)
	d, okD := m.count("dim")
	if !okF || !okD || f*float64(d) > maxCount {
		return nil, false
	}
	return int64(f * float64(d)), true
}

// hasEncoder keeps the d_model of a plain decoder from looking like an encoder's.
func hasEncoder(m *model) bool { return m.positive("enc_n_layers") }
