package hf

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/convert/internal/settings"
	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
)

// TestConfigReasons holds why there is no config.json.
func TestConfigReasons(t *testing.T) {
	for _, c := range []struct {
		arch    string
		changes map[string]any
		mlx     bool
		want    string
	}{
		{"llama", map[string]any{"general.architecture": nil}, false, "no general.architecture"},
		{"llama", map[string]any{"general.architecture": uint32(3)}, false, "general.architecture is 3, not a text"},
		{"llama", map[string]any{"general.architecture": "ll\nama"}, false, `no Hugging Face form known for architecture "ll\nama"`},
		{"llama", map[string]any{"general.architecture": "jina-bert-v2"}, false, "no Hugging Face form known for architecture jina-bert-v2"},
		{"bloom", nil, true, "mlx-lm has no such model as bloom"},
		{"falcon", nil, true, "mlx-lm has no such model as falcon"},
		{"bert", nil, true, "mlx-lm has no such model as bert"},
		{"llama", map[string]any{"block_count": nil}, false, "the file has no llama.block_count"},
		{"llama", map[string]any{"block_count": uint32(0)}, false, "llama.block_count is 0"},
		{"llama", map[string]any{"block_count": int32(-1)}, false, "llama.block_count is -1"},
		{"llama", map[string]any{"block_count": "2"}, false, `llama.block_count is "2", not a whole number`},
		{"llama", map[string]any{"block_count": float32(2)}, false, "llama.block_count is 2, not a whole number"},
		{"llama", map[string]any{"block_count": uint64(math.MaxUint64)}, false, "not a whole number"},
		{"llama", map[string]any{"block_count": listOf(uint32(2))}, false, "llama.block_count has 1 values"},
		{"llama", map[string]any{"block_count": uint32(3)}, false, "there are 3 layers, and the file has no layers.2.attention.output.weight"},
		{"llama", map[string]any{"nextn_predict_layers": uint32(2)}, false, "no other layer is left"},
		{"llama", map[string]any{"nextn_predict_layers": uint32(3)}, false, "no other layer is left"},
		{"llama", map[string]any{"embedding_length": uint32(0)}, false, "llama.embedding_length is 0"},
		{"llama", map[string]any{"embedding_length": uint32(64)}, false, "contradicts the tensor"},
		{"llama", map[string]any{"context_length": uint64(1 << 40)}, false, "llama.context_length is 1099511627776"},
		{"llama", map[string]any{"attention.head_count": uint32(3)}, false, "not a multiple of the 2 heads"},
		{"llama", map[string]any{"attention.head_count": listOf(uint32(4), uint32(8))}, false, "llama.attention.head_count differs from layer to layer"},
		{"llama", map[string]any{"attention.head_count": listOf(uint32(4))}, false, "llama.attention.head_count has 1 values, and there are 2 layers"},
		{"llama", map[string]any{"attention.head_count": listOf("a", "b")}, false, "is not a whole number"},
		{"llama", map[string]any{"attention.head_count_kv": uint32(0)}, false, "llama.attention.head_count_kv is 0"},
		{"llama", map[string]any{"attention.head_count_kv": listOf(int32(2), int32(0))}, false, "differs from layer to layer"},
		{"llama", map[string]any{"attention.head_count_kv": uint32(8)}, false, "not a multiple of the 8 heads"},
		{"llama", map[string]any{"feed_forward_length": listOf(uint32(48), uint32(64))}, false, "llama.feed_forward_length differs"},
		{"llama", map[string]any{"feed_forward_length": nil}, false, "the file has no llama.feed_forward_length"},
		{"llama", map[string]any{"attention.layer_norm_rms_epsilon": nil}, false, "the file has no llama.attention.layer_norm_rms_epsilon"},
		{"llama", map[string]any{"attention.layer_norm_rms_epsilon": float32(math.NaN())}, false, "is NaN, not a finite number"},
		{"llama", map[string]any{"attention.layer_norm_rms_epsilon": uint32(1)}, false, "is 1, not a finite number"},
		{"llama", map[string]any{"attention.layer_norm_rms_epsilon": float32(-1)}, false, "is -1, not more than 0"},
		{"llama", map[string]any{"rope.freq_base": float32(math.Inf(1))}, false, "llama.rope.freq_base is +Inf"},
		{"llama", map[string]any{"attention.value_length": uint32(16)}, false, "8 numbers of k and 16 of v"},
		{"llama", map[string]any{"attention.key_length": uint32(16)}, false, "contradicts the tensor"},
		{"llama", map[string]any{"attention.key_length": uint32(8), "rope.dimension_count": uint32(4)}, false, "4 numbers of a head of 8 are rotated"},
		{"llama", map[string]any{"rope.scaling.type": "dynamic"}, false, `scaled by "dynamic"`},
		{"llama", map[string]any{"rope.scaling.type": "longrope"}, false, `scaled by "longrope"`},
		{"llama", map[string]any{"rope.scaling.type": "llama3", "rope.scaling.factor": float32(8)}, false, `llama.rope.scaling.type is "llama3", and the file does not have what that needs`},
		{"llama", map[string]any{"rope.scaling.type": uint32(1)}, false, "llama.rope.scaling.type is 1, not a text"},
		{"llama", map[string]any{"rope.scaling.type": "yarn"}, false, "no llama.rope.scaling.factor"},
		{"llama", map[string]any{"rope.scaling.type": "linear", "rope.scaling.factor": float32(-2)}, false, "llama.rope.scaling.factor is -2"},
		{"llama", map[string]any{"rope.scaling.type": "yarn", "rope.scaling.factor": float32(2), "rope.scaling.yarn_ext_factor": float32(0.5)}, false, "yarn_ext_factor"},
		{"llama", map[string]any{"rope.scaling.attn_factor": float32(2)}, false, "llama.rope.scaling.attn_factor is 2 without yarn"},
		{"llama", map[string]any{"rope.scaling.type": "yarn", "rope.scaling.factor": float32(2), "rope.scaling.attn_factor": math.MaxFloat64}, false, "rotary embeddings are scaled by"},
		{"gemma3", map[string]any{"attention.causal": false}, false, "a window of gemma3_text then reaches to both sides"},
		{"llama", map[string]any{"expert_count": uint32(8), "expert_used_count": uint32(9)}, false, "expert_used_count is 9, and there are 8 experts"},
		{"llama", map[string]any{"expert_count": uint32(8)}, false, "no llama.expert_used_count"},
		{"llama", map[string]any{"expert_count": int32(-1)}, false, "llama.expert_count is -1"},
		{"llama", map[string]any{"expert_count": uint32(8), "expert_used_count": uint32(2), "rope.scaling.factor": float32(2)}, true, "mixtral does not scale"},
		{"qwen3moe", map[string]any{"rope.scaling.type": "yarn", "rope.scaling.factor": float32(4)}, true, "qwen3_moe does not scale"},
		{"llama", map[string]any{"expert_count": uint32(8), "expert_used_count": uint32(2), "attention.key_length": uint32(16)}, true, "mixtral takes its 4 heads to share"},
		{"llama", map[string]any{"tokenizer.ggml.bos_token_id": "1"}, false, `tokenizer.ggml.bos_token_id is "1"`},
		{"qwen2", map[string]any{"attention.key_length": uint32(16), "attention.value_length": uint32(16)}, false, "config.json of qwen2 cannot say"},
		{"qwen2moe", map[string]any{"feed_forward_length": uint32(47)}, false, "no qwen2moe.expert_feed_forward_length"},
		{"qwen2moe", nil, true, "the file has none"}, // its sample has no output.weight
		{"gemma2", map[string]any{"rope.scaling.factor": float32(2)}, false, `scaled by "linear"`},
		{"gemma3", map[string]any{"attention.sliding_window_pattern": listOf(false, true)}, true, "no order that mlx-lm knows"},
		{"gemma3", map[string]any{"attention.sliding_window_pattern": listOf(true)}, false, "sliding_window_pattern has 1 values"},
		{"gemma3", map[string]any{"attention.sliding_window_pattern": listOf("x", "y")}, false, "neither true nor false"},
		{"gemma3", map[string]any{"attention.sliding_window_pattern": true}, false, "sliding_window_pattern is true"},
		{"phi3", map[string]any{"rope.dimension_count": uint32(10)}, false, "10 numbers of a head of 8 are rotated"},
		{"phi3", map[string]any{"rope.scaling.type": "yarn", "rope.scaling.factor": float32(2)}, false, `scaled by "yarn"`},
		{"gpt-oss", map[string]any{"attention.sliding_window": nil}, false, "no gpt-oss.attention.sliding_window"},
		{"gpt2", map[string]any{"attention.head_count_kv": uint32(2)}, false, "4 heads and 2 of k and v"},
		{"gpt2", map[string]any{"feed_forward_length": uint32(64)}, true, "not four times 32"},
		{"bloom", map[string]any{"feed_forward_length": uint32(64)}, false, "not four times 32"},
		{"bloom", map[string]any{"attention.max_alibi_bias": float32(4)}, false, "bloom has 8"},
		{"olmoe", map[string]any{"attention.sliding_window": uint32(4096)}, false, "olmoe.attention.sliding_window is 4096"},
		{"falcon", map[string]any{"rope.scaling.factor": float32(2)}, false, "scaled by"},
		{"starcoder2", nil, true, "has biases"},
		{"bert", map[string]any{"attention.causal": nil}, false, "bert.attention.causal is not false"},
		{"bert", map[string]any{"context_length": uint32(64)}, false, "contradicts the tensor position_embedding.weight"},
		{"deepseek2", map[string]any{"rope.dimension_count": uint32(24)}, false, "24 of the 24 numbers of a head"},
		{"deepseek2", map[string]any{"attention.kv_lora_rank": nil}, false, "no deepseek2.attention.kv_lora_rank"},
		{"deepseek2", map[string]any{"expert_gating_func": uint32(3)}, false, "expert_gating_func is 3"},
		{"deepseek2", map[string]any{"expert_group_count": uint32(3)}, false, "4 experts do not fit 3 groups"},
		{"deepseek2", map[string]any{"leading_dense_block_count": uint32(3)}, false, "leading_dense_block_count is 3"},
		{"deepseek2", map[string]any{"rope.scaling.type": "yarn", "rope.scaling.factor": float32(4), "rope.scaling.yarn_log_multiplier": float32(math.MaxFloat32)}, false, "rotary embeddings are scaled by"},
		{"deepseek2", map[string]any{"rope.scaling.type": "yarn", "rope.scaling.factor": float32(4), "rope.scaling.attn_factor": float32(2)}, false, "a factor of its own"},
	} {
		s := newSample(c.arch, c.changes)
		text, err := s.config(c.mlx)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s %v: %v, want %q; %s", c.arch, c.changes, err, c.want, text)
		}
	}
}

