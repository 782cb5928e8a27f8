package memory

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/formats/config"
)

// Tensor is one of a file: its name in GGUF, and where in the file its bytes are.
type Tensor struct {
	Name          string
	DType         tensorfs.DType
	Shape         []int64 // row-major
	Offset, Bytes int64
}

// Header is the part of a GGUF file before its tensors.
type Header struct {
	Architecture string
	Value        func(key string) any // nil if the key is missing
	Tensors      []Tensor
}

// fileAlignment is what tensors of files that tensorfs makes are padded to.
const fileAlignment = 32

// WithTypes returns the header of a file that tensorfs makes with other types, by the names of tensors.
func (h *Header) WithTypes(types map[string]tensorfs.DType) *Header {
	of := *h
	of.Tensors = slices.Clone(h.Tensors)
	offset := int64(0)
	for i := range of.Tensors {
		x := &of.Tensors[i]
		if to, ok := types[x.Name]; ok && to != x.DType {
			x.DType = to
			x.Bytes, _ = to.Size(x.Shape)
		}
		x.Offset = offset
		offset += (x.Bytes + fileAlignment - 1) / fileAlignment * fileAlignment
	}
	return &of
}

// Bounds of llama.cpp, beyond which it opens no model. They bound all loops here, too.
const (
	maxLayers    = 512
	maxSequences = 256
	maxCount     = 1<<31 - 1 // of tokens, heads, elements of a row
)

// model has the dimensions of a header, each between 0 and maxCount.
type model struct {
	architecture
	header  *Header
	tensors map[string]bool // by their names
	err     error           // the first key that makes no sense

	layers, blocks                      int // all, and the ones that the main context computes
	width, vocabulary, context          int64
	heads, pairs, feedForward           []int64 // by layer; pairs of K and V
	key, value, keyWindow, valueWindow  int64   // elements of a head
	windows, states, indexed, keyed     []bool  // by layer: whether it has a window, a state, an index, a matrix of keys
	window                              int64
	cached                              int // layers that may have a cache
	mla, causal                         bool
	indexer                             int64
	experts, used, expertForward, dense int64
	inner, state, groups, conv, rank    int64 // of ssm
	short, kda, shift, wkv              int64 // kernels and heads of other states
	rankQ, rankKV, rotated              int64 // of low-rank attention, and its heads
	keyMLA, valueMLA                    int64
	shared, sharedForward               int64
	expertGroups, groupsUsed            int64
}

// fail keeps the first error about a key.
func (m *model) fail(key, format string, args ...any) {
	if m.err == nil {
		m.err = fmt.Errorf("the key %s %s", tensorfs.Quote(key), fmt.Sprintf(format, args...))
	}
}

// find returns the value of a fact of keys.txt, nil if the header does not have it, and the key. Keys that
// llama.cpp does not read count as missing. The name of a key that no fact has is taken as it is.
func (m *model) find(name string) (v any, key string) {
	keys := []string{name}
	if f := architectures.FactOf(name); f != nil {
		keys = slices.DeleteFunc(slices.Clone(f.Keys), func(key string) bool { return slices.Contains(f.Unread, key) })
	}
	for _, key := range keys {
		key = m.header.Architecture + "." + key
		if v := m.header.Value(key); v != nil {
			return v, key
		}
	}
	return nil, m.header.Architecture + "." + keys[0]
}

// integer returns a value of metadata as a count.
func integer(v any) (n int64, ok bool) {
	switch v := v.(type) {
	case bool:
		if v {
			n = 1
		}
	case uint8:
		n = int64(v)
	case int8:
		n = int64(v)
	case uint16:
		n = int64(v)
	case int16:
		n = int64(v)
	case uint32:
		n = int64(v)
	case int32:
		n = int64(v)
	case uint64:
		n = int64(min(v, maxCount+1))
	case int64:
		n = v
	default:
		return 0, false
	}
	return n, n >= 0 && n <= maxCount
}

// said returns a number of the header, and whether it is there. Of a list it returns the largest.
func (m *model) said(name string) (n int64, ok bool) {
	v, key := m.find(name)
	switch v := v.(type) {
	case nil:
		return 0, false
	case tensorfs.Array:
		for _, each := range m.list(key, v) {
			n = max(n, each)
		}
		return n, true
	default:
		if n, ok = integer(v); !ok {
			m.fail(key, "is %s, which llama.cpp does not take as a count", formatValue(v))
		}
		return n, ok
	}
}

// formatValue formats a value for a message.
func formatValue(v any) string {
	if s, ok := v.(string); ok {
		return tensorfs.Quote(s)
	}
	return fmt.Sprint(v)
}

