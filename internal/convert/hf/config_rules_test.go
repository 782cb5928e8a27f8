package hf

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/convert/internal/settings"
	"github.com/tensorfs/tensorfs/internal/convert/layout"
)

// list is an array of metadata. Without values, it only claims a length.
type list struct {
	values []any
	claim  int
}

func listOf(values ...any) list { return list{values, len(values)} }

func (l list) Len() int { return l.claim }

func (l list) Values() iter.Seq[any] {
	return func(yield func(any) bool) {
		for _, v := range l.values {
			if !yield(v) {
				return
			}
		}
	}
}

// sample is a model of few sizes: its metadata, where keys without a dot get the architecture as
// prefix, and the shapes of its tensors.
type sample struct {
	arch   string
	meta   map[string]any
	shapes map[string][]int64
	data   map[string][]float32
}

// common are the keys that all architectures have.
func common() map[string]any {
	return map[string]any{
		"block_count": uint32(2), "embedding_length": uint32(32), "context_length": uint32(4096), "feed_forward_length": uint32(48),
		"attention.head_count": uint32(4), "attention.head_count_kv": uint32(2),
		"attention.layer_norm_rms_epsilon": float32(1e-6), "attention.layer_norm_epsilon": float32(1e-5),
	}
}

// samples are the keys that an architecture needs beyond the common ones, if any.
var samples = map[string]map[string]any{
	"llama": nil, "qwen2": nil, "qwen3": nil, "gemma2": nil, "gemma3": {"attention.sliding_window": uint32(512)}, "starcoder2": nil,
	"phi3":     nil,
	"qwen2moe": {"expert_count": uint32(4), "expert_used_count": uint32(2)},
	"qwen3moe": {"expert_count": uint32(4), "expert_used_count": uint32(2)},
	"gpt-oss":  {"expert_count": uint32(4), "expert_used_count": uint32(2), "expert_feed_forward_length": uint32(16), "attention.sliding_window": uint32(128)},
	"gpt2":     {"attention.head_count_kv": uint32(4), "feed_forward_length": uint32(128)},
	"bloom":    {"attention.head_count_kv": uint32(4), "feed_forward_length": uint32(128)},
	"olmo2":    nil,
	"falcon":   {"attention.head_count_kv": uint32(1)},
	"bert":     {"attention.head_count_kv": uint32(4), "attention.causal": false},
	"deepseek2": {"attention.kv_lora_rank": uint32(16), "rope.dimension_count": uint32(8), "attention.key_length_mla": uint32(24), "attention.value_length_mla": uint32(20),
		"expert_count": uint32(4), "expert_used_count": uint32(2), "expert_shared_count": uint32(1), "expert_feed_forward_length": uint32(16)},
}

// newSample returns a model of an architecture with changed keys: nil removes one.
// Keys that begin with "general." or "tokenizer." are not the architecture's.
func newSample(arch string, changes map[string]any) sample {
	s := sample{arch: arch, meta: map[string]any{"general.architecture": arch}, data: map[string][]float32{}, shapes: map[string][]int64{
		"token_embedding.weight": {64, 32}, "layers.0.attention.output.weight": {32, 32}, "layers.1.attention.output.weight": {32, 32},
	}}
	if arch == "deepseek2" {
		s.shapes["layers.0.attention.output.weight"], s.shapes["layers.1.attention.output.weight"] = []int64{32, 80}, []int64{32, 80}
	}
	if arch == "bert" {
		s.shapes["position_embedding.weight"], s.shapes["token_type_embedding.weight"] = []int64{4096, 32}, []int64{32}
	}
	for _, keys := range []map[string]any{common(), samples[arch], changes} {
		for k, v := range keys {
			if !strings.HasPrefix(k, "general.") && !strings.HasPrefix(k, "tokenizer.") {
				k = arch + "." + k
			}
			if s.meta[k] = v; v == nil {
				delete(s.meta, k)
			}
		}
	}
	return s
}

// config makes the sample's config.json.
func (s sample) config(mlx bool) ([]byte, error) {
	c, err := s.maker(mlx)
	if err != nil {
		return nil, err
	}
	return c.Config()
}