// TestConfigTensorReasons holds what tensors make impossible.
func TestConfigTensorReasons(t *testing.T) {
	for _, c := range []struct {
		arch, tensor string
		shape        []int64 // nil: none
		data         []float32
		want         string
	}{
		{"llama", "token_embedding.weight", nil, nil, "only a vocabulary"},
		{"llama", "layers.1.attention.q.bias", []int64{32}, nil, "layers.1.attention.q.bias"},
		{"llama", "layers.1.attention.q.weight", []int64{32, 64}, nil, "layers.1.attention.q.weight"},
		{"llama", "rope_freqs.weight", []int64{4}, nil, "rope_freqs.weight is F16"},
		{"llama", "rope_freqs.weight", nil, []float32{1, 1, 8}, "not 4 numbers of F32"},
		{"llama", "rope_freqs.weight", nil, []float32{1, 1, 8, float32(math.NaN())}, "the number NaN"},
		{"llama", "rope_freqs.weight", nil, []float32{1, 1, 8, 0}, "the number 0"},
		{"llama", "rope_factors_long.weight", nil, []float32{1, 1, 8, 8}, "rope_factors"},
		{"qwen3", "rope_freqs.weight", nil, []float32{1, 1, 8, 8}, "rope_freqs"},
		{"phi3", "rope_factors_long.weight", nil, []float32{1, 1, 8, 8}, "no rope_factors_short.weight"},
		{"phi3", "rope_factors_short.weight", nil, []float32{1, 1, 8, 8}, "no rope_factors_long.weight"},
		{"bert", "token_type_embedding.weight", []int64{2, 3, 4}, nil, "has the shape [2 3 4]"},
		{"bert", "position_embedding.weight", nil, nil, "no embedding of positions"},
		{"bert", "token_type_embedding.weight", nil, nil, "distilbert has 1e-12"},
		{"deepseek2", "layers.0.attention.kv_a.weight", []int64{24, 33}, nil, "layers.0.attention.kv_a.weight"},
	} {
		s := newSample(c.arch, nil)
		delete(s.shapes, c.tensor)
		if c.shape != nil {
			s.shapes[c.tensor] = c.shape
		}
		if c.data != nil {
			s.data[c.tensor] = c.data
		}
		if text, err := s.config(false); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, %s: %v, want %q; %s", c.arch, c.tensor, err, c.want, text)
		}
	}
	s := newSample("llama", map[string]any{"rope.scaling.factor": float32(2)})
	s.data["rope_freqs.weight"] = []float32{1, 1, 8, 8}
	if text, err := s.config(false); err == nil || !strings.Contains(err.Error(), "can only say one") {
		t.Errorf("%s, %v", text, err)
	}
	s = newSample("llama", map[string]any{"rope.scaling.type": "yarn", "rope.scaling.factor": float32(2)})
	s.data["rope_freqs.weight"] = []float32{1, 1, 8, 8}
	if text, err := s.config(false); err == nil || !strings.Contains(err.Error(), "can only say one") {
		t.Errorf("%s, %v", text, err)
	}
	s = newSample("deepseek2", map[string]any{"expert_gating_func": uint32(1)})
	s.shapes["layers.0.ffn.router.correction.bias"] = []int64{4}
	if text, err := s.config(false); err == nil || !strings.Contains(err.Error(), "expert_gating_func is 1") {
		t.Errorf("%s, %v", text, err)
	}
}