// number returns a number of the header, or the default if it is missing.
func (m *model) number(name string, otherwise int64) int64 {
	if n, ok := m.said(name); ok {
		return n
	}
	return otherwise
}

// list returns the numbers of an array, which has one for each layer. Layers that predict
// further tokens may be left out: they have no windows.
func (m *model) list(key string, a tensorfs.Array) []int64 {
	if a.Len() != m.layers && a.Len() != m.blocks {
		m.fail(key, "has %d values, and the model %d layers", a.Len(), m.layers)
		return make([]int64, m.layers)
	}
	all := make([]int64, 0, m.layers)
	for v := range a.Values() {
		n, ok := integer(v)
		if !ok {
			m.fail(key, "has the value %s, which llama.cpp does not take as a count", formatValue(v))
		}
		all = append(all, n)
	}
	if len(all) != a.Len() { // the file changed
		m.fail(key, "cannot be read")
		return make([]int64, m.layers)
	}
	return append(all, make([]int64, m.layers-len(all))...)
}

// byLayer returns a number for each layer: the header may say one for all.
func (m *model) byLayer(name string, otherwise []int64) []int64 {
	v, key := m.find(name)
	if a, ok := v.(tensorfs.Array); ok {
		return m.list(key, a)
	}
	n, ok := m.said(name)
	if !ok && otherwise != nil {
		return otherwise
	}
	return slices.Repeat([]int64{n}, m.layers)
}

// modelOf reads the keys of a header. Without block_count nothing is known but the weights:
// layers is 0 then.
func modelOf(h *Header) (*model, error) {
	m := &model{header: h, architecture: architectureOf(h.Architecture), causal: true}
	m.tensors = make(map[string]bool, len(h.Tensors))
	for i := range h.Tensors {
		m.tensors[h.Tensors[i].Name] = true
	}
	layers := m.number("n_layers", 0)
	if layers > maxLayers {
		_, key := m.find("n_layers")
		m.fail(key, "is %d, and llama.cpp takes at most %d layers", layers, maxLayers)
		layers = 0
	}
	m.layers, m.blocks = int(layers), int(layers)
	if !m.mtpCached {
		m.blocks -= int(min(m.number("n_nextn_layers", 0), layers))
	}
	m.width, m.context = m.number("dim", 0), m.number("max_seq_len", 0)
	m.vocabulary = m.number("vocab_size", 0)
	if tokens, ok := h.Value("tokenizer.ggml.tokens").(tensorfs.Array); ok {
		m.vocabulary = int64(tokens.Len())
	}
	if causal, ok := m.fact("causal", 0).(bool); ok {
		m.causal = causal
	}
	m.heads = m.byLayer("n_heads", nil)
	m.pairs = m.byLayer("n_kv_heads", m.heads)
	m.feedForward = m.byLayer("ffn_dim", nil)
	each := int64(0)
	if most := largest(m.heads); most > 0 {
		each = m.width / most
	}
	m.key, m.value = m.number("head_dim", each), m.number("value_dim", each)
	m.keyWindow, m.valueWindow = m.number("swa_head_dim", m.key), m.number("swa_value_dim", m.value)
	m.indexer = m.number("indexer_dim", 0)
	var k, v bool
	m.keyMLA, k = m.said("mla_head_dim")
	m.valueMLA, v = m.said("mla_v_head_dim")
	m.mla = k && v
	m.rankQ, m.rankKV, m.rotated = m.number("q_lora_rank", 0), m.number("kv_lora_rank", 0), m.number("rope_dim", 0)
	m.shared, m.sharedForward = m.number("n_experts_shared", 0), m.number("shared_expert_ffn_dim", 0)
	m.expertGroups, m.groupsUsed = m.number("expert_groups", 0), m.number("expert_groups_used", 0)
	m.readLayers()
	m.experts, m.used = m.number("n_experts", 0), m.number("n_experts_used", 0)
	m.expertForward = m.number("expert_ffn_dim", largest(m.feedForward))
	m.dense = m.number("n_dense_layers", 0)
	m.inner, m.state, m.groups = m.number("ssm_inner", 0), m.number("ssm_state", 0), m.number("ssm_groups", 0)
	m.conv, m.rank = m.number("ssm_conv_kernel", 1), m.number("ssm_dt_rank", 0)
	m.short, m.kda = m.number("conv_cache", 0), m.number("kda_head_dim", 0)
	m.shift, m.wkv = m.number("token_shift_count", 2), m.number("wkv.head_size", 0)
	return m, m.err
}

