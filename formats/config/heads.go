package config

import (
	"strings"

	"github.com/tensorfs/tensorfs/formats/architectures"
)

func kvHeads(m *model) (any, bool) {
	if v, ok := m.find(nil, keys("multi_query")); ok && v == true {
		return int64(1), true
	}
	n, ok := m.count("n_heads")
	return n, ok
}

// headsOf is for layers that see a window only and have heads of their own, as Step 3.5's.
func headsOf(m *model) (any, bool) {
	if v, ok := stateSpaceOnly(m); ok || m.scopes == nil {
		return v, ok
	}
	return m.global("attention_other_setting.num_attention_heads", "num_attention_heads")
}

// stateSpaceHeads is the number of heads of Mamba 2.
func stateSpaceHeads(m *model) (any, bool) {
	if m.scopes == nil || !strings.HasPrefix(m.arch, "mamba") {
		return nil, false
	}
	n, ok := Count(m.get, "num_heads")
	return n, ok
}

// headOfEach returns a size of heads for each layer if layers with a window have another
// size than layers with full attention.
func headOfEach(m *model) (any, bool) {
	if _, ok := stateSpaceOnly(m); ok {
		return nil, true // head_dim is the state space's
	}
	if m.scopes != nil {
		return m.global("head_dim", "global_head_dim")
	}
	v, said := m.find(keys("attention.key_length_swa"), nil)
	near, isCount := toCount(v)
	v, _ = m.find(keys("attention.key_length"), nil)
	far, both := toCount(v)
	v, _ = m.find(keys("attention.sliding_window_pattern"), nil)
	_, windows, _, ok := toPattern(v, m.begins())
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

// kvHeadsOf gives the heads of k and v where the field of their number does not: one for
// some Falcons, and for models whose layers are of different kinds one number for each.
func kvHeadsOf(m *model) (any, bool) {
	if v, ok := stateSpaceOnly(m); ok {
		return v, true
	}
	if v, ok := oneHead(m); ok {
		return v, true
	}
	if !byLayer[m.arch].heads && m.arch != "gemma4" || m.scopes == nil {
		return nil, false
	}
	if m.arch == "gemma4" {
		return m.global("num_key_value_heads", "num_global_key_value_heads")
	}
	n, ok := Count(m.get, "num_key_value_heads")
	if one, shared := m.compressed("n_kv_heads"); shared {
		n = one
	}
	return m.inLayers(attention, n, ok)
}

// oneHead is for Falcon: with multi_query all heads share one head of k and v, despite
// num_kv_heads, unless the layers are of the newer kind.
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

// compressed returns sizes of heads for architectures that store k and v compressed, as
// GGUF files have them: the sizes of the one vector that all heads share.
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