// TestConfigShapes holds which tensors are held against the metadata, in every
// layer.
func TestConfigShapes(t *testing.T) {
	const (
		separate = " attention.q.weight attention.k.weight attention.v.weight attention.output.weight"
		gated    = " ffn.gate.weight ffn.up.weight ffn.down.weight"
		fused    = "attention.qkv.weight attention.output.weight ffn.up.weight ffn.down.weight"
		router   = " ffn.router.weight"
	)
	for arch, tensors := range map[string]string{
		"llama": separate + gated, "qwen2": separate + gated, "qwen3": separate + gated, "gemma2": separate + gated, "gemma3": separate + gated,
		"qwen2moe": separate + router, "qwen3moe": separate + router, "gpt-oss": separate + router,
		"phi3": "attention.qkv.weight attention.output.weight ffn.gate_up.weight ffn.down.weight", "falcon": fused, "bloom": fused,
		"starcoder2": separate + " ffn.up.weight ffn.down.weight", "bert": separate + " ffn.up.weight ffn.down.weight",
		"gpt2":      "attention.output.weight ffn.up.weight ffn.down.weight",
		"deepseek2": "attention.q.weight attention.kv_a.weight attention.output.weight" + router,
	} {
		for name := range strings.FieldsSeq(tensors) {
			s := newSample(arch, nil)
			name = "layers.1." + name
			s.shapes[name] = []int64{7, 7}
			if text, err := s.config(false); err == nil || !strings.Contains(err.Error(), "contradicts the tensor "+name) {
				t.Errorf("%s, %s: %v; %s", arch, name, err, text)
			}
		}
		s := newSample(arch, nil)
		s.shapes["token_embedding.weight"] = []int64{64, 7}
		if text, err := s.config(false); err == nil || !strings.Contains(err.Error(), "contradicts the tensor token_embedding.weight") {
			t.Errorf("%s: %v; %s", arch, err, text)
		}
	}
}