// fact returns what expressions call by a name: the presence of a tensor, in that layer or the model, or
// a fact of keys.txt that is one value.
func (m *model) fact(name string, layer int) any {
	if name == "architecture" {
		return m.header.Architecture
	}
	if tensor, ok := strings.CutPrefix(name, "has."); ok {
		return m.tensors[tensor] || m.tensors[fmt.Sprintf("blk.%d.%s", layer, tensor)]
	}
	if architectures.FactOf(name) == nil {
		panic("memory: what is " + name + "?")
	}
	switch v, _ := m.find(name); v := v.(type) {
	case bool, float32, float64:
		return v
	default:
		if n, ok := integer(v); ok {
			return n
		}
	}
	return nil
}

// stateTensors begin the names of the tensors that only layers with a state have, and indexTensors the names
// in layers with an index of their keys.
var stateTensors, indexTensors = []string{"ssm_", "shortconv.", "time_mix_"}, []string{"indexer."}

// readLayers finds which layers have windows, states and caches.
func (m *model) readLayers() {
	m.cached = m.blocks - int(min(m.number("shared_kv_layers", 0), int64(m.blocks)))
	m.states, m.indexed, m.keyed = make([]bool, m.layers), make([]bool, m.layers), make([]bool, m.layers)
	for i := range m.header.Tensors {
		name := m.header.Tensors[i].Name
		layer := layerOf(name)
		if layer < 0 || layer >= m.layers {
			continue
		}
		_, name, _ = strings.Cut(strings.TrimPrefix(name, "blk."), ".")
		begins := func(with string) bool { return strings.HasPrefix(name, with) }
		m.states[layer] = m.states[layer] || slices.ContainsFunc(stateTensors, begins)
		m.indexed[layer] = m.indexed[layer] || slices.ContainsFunc(indexTensors, begins)
		m.keyed[layer] = m.keyed[layer] || name == "attn_k.weight"
	}
	if m.window = m.number("sliding_window", 0); m.window == 0 {
		m.window = m.architecture.window
	}
	m.windows = make([]bool, m.layers)
	if m.window == 0 {
		return
	}
	said, _ := m.described("sliding_window_pattern_per_layer").([]bool)
	for i := range m.windows {
		switch {
		case said != nil: // layers that predict further tokens have none
			m.windows[i] = i < len(said) && said[i]
		case m.architecture.windows != nil:
			m.windows[i] = m.architecture.windows.Holds(m.layerFacts(i))
		}
	}
}

// described returns a field of the model as config.json of a tree has it, by the architecture's description.
func (m *model) described(field string) any {
	get := func(key string) (any, bool) {
		v := m.header.Value(key)
		if key == "general.architecture" {
			v = m.header.Architecture
		}
		return v, v != nil
	}
	for _, f := range config.FromGGUF(get, nil, 0) {
		if f.Name == field {
			return f.Value
		}
	}
	return nil
}

// layerFacts are the facts of conditions of a layer.
func (m *model) layerFacts(layer int) architectures.Facts {
	return func(name string) any {
		if name == "layer" {
			return int64(layer)
		}
		return m.fact(name, layer)
	}
}

// hasState reports whether a layer has a state.
func (m *model) hasState(layer int) bool { return layer < m.blocks && m.states[layer] }

// isCached reports whether a layer has keys and values in the cache. One with a state has them if it also has
// a matrix of keys.
func (m *model) isCached(layer int) bool {
	return !m.noCache && layer < m.cached && m.pairs[layer] > 0 && (!m.states[layer] || m.keyed[layer]) &&
		(m.architecture.cached == nil || m.architecture.cached.Holds(m.layerFacts(layer)))
}

// hasWindow reports whether a layer sees only so many tokens.
func (m *model) hasWindow(layer int) bool {
	return m.window > 0 && layer < m.blocks && m.windows[layer]
}

// any reports whether one of the layers is so.
func (m *model) any(is func(layer int) bool) bool {
	for i := range m.layers {
		if is(i) {
			return true
		}
	}
	return false
}

// largest returns the largest of numbers that are not negative, 0 of none.
func largest(all []int64) (most int64) {
	for _, n := range all {
		most = max(most, n)
	}
	return most
}

// tensor finds a tensor by its name.
func (h *Header) tensor(name string) *Tensor {
	i := slices.IndexFunc(h.Tensors, func(t Tensor) bool { return t.Name == name })
	if i < 0 {
		return nil
	}
	return &h.Tensors[i]
}

// layerOf returns the layer of a tensor by its name, blk.N.*, and -1 for none.
func layerOf(name string) int {
	rest, ok := strings.CutPrefix(name, "blk.")
	if !ok {
		return -1
	}
	n := 0
	for i := 0; i < len(rest) && n < maxLayers; i++ {
		if rest[i] == '.' && i > 0 {
			return n
		}
		if rest[i] < '0' || rest[i] > '9' {
			return -1
		}
		n = 10*n + int(rest[i]-'0')
	}
	return -1
}