// maker returns what makes the sample's configs.
func (s sample) maker(mlx bool) (*settings.Model, error) {
	m := &tensorfs.Model{Layout: "gguf", Architecture: s.arch}
	for k, v := range s.meta {
		m.Metadata = append(m.Metadata, tensorfs.Meta{Key: k, Value: v})
	}
	f := settings.Given{MLX: mlx, Torch: "float16", Tensor: func(name string) *tensorfs.Tensor {
		if list, ok := s.data[name]; ok {
			var b []byte
			for _, x := range list {
				b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
			}
			return &tensorfs.Tensor{Name: name, DType: tensorfs.F32, Shape: []int64{int64(len(list))}, Data: tensorfs.Bytes(b)}
		}
		if shape, ok := s.shapes[name]; ok {
			return &tensorfs.Tensor{Name: name, DType: tensorfs.F16, Shape: shape}
		}
		return nil
	}}
	if shape := s.shapes["token_embedding.weight"]; shape != nil {
		f.Rows = shape[0]
	}
	return settings.FromGGUF(m, f)
}

// TestConfigSamples holds that each sample has a config.json, so that what the
// other tests refuse is what they changed.
func TestConfigSamples(t *testing.T) {
	for arch := range samples {
		if _, err := newSample(arch, nil).config(false); err != nil {
			t.Errorf("%s: %v", arch, err)
		}
	}
}