// failing cannot be read.
type failing struct{ tensorfs.Data }

func (failing) Size() int64                       { return 16 }
func (failing) ReadAt([]byte, int64) (int, error) { return 0, errors.New("gone") }

// TestConfigUnread holds that a list that cannot be read is the reason.
func TestConfigUnread(t *testing.T) {
	m := &tensorfs.Model{}
	s := newSample("llama", nil)
	for k, v := range s.meta {
		m.Metadata = append(m.Metadata, tensorfs.Meta{Key: k, Value: v})
	}
	_, err := config(m, settings.Given{Rows: 64, Tensor: func(name string) *tensorfs.Tensor {
		if name == "rope_freqs.weight" {
			return &tensorfs.Tensor{Name: name, DType: tensorfs.F32, Shape: []int64{4}, Data: failing{}}
		}
		if shape, ok := s.shapes[name]; ok {
			return &tensorfs.Tensor{Name: name, Shape: shape}
		}
		return nil
	}}, false)
	if err == nil || !strings.Contains(err.Error(), "gone") {
		t.Error(err)
	}
}

// TestConfigCost holds that numbers which a file claims cost nothing.
func TestConfigCost(t *testing.T) {
	for _, c := range []struct {
		arch    string
		changes map[string]any
	}{
		{"gemma3", map[string]any{"block_count": uint32(1 << 16)}},
		{"gemma3", map[string]any{"block_count": uint32(1 << 31)}},
		{"gemma3", map[string]any{"attention.sliding_window_pattern": list{claim: math.MaxInt}}},
		{"llama", map[string]any{"attention.head_count": list{claim: math.MaxInt}}},
		{"llama", map[string]any{"block_count": uint32(1 << 16), "attention.head_count": list{claim: 1 << 16}}},
		{"phi3", map[string]any{"rope.dimension_count": uint32(1 << 16)}},
	} {
		s := newSample(c.arch, c.changes)
		s.shapes["rope_factors_long.weight"] = []int64{1 << 15}
		n := testlimit.Allocated(func() {
			if text, err := s.config(false); err == nil {
				t.Errorf("%s %v: %s", c.arch, c.changes, text)
			}
		})
		if n > 1<<18 {
			t.Errorf("%s %v: %d bytes", c.arch, c.changes, n)
		}
	}
}

