package config

import "github.com/tensorfs/tensorfs/formats/architectures"

func kvHeads(m *model) (any, bool) {
	if v, ok := m.firstValue(nil, keys("multi_query")); ok && v == true {
		return int64(1), true
	}
	n, ok := m.count("n_heads")
	return n, ok
}

// headOfEach returns a size of heads for each layer if layers with a window have another size than
// layers without.
func headOfEach(m *model) (any, bool) {
	if m.headless() {
		return nil, true // head_dim is the state space's
	}
	if m.scopes != nil {
		return m.global("head_dim", "global_head_dim")
	}
	v, said := m.firstValue(architectures.FactOf("swa_head_dim").Keys, nil)
	near, isCount := toCount(v)
	v, _ = m.firstValue(architectures.FactOf("head_dim").Keys[:1], nil)
	far, both := toCount(v)
	v, _ = m.firstValue(architectures.FactOf("window_period").Keys, nil)
	_, windows, _, ok := toPattern(v, m.fullFirst())
	if !said || !isCount || !both || !ok || windows == nil {
		return nil, false
	}
	list := make([]int64, len(windows))
	for i, window := range windows {
		if list[i] = far; window {
			list[i] = near
		}
	}
	return list, true
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

// isMLA reports whether a model has compressed attention; only then do heads have
// a part without rotation and a different size for values.
func isMLA(m *model) bool { return m.positive("kv_lora_rank") }

func nopeDim(m *model) (any, bool) {
	v, ok := m.firstValue(keys("attention.key_length_mla attention.key_length"), nil)
	if !ok {
		return nil, false
	}
	k, okK := toCount(v)
	r, okR := m.count("rope_dim")
	return inRange(k-r, okK && okR)
}

// valueDim returns the size of a head of v. In a GGUF file without this key it follows from the
// matrix that computes k and v from a compressed vector.
func valueDim(m *model) (any, bool) {
	s := m.shape("layers.0.attention.kv_b.weight")
	v, _ := m.firstValue(architectures.FactOf("rope_dim").Keys, nil)
	turned, ok := toCount(v)
	heads, some := m.count("n_heads")
	head, both := m.count("head_dim")
	if len(s) == 2 && m.scopes == nil && ok && some && both && heads > 0 && s[0]%heads == 0 {
		return inRange(s[0]/heads-head+turned, true)
	}
	return m.value("head_dim")
}

// compressedValueDim returns that size for a model with compressed attention.
func compressedValueDim(m *model) (any, bool) {
	if m.scopes != nil || m.shape("layers.0.attention.kv_b.weight") == nil {
		return nil, false
	}
	return m.value("v_head_dim")
}
