package config

import (
	"strings"

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

func kvHeads(m *model) (any, bool) {
	if v, ok := m.find(nil, keys("multi_query")); ok && v == true {
		return int64(1), true
	}
	n, ok := m.count("n_heads")
	return n, ok
}

// oneHead is for Falcon: with multi_query all heads share one of k and v, whatever
// num_kv_heads says, unless the layers are of the newer kind.
func oneHead(m *model) (any, bool) {
	shared, _ := m.find(nil, keys("multi_query"))
	newer, _ := m.find(nil, keys("new_decoder_architecture"))
	return int64(1), m.arch == "falcon" && shared == true && newer != true
}

// rows derives heads * head_dim. A tensor of the first layer with a different
// number of rows (a gate in the same matrix, compressed attention) disproves it.
func rows(heads, tensor string) func(*model) (any, bool) {
	return func(m *model) (any, bool) {
		n, okN := m.count(heads)
		d, okD := m.count("head_dim")
		first := n
		if list, ok := m.value(heads + perLayer); ok {
			first = list.([]int64)[0]
		}
		if s := m.shape(tensor); okN && okD && len(s) == 2 {
			if r, ok := multiply(first, d, true); !ok || r != s[0] {
				return nil, false
			}
		}
		return multiply(n, d, okN && okD)
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
	if v, present := m.find(nil, keys("partial_rotary_factor rope_pct rotary_pct rope_parameters.partial_rotary_factor")); present && ok {
		share, ok = toReal(v)
	}
	return int64(float64(d) * min(share, 1)), ok && share <= 1
}

// usualPattern is the pattern of architectures whose files do not state it.
func usualPattern(m *model) (any, bool) {
	if !m.positive("sliding_window") {
		return int64(0), true
	}
	return map[string]int64{"gemma3": 6, "gemma2": 2, "cohere2": 4}[m.arch], true
}

func tied(m *model) (any, bool) {
	return m.shape("output.weight") == nil, m.shape("token_embedding.weight") != nil
}

// compressed returns sizes of heads in a config.json of an architecture whose k and v are
// stored compressed, as GGUF files have them: those of the one vector that all heads
// share.
func (m *model) compressed(name string) (int64, bool) {
	if m.scopes == nil || !architectures.Latent(m.arch) {
		return 0, false
	}
	get := func(key string) (int64, bool) { return Count(m.get, key) }
	rank, ok := get("kv_lora_rank")
	turned, both := get("qk_rope_head_dim")
	switch {
	case !ok || !both:
	case name == "n_kv_heads":
		return 1, true
	case name == "head_dim":
		return rank + turned, rank+turned <= maxCount
	case name == "v_head_dim":
		return rank, true
	}
	return 0, false
}

// isMLA reports whether a model has compressed attention; only then do heads have
// a part without rotation and a different size for values.
func isMLA(m *model) bool { return m.positive("kv_lora_rank") }

func nopeDim(m *model) (any, bool) {
	v, ok := m.find(keys("attention.key_length_mla attention.key_length"), nil)
	if !ok {
		return nil, false
	}
	k, okK := toCount(v)
	r, okR := m.count("rope_dim")
	return inRange(k-r, okK && okR)
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
		return nil, false
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
