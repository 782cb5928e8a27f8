package memory

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
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

// Bounds of llama.cpp, beyond which it opens no model. They bound all loops here, too.
const (
	maxLayers    = 512
	maxSequences = 256
	maxCount     = 1<<31 - 1 // of tokens, heads, elements of a row
)

// model has the dimensions of a header, each between 0 and maxCount.
type model struct {
	*architecture
	header  *Header
	tensors map[string]bool // by their names
	err     error           // the first key that makes no sense

	layers, blocks                      int // all, and the ones that the main context computes
	width, vocabulary, context          int64
	heads, pairs, feedForward           []int64 // by layer; pairs of K and V
	key, value, keyWindow, valueWindow  int64   // elements of a head
	windows, recurrentLayers            []int64 // by layer; nil without a key
	window, interval                    int64
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
		m.err = fmt.Errorf("the key %s %s", tensorfs.Quote(m.header.Architecture+"."+key), fmt.Sprintf(format, args...))
	}
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
func (m *model) said(key string) (n int64, ok bool) {
	switch v := m.header.Value(m.header.Architecture + "." + key).(type) {
	case nil:
		return 0, false
	case tensorfs.Array:
		for _, each := range m.list(key, v) {
			n = max(n, each)
		}
		return n, true
	default:
		if n, ok = integer(v); !ok {
			m.fail(key, "is %s, which is no count that llama.cpp takes", shown(v))
		}
		return n, ok
	}
}

// shown is a value in a message.
func shown(v any) string {
	if s, ok := v.(string); ok {
		return tensorfs.Quote(s)
	}
	return fmt.Sprint(v)
}

// number returns a number of the header, or the default if it is missing.
func (m *model) number(key string, otherwise int64) int64 {
	if n, ok := m.said(key); ok {
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
			m.fail(key, "has the value %s, which is no count that llama.cpp takes", shown(v))
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
func (m *model) byLayer(key string, otherwise []int64) []int64 {
	if a, ok := m.header.Value(m.header.Architecture + "." + key).(tensorfs.Array); ok {
		return m.list(key, a)
	}
	n, ok := m.said(key)
	if !ok && otherwise != nil {
		return otherwise
	}
	return slices.Repeat([]int64{n}, m.layers)
}

// isList returns an array of the header with a number for each layer, nil if it is not one.
func (m *model) isList(key string) []int64 {
	if a, ok := m.header.Value(m.header.Architecture + "." + key).(tensorfs.Array); ok {
		return m.list(key, a)
	}
	return nil
}

// modelOf reads the keys of a header. Without block_count nothing is known but the weights:
// layers is 0 then.
func modelOf(h *Header) (*model, error) {
	m := &model{header: h, architecture: architectures[h.Architecture], causal: true}
	if m.architecture == nil {
		m.architecture = &architecture{form: "usual"}
	}
	m.tensors = make(map[string]bool, len(h.Tensors))
	for i := range h.Tensors {
		m.tensors[h.Tensors[i].Name] = true
	}
	layers := m.number("block_count", 0)
	if layers > maxLayers {
		m.fail("block_count", "is %d, and llama.cpp takes at most %d layers", layers, maxLayers)
		layers = 0
	}
	m.layers, m.blocks = int(layers), int(layers)
	if !m.mtpCached {
		m.blocks -= int(min(m.number("nextn_predict_layers", 0), layers))
	}
	m.width, m.context = m.number("embedding_length", 0), m.number("context_length", 0)
	m.vocabulary = m.number("vocab_size", 0)
	if tokens, ok := h.Value("tokenizer.ggml.tokens").(tensorfs.Array); ok {
		m.vocabulary = int64(tokens.Len())
	}
	if causal, ok := h.Value(h.Architecture + ".attention.causal").(bool); ok {
		m.causal = causal
	}
	m.heads = m.byLayer("attention.head_count", nil)
	m.pairs = m.byLayer("attention.head_count_kv", m.heads)
	m.feedForward = m.byLayer("feed_forward_length", nil)
	each := int64(0)
	if most := largest(m.heads); most > 0 {
		each = m.width / most
	}
	m.key, m.value = m.number("attention.key_length", each), m.number("attention.value_length", each)
	m.keyWindow, m.valueWindow = m.number("attention.key_length_swa", m.key), m.number("attention.value_length_swa", m.value)
	m.indexer = m.number("attention.indexer.key_length", 0)
	var k, v bool
	m.keyMLA, k = m.said("attention.key_length_mla")
	m.valueMLA, v = m.said("attention.value_length_mla")
	m.mla = k && v
	m.rankQ, m.rankKV, m.rotated = m.number("attention.q_lora_rank", 0), m.number("attention.kv_lora_rank", 0), m.number("rope.dimension_count", 0)
	m.shared, m.sharedForward = m.number("expert_shared_count", 0), m.number("expert_shared_feed_forward_length", 0)
	m.expertGroups, m.groupsUsed = m.number("expert_group_count", 0), m.number("expert_group_used_count", 0)
	m.readLayers()
	m.experts, m.used = m.number("expert_count", 0), m.number("expert_used_count", 0)
	m.expertForward = m.number("expert_feed_forward_length", largest(m.feedForward))
	m.dense = m.number("leading_dense_block_count", 0)
	m.inner, m.state, m.groups = m.number("ssm.inner_size", 0), m.number("ssm.state_size", 0), m.number("ssm.group_count", 0)
	m.conv, m.rank = m.number("ssm.conv_kernel", 1), m.number("ssm.time_step_rank", 0)
	m.short, m.kda = m.number("shortconv.l_cache", 0), m.number("kda.head_dim", 0)
	m.shift, m.wkv = m.number("token_shift_count", 2), m.number("wkv.head_size", 0)
	return m, m.err
}

// readLayers finds which layers have windows, states and caches.
func (m *model) readLayers() {
	m.cached = m.blocks - int(min(m.number("attention.shared_kv_layers", 0), int64(m.blocks)))
	if m.architecture.cached > 0 {
		m.cached = min(m.cached, int(m.architecture.cached))
	}
	const pattern = "attention.sliding_window_pattern"
	m.window = m.number("attention.sliding_window", m.architecture.window)
	if m.window == 0 {
		m.window = m.architecture.window
	}
	if m.windows = m.isList(pattern); m.windows == nil {
		period := m.number(pattern, m.period)
		if m.architecture.layers > 0 && int64(m.layers) != m.architecture.layers {
			period = 0
		}
		m.windows = make([]int64, m.layers)
		for i := range m.windows {
			at := int64(i)
			if m.denseFirst {
				at += period - 1 // the first of a period is as the last is elsewhere
			}
			if m.allWindows || period > 0 && at%period < period-1 {
				m.windows[i] = 1
			}
		}
	}
	m.recurrentLayers = m.isList("attention.recurrent_layers")
	m.interval = max(m.number("full_attention_interval", 4), 1)
}

// isRecurrent reports whether a layer has a state.
func (m *model) isRecurrent(layer int) bool {
	return m.recurrent != nil && layer < m.blocks && m.recurrent(m, layer)
}

// isCached reports whether a layer has keys and values in the cache.
func (m *model) isCached(layer int) bool {
	return !m.noCache && layer < m.cached && m.pairs[layer] > 0 && (m.both || !m.isRecurrent(layer))
}

// hasWindow reports whether a layer sees only so many tokens.
func (m *model) hasWindow(layer int) bool {
	return m.window > 0 && layer < m.blocks && m.windows[layer] != 0
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