// TestConfigFields holds what single keys become.
func TestConfigFields(t *testing.T) {
	yarn := map[string]any{"rope.scaling.type": "yarn", "rope.scaling.factor": float32(4)}
	with := func(more map[string]any) map[string]any {
		m := map[string]any{}
		for _, keys := range []map[string]any{yarn, more} {
			for k, v := range keys {
				m[k] = v
			}
		}
		return m
	}
	kinds := func(s string) any { // "sf": sliding, full
		var l []any
		for _, c := range s {
			l = append(l, map[rune]string{'s': "sliding_attention", 'f': "full_attention"}[c])
		}
		return l
	}
	for _, c := range []struct {
		arch    string
		changes map[string]any
		field   string
		want    any
	}{
		{"llama", nil, "rope_scaling", nil},
		{"llama", nil, "is_causal", nil},
		{"llama", map[string]any{"attention.causal": false}, "is_causal", false},
		{"llama", nil, "rope_theta", 10000.0},
		{"llama", nil, "head_dim", 8.0},
		{"llama", map[string]any{"attention.head_count_kv": nil}, "num_key_value_heads", 4.0},
		{"llama", map[string]any{"attention.head_count_kv": listOf(int32(2), int32(2))}, "num_key_value_heads", 2.0},
		{"llama", map[string]any{"feed_forward_length": listOf(uint32(48), uint32(48))}, "intermediate_size", 48.0},
		{"llama", map[string]any{"feed_forward_length": uint8(48)}, "intermediate_size", 48.0},
		{"llama", map[string]any{"feed_forward_length": int16(48)}, "intermediate_size", 48.0},
		{"llama", map[string]any{"feed_forward_length": uint64(48)}, "intermediate_size", 48.0},
		{"llama", map[string]any{"feed_forward_length": int64(48)}, "intermediate_size", 48.0},
		{"llama", map[string]any{"rope.freq_base": 12345.678}, "rope_theta", 12345.678},
		{"llama", map[string]any{"nextn_predict_layers": uint32(1)}, "num_hidden_layers", 1.0},
		{"llama", map[string]any{"expert_count": uint32(0)}, "model_type", "llama"},
		{"llama", map[string]any{"expert_count": uint32(8), "expert_used_count": uint32(2)}, "model_type", "mixtral"},
		{"llama", map[string]any{"expert_count": uint32(8), "expert_used_count": uint32(2)}, "num_local_experts", 8.0},
		{"llama", map[string]any{"rope.scaling.type": "none", "rope.scaling.factor": float32(4)}, "rope_scaling", nil},
		{"llama", map[string]any{"rope.scaling.type": "linear", "rope.scaling.factor": float32(1)}, "rope_scaling", nil},
		{"llama", map[string]any{"rope.scale_linear": float32(4)}, "rope_scaling", map[string]any{"rope_type": "linear", "type": "linear", "factor": 4.0}},
		{"llama", map[string]any{"rope.scaling.type": "linear", "rope.scaling.factor": float32(2.5)}, "rope_scaling", map[string]any{"rope_type": "linear", "type": "linear", "factor": 2.5}},
		{"llama", yarn, "rope_scaling", map[string]any{"rope_type": "yarn", "type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096.0}},
		{"qwen3", with(map[string]any{"rope.scaling.original_context_length": uint32(1024), "rope.scaling.yarn_beta_fast": float32(16), "rope.scaling.yarn_beta_slow": float32(2)}),
			"rope_scaling", map[string]any{"rope_type": "yarn", "type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024.0, "beta_fast": 16.0, "beta_slow": 2.0}},
		{"qwen3", with(map[string]any{"rope.scaling.attn_factor": float32(2)}),
			"rope_scaling", map[string]any{"rope_type": "yarn", "type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096.0, "attention_factor": 2.2772589}},
		{"qwen3", with(map[string]any{"rope.scaling.yarn_attn_factor": float32(1.25)}),
			"rope_scaling", map[string]any{"rope_type": "yarn", "type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096.0, "attention_factor": 1.25}},
		{"qwen3", with(map[string]any{"rope.scaling.yarn_attn_factor": float32(0.5)}),
			"rope_scaling", map[string]any{"rope_type": "yarn", "type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096.0, "attention_factor": 0.5}},
		{"qwen2moe", nil, "moe_intermediate_size", 24.0},
		{"qwen2moe", nil, "shared_expert_intermediate_size", 48.0},
		{"gemma2", nil, "sliding_window", 4096.0},
		{"gemma2", nil, "layer_types", kinds("sf")},
		{"gemma2", nil, "attn_logit_softcapping", 50.0},
		{"gemma3", nil, "layer_types", kinds("ss")},
		{"gemma3", nil, "sliding_window_pattern", 6.0},
		{"gemma3", nil, "rope_theta", 1000000.0},
		{"gemma3", map[string]any{"rope.freq_base_swa": float32(5000)}, "rope_local_base_freq", 5000.0},
		{"gemma3", map[string]any{"rope.global.freq_base": float32(7000)}, "rope_theta", 7000.0},
		{"gemma3", map[string]any{"rope.local.freq_base": float32(6000)}, "rope_local_base_freq", 6000.0},
		{"gemma3", map[string]any{"attention.sliding_window_pattern": uint32(2)}, "layer_types", kinds("sf")},
		{"gemma3", map[string]any{"attention.sliding_window_pattern": uint32(2)}, "sliding_window_pattern", 2.0},
		{"gemma3", map[string]any{"attention.sliding_window_pattern": listOf(true, false)}, "sliding_window_pattern", 2.0},
		{"gemma3", map[string]any{"attention.sliding_window_pattern": listOf(true, true)}, "sliding_window_pattern", 6.0},
		{"gemma3", map[string]any{"attention.sliding_window_pattern": listOf(false, true)}, "sliding_window_pattern", nil},
		{"gemma3", map[string]any{"attention.sliding_window_pattern": listOf(false, true)}, "layer_types", kinds("fs")},
		{"gemma3", map[string]any{"attention.sliding_window_pattern": listOf(uint32(1), uint32(0))}, "layer_types", kinds("sf")},
		{"gemma3", map[string]any{"final_logit_softcapping": float32(0.5)}, "final_logit_softcapping", 0.5},
		{"deepseek2", nil, "first_k_dense_replace", 0.0},
		{"deepseek2", map[string]any{"expert_group_count": uint32(1), "expert_group_used_count": uint32(0)}, "topk_method", "greedy"},
		{"llama", map[string]any{"rope.freq_base": float32(0.5)}, "rope_theta", 0.5},
		{"gemma2", map[string]any{"attention.sliding_window_pattern": uint32(0)}, "sliding_window_pattern", 3.0},
		{"gemma3", map[string]any{"attention.sliding_window": uint32(0)}, "layer_types", kinds("ff")},
		{"gemma3", map[string]any{"attention.sliding_window": nil}, "sliding_window", nil},
		{"phi3", map[string]any{"attention.sliding_window": uint32(0)}, "sliding_window", nil},
		{"phi3", map[string]any{"rope.dimension_count": uint32(6)}, "partial_rotary_factor", 0.75},
		{"phi3", map[string]any{"rope.dimension_count": uint32(8)}, "partial_rotary_factor", nil},
		{"phi3", nil, "original_max_position_embeddings", 4096.0},
		{"starcoder2", nil, "use_bias", false},
		{"gpt2", nil, "n_inner", 128.0},
		{"falcon", nil, "multi_query", true},
		{"bert", nil, "type_vocab_size", 1.0},
		{"deepseek2", nil, "model_type", "deepseek_v2"},
		{"deepseek2", nil, "q_lora_rank", nil},
		{"deepseek2", map[string]any{"attention.q_lora_rank": uint32(0)}, "q_lora_rank", nil},
		{"deepseek2", nil, "qk_nope_head_dim", 16.0},
		{"deepseek2", nil, "num_key_value_heads", 4.0},
		{"deepseek2", map[string]any{"expert_gating_func": uint32(2)}, "architectures", []any{"DeepseekV3ForCausalLM"}},
		{"deepseek2", map[string]any{"expert_gating_func": uint32(2)}, "scoring_func", "sigmoid"},
		{"deepseek2", map[string]any{"attention.key_length_mla": nil, "attention.key_length": uint32(24)}, "qk_nope_head_dim", 16.0},
		{"deepseek2", map[string]any{"expert_group_count": uint32(2), "expert_group_used_count": uint32(1)}, "topk_method", "group_limited_greedy"},
		{"deepseek2", map[string]any{"expert_group_count": uint32(2), "expert_group_used_count": uint32(1), "expert_gating_func": uint32(2)}, "topk_method", "noaux_tc"},
		{"deepseek2", map[string]any{"expert_weights_norm": true}, "norm_topk_prob", true},
		{"deepseek2", with(map[string]any{"rope.scaling.yarn_log_multiplier": float32(0.0707)}), "rope_scaling", map[string]any{
			"rope_type": "yarn", "type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096.0, "beta_fast": 32.0, "beta_slow": 1.0, "mscale": 0.70699996, "mscale_all_dim": 0.70699996}},
		{"llama", map[string]any{"tokenizer.ggml.bos_token_id": uint32(63)}, "bos_token_id", 63.0},
		{"llama", map[string]any{"tokenizer.ggml.bos_token_id": uint32(64)}, "bos_token_id", nil},
		{"llama", map[string]any{"tokenizer.ggml.eos_token_id": int32(-1)}, "eos_token_id", nil},
		{"llama", map[string]any{"tokenizer.ggml.padding_token_id": uint32(5), "tokenizer.ggml.tokens": listOf("a", "b")}, "pad_token_id", nil},
	} {
		text, err := newSample(c.arch, c.changes).config(false)
		if err != nil {
			t.Errorf("%s %v: %v", c.arch, c.changes, err)
			continue
		}
		if got := readJSON(t, text)[c.field]; !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s %v: %s is %v, want %v", c.arch, c.changes, c.field, got, c.want)
		}
	}
}

// TestConfigFreqs holds which parameters are found for divisors of frequencies.
func TestConfigFreqs(t *testing.T) {
	const head = 64
	wide := map[string]any{"attention.key_length": uint32(head), "attention.value_length": uint32(head), "rope.freq_base": float32(500000)}
	for _, c := range []struct {
		factor, original float32
		found            bool
	}{{8, 8192, true}, {32, 8192, true}, {8, 4096, true}, {16, 131072, true}, {8, 512, false}} {
		s := newSample("llama", wide)
		s.shapes["layers.0.attention.output.weight"], s.shapes["layers.1.attention.output.weight"] = []int64{32, 4 * head}, []int64{32, 4 * head}
		s.data["rope_freqs.weight"] = layout.Llama3Divisors(head, 500000, c.factor, 1, 4, c.original)
		text, err := s.config(true)
		if err != nil {
			t.Fatal(err)
		}
		got := readJSON(t, text)
		r := got["rope_scaling"].(map[string]any)
		if c.found {
			if r["rope_type"] != "llama3" || r["factor"] != float64(c.factor) || r["original_max_position_embeddings"] != float64(c.original) || got["original_max_position_embeddings"] != nil {
				t.Errorf("%v: %v", c, got)
			}
		} else if r["rope_type"] != "longrope" || len(r["long_factor"].([]any)) != head/2 || got["original_max_position_embeddings"] != 4096.0 {
			t.Errorf("%v: %v", c, got)
		}
	}
	s := newSample("llama", nil)
	s.data["rope_freqs.weight"] = []float32{1, 1, 1, 1}
	if text, err := s.config(false); err != nil || readJSON(t, text)["rope_scaling"] != nil {
		t.Errorf("%s, %v", text, err)
	}
}

// TestConfigFactors holds when config.json of phi3 has the factor of attention.
func TestConfigFactors(t *testing.T) {
	for _, c := range []struct {
		keys map[string]any
		want any
	}{
		{nil, nil},
		{map[string]any{"rope.scaling.original_context_length": uint32(1024)}, 1.0}, // llama.cpp's, and not the library's 1.095
		{map[string]any{"rope.scaling.original_context_length": uint32(1024), "rope.scaling.attn_factor": float32(1.0954452)}, nil},
		{map[string]any{"rope.scaling.attn_factor": float32(1.19)}, 1.19},
		{map[string]any{"rope.scaling.attn_factor": float32(0.75)}, 0.75},
		{map[string]any{"rope.scaling.type": "longrope", "rope.scaling.factor": float32(1)}, nil},
		{map[string]any{"rope.scaling.type": "longrope"}, nil},
	} {
		s := newSample("phi3", c.keys)
		s.data["rope_factors_short.weight"], s.data["rope_factors_long.weight"] = []float32{1, 1, 1, 1.1}, []float32{1, 2, 3, 4.2}
		text, err := s.config(false)
		if err != nil {
			t.Fatal(err)
		}
		r := readJSON(t, text)["rope_scaling"].(map[string]any)
		if r["attention_factor"] != c.want || r["type"] != "longrope" || r["rope_type"] != nil || !reflect.DeepEqual(r["long_factor"], []any{1.0, 2.0, 3.0, 4.2}) {
			t.Errorf("%v: %v", c.keys, r)
		}
	}
}

// TestConfigLargest holds the scale of attention of the largest models of Gemma.
func TestConfigLargest(t *testing.T) {
	for arch, largest := range map[string]uint32{"gemma2": 46, "gemma3": 62} {
		for layers, want := range map[uint32]float64{largest: 8, largest - 1: 16} {
			s := newSample(arch, map[string]any{"block_count": layers, "attention.key_length": uint32(16), "attention.value_length": uint32(16)})
			for i := range layers {
				s.shapes[fmt.Sprintf("layers.%d.attention.output.weight", i)] = []int64{32, 64}
			}
			text, err := s.config(true)
			if err != nil || readJSON(t, text)["query_pre_attn_scalar"] != want {
				t.Errorf("%s with %d layers: %s, %v", arch, layers, text, err)
			}
		}
	}
}

// TestBidirectionalNote holds that a note names a model whose tokens also see later tokens.
func TestBidirectionalNote(t *testing.T) {
	for _, causal := range []bool{false, true} {
		m, err := newSample("llama", map[string]any{"attention.causal": causal}).maker(false)
		if err == nil {
			_, err = m.Config()
		}
		if err != nil {
			t.Fatal(err)
		}
		notes, err := m.Unread()
		if said := strings.Contains(strings.Join(notes, "\n"), "transformers 4 does not read it"); err != nil || said == causal {
			t.Errorf("causal %t: %q, %v", causal, notes, err)
		}
	}
}