// FuzzConfig gives keys values of any type, one byte for the architecture and then
// two for each key: it is made, or there is a reason of one line.
func FuzzConfig(f *testing.F) {
	archs := slices.Sorted(maps.Keys(samples))
	keys := slices.Sorted(maps.Keys(common()))
	keys = append(keys, strings.Fields("attention.key_length attention.value_length rope.dimension_count rope.freq_base rope.scaling.type rope.scaling.factor "+
		"rope.scaling.original_context_length rope.scaling.attn_factor rope.scaling.yarn_attn_factor rope.scaling.yarn_ext_factor rope.scaling.yarn_log_multiplier "+
		"rope.scaling.yarn_beta_fast rope.freq_base_swa attention.sliding_window attention.sliding_window_pattern expert_count expert_used_count "+
		"expert_gating_func expert_group_count expert_group_used_count expert_weights_scale expert_weights_norm leading_dense_block_count attention.causal "+
		"attention.q_lora_rank attention.kv_lora_rank attention.key_length_mla nextn_predict_layers final_logit_softcapping "+
		"tokenizer.ggml.bos_token_id tokenizer.ggml.tokens general.architecture")...)
	values := []any{nil, uint32(0), uint32(1), uint32(2), uint32(8), uint32(32), uint32(math.MaxUint32), int32(-1), uint64(math.MaxUint64), int64(math.MinInt64),
		float32(0), float32(1), float32(2), float32(-1), float32(math.NaN()), float32(math.Inf(1)), math.MaxFloat64, float32(math.SmallestNonzeroFloat32),
		"yarn", "linear", "longrope", "none", "a\nb", true, false, listOf(), listOf(true, false), listOf(uint32(2), uint32(2)), list{claim: math.MaxInt},
		listOf("a", float32(1)), tensorfs.JSON("{}"), uint8(4), int16(4), 1.5}
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6})
	for i := range archs {
		f.Add([]byte{byte(i)})
		f.Add([]byte{byte(i) | 0x80, 12, 18, 13, 12})
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) == 0 {
			return
		}
		changes := map[string]any{}
		for i := 1; i+1 < len(b) && i < 40; i += 2 {
			changes[keys[int(b[i])%len(keys)]] = values[int(b[i+1])%len(values)]
		}
		s := newSample(archs[int(b[0]&0x3f)%len(archs)], changes)
		if b[0]&0x40 != 0 {
			s.data["rope_freqs.weight"] = []float32{1, 2, 8, 8}
			s.data["rope_factors_long.weight"] = s.data["rope_freqs.weight"]
		}
		text, err := s.config(b[0]&0x80 != 0)
		switch {
		case err != nil && (strings.ContainsAny(err.Error(), "\n\r\x00") || err.Error() == ""):
			t.Errorf("%q", err)
		case err == nil && !json.Valid(text):
			t.Errorf("%s", text)
		}
	})
}

// TestConfigLayers holds that layers without most of their tensors cost no search
// through all tensors for each.
func TestConfigLayers(t *testing.T) {
	build := func(layers int) func() {
		s := newSample("llama", map[string]any{"block_count": uint32(layers)})
		m := tensorfs.Model{}
		for k, v := range s.meta {
			m.Metadata = append(m.Metadata, tensorfs.Meta{Key: k, Value: v})
		}
		add := func(name string, shape ...int64) {
			size, _ := tensorfs.F16.Size(shape)
			m.Tensors = append(m.Tensors, tensorfs.Tensor{Name: name, DType: tensorfs.F16, Shape: shape, Data: tensorfs.Bytes(make([]byte, size))})
		}
		add("token_embedding.weight", 64, 32)
		for i := range layers {
			add(fmt.Sprintf("layers.%d.attention.output.weight", i), 32, 32)
		}
		model, err := tensorfs.NewModel(m)
		if err != nil {
			t.Fatal(err)
		}
		return func() {
			if _, err := config(model, tensorFacts(model, result{Torch: "float16"}), false); err != nil {
				t.Error(err)
			}
		}
	}
	const n = 2000
	run := map[int]func(){n: build(n), 4 * n: build(4 * n)}
	testlimit.Growth(t, n, func(n int) { run[n]() })
}
