package config

import (
	"bytes"
	"encoding/json"
	"iter"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
)

// array is a list as a parser gives it.
type array []any

func (a array) Len() int              { return len(a) }
func (a array) Values() iter.Seq[any] { return slices.Values(a) }

// metadata is a GGUF file of architecture llama; a value of nil is an absent key.
func metadata(kv map[string]any) Lookup {
	return func(key string) (any, bool) {
		if key == "general.architecture" {
			if v, ok := kv[key]; ok {
				return v, v != nil
			}
			return "llama", true
		}
		v, ok := kv[strings.TrimPrefix(key, "llama.")]
		return v, ok && strings.HasPrefix(key, "llama.")
	}
}

func valueOf(fields []tensorfs.Field, name string) any {
	for _, f := range fields {
		if f.Name == name {
			return f.Value
		}
	}
	return nil
}

// check compares the named fields; nil means absent.
func check(t *testing.T, fields []tensorfs.Field, want map[string]any) {
	t.Helper()
	for name, w := range want {
		if n, ok := w.(int); ok {
			w = int64(n)
		}
		if got := valueOf(fields, name); !reflect.DeepEqual(got, w) {
			t.Errorf("%s: got %#v, want %#v", name, got, w)
		}
	}
}

type (
	kv  = map[string]any
	tsr = map[string][]int64
)

func shapesOf(m tsr) Shapes {
	return func(name string) ([]int64, bool) { s, ok := m[name]; return s, ok }
}

func TestFromGGUF(t *testing.T) {
	for _, c := range []struct {
		name   string
		kv     kv
		shapes tsr
		layers int
		want   kv
	}{
		{"nothing", kv{"general.architecture": nil}, nil, 0, kv{
			"architecture": "unknown", "dim": nil, "n_layers": nil, "n_heads": nil, "n_kv_heads": nil, "head_dim": nil, "q_dim": nil,
			"vocab_size": nil, "tie_embeddings": nil, "max_seq_len": 2048, "norm_eps": 1e-5, "rope_theta": 10000.0}},
		{"huge counts", kv{"block_count": uint64(1) << 40, "expert_count": uint64(1) << 62}, nil, 7, kv{"n_layers": nil, "n_experts": nil}},
		{"largest count", kv{"block_count": uint64(1)<<32 - 1, "expert_count": uint64(1) << 32}, nil, 7, kv{"n_layers": 1<<32 - 1, "n_experts": nil}},
		{"largest count with a sign", kv{"block_count": int64(1)<<32 - 1, "expert_count": int64(1) << 32}, nil, 7, kv{"n_layers": 1<<32 - 1, "n_experts": nil}},
		{"largest count as a float", kv{"block_count": float64(1<<32 - 1), "expert_count": float64(1 << 32)}, nil, 7, kv{"n_layers": 1<<32 - 1, "n_experts": nil}},
		{"zeros", kv{"block_count": uint32(0), "attention.head_count": uint32(0), "attention.head_count_kv": uint32(0), "embedding_length": uint32(0), "attention.key_length": uint32(0)}, nil, 0,
			kv{"n_layers": 0, "n_heads": 0, "n_kv_heads": 0, "dim": 0, "head_dim": 0, "q_dim": 0, "kv_dim": 0}},
		{"no division by zero", kv{"attention.head_count": uint32(0), "embedding_length": uint32(64)}, nil, 0, kv{"head_dim": nil, "v_head_dim": nil, "rope_dim": nil, "q_dim": nil}},
		{"negative", kv{"block_count": int32(-1), "embedding_length": int64(math.MinInt64), "attention.head_count": int8(-1), "rope.freq_base": float32(-1)}, tsr{"token_embedding.weight": {9, 8}}, 3,
			kv{"n_layers": nil, "dim": nil, "n_heads": nil, "n_kv_heads": nil, "rope_theta": nil, "rope_local_theta": nil}},
		{"wrong types", kv{"block_count": "32", "embedding_length": float32(math.NaN()), "context_length": math.Inf(1), "attention.head_count": array{},
			"attention.head_count_kv": array{"8"}, "feed_forward_length": true, "attention.layer_norm_rms_epsilon": float32(math.NaN()), "rope.scaling.type": uint8(1)}, nil, 3,
			kv{"n_layers": nil, "dim": nil, "max_seq_len": nil, "n_heads": nil, "n_kv_heads": nil, "ffn_dim": nil, "norm_eps": nil, "rope_scaling_type": nil, "expert_ffn_dim": nil}},
		{"an architecture that is not a name", kv{"general.architecture": strings.Repeat("x", 1<<20)}, nil, 2, kv{"architecture": "unknown"}},
		{"an architecture that is not a string", kv{"general.architecture": uint32(7), "block_count": uint32(3)}, nil, 2, kv{"architecture": "unknown", "n_layers": 2}},
		{"whole floats count", kv{"block_count": float32(3), "embedding_length": 64.5}, nil, 0, kv{"n_layers": 3, "dim": nil}},
		{"integers are floats", kv{"rope.freq_base": uint32(500000)}, nil, 0, kv{"rope_theta": 500000.0, "rope_local_theta": 500000.0}},
		{"overflowing products", kv{"attention.head_count": uint32(1 << 31), "attention.key_length": uint32(4)}, nil, 0, kv{"q_dim": nil, "kv_dim": nil}},
		{"counts of each layer", kv{"attention.head_count": array{uint32(4), uint32(8)}, "attention.head_count_kv": []int32{2, 0}, "feed_forward_length": array{uint32(10), int8(20)}, "embedding_length": uint32(64)}, nil, 2,
			kv{"n_heads": 8, "n_heads_per_layer": []int64{4, 8}, "n_kv_heads": 2, "n_kv_heads_per_layer": []int64{2, 0}, "ffn_dim": 20, "ffn_dim_per_layer": []int64{10, 20}, "head_dim": 8}},
		{"a list with a negative count", kv{"attention.head_count": array{uint32(4), int32(-8)}}, nil, 2, kv{"n_heads": nil, "n_heads_per_layer": nil}},
		{"a list too long to be about layers", kv{"attention.head_count": make([]uint32, maxLayers+1), "attention.sliding_window_pattern": make([]bool, maxLayers+1)}, nil, 2,
			kv{"n_heads": nil, "n_heads_per_layer": nil, "sliding_window_pattern": nil, "sliding_window_pattern_per_layer": nil}},
		{"derived from tensors", kv{}, tsr{"token_embedding.weight": {100, 64}, "layers.0.ffn.down.weight": {64, 256}, "output.weight": {100, 64}}, 5,
			kv{"dim": 64, "vocab_size": 100, "ffn_dim": 256, "n_layers": 5, "tie_embeddings": false}},
		{"tensors of odd shapes", kv{"tokenizer.ggml.tokens": 5}, tsr{"token_embedding.weight": {}, "layers.0.ffn.down.weight": {7}, "layers.0.attention.q.weight": {}}, 1,
			kv{"dim": nil, "vocab_size": nil, "ffn_dim": nil, "tie_embeddings": true}},
		{"tensors of huge shapes", kv{}, tsr{"token_embedding.weight": {1 << 62, 1 << 40}}, 1, kv{"dim": nil, "vocab_size": nil}},
		{"rows that agree", kv{"attention.head_count": uint32(4), "attention.head_count_kv": uint32(2), "attention.key_length": uint32(16)}, tsr{"layers.0.attention.q.weight": {64, 8}, "layers.0.attention.k.weight": {32, 8}}, 1,
			kv{"q_dim": 64, "kv_dim": 32}},
		{"rows that disagree", kv{"attention.head_count": uint32(4), "attention.head_count_kv": uint32(2), "attention.key_length": uint32(16)}, tsr{"layers.0.attention.q.weight": {128, 8}, "layers.0.attention.k.weight": {31, 8}}, 1,
			kv{"q_dim": nil, "kv_dim": nil}},
		{"rows of the first layer", kv{"attention.head_count": array{uint32(2), uint32(4)}, "attention.key_length": uint32(16)}, tsr{"layers.0.attention.q.weight": {32, 8}}, 2, kv{"q_dim": 64}},
		{"old MLA", kv{"attention.kv_lora_rank": uint32(512), "attention.key_length": uint32(192), "attention.value_length": uint32(128), "rope.dimension_count": uint32(64)}, nil, 1,
			kv{"qk_nope_head_dim": 128, "mla_v_head_dim": 128}},
		{"MLA that makes no sense", kv{"attention.kv_lora_rank": uint32(512), "attention.key_length_mla": uint32(8), "rope.dimension_count": uint32(64)}, nil, 1,
			kv{"qk_nope_head_dim": nil, "mla_v_head_dim": nil}},
		{"no MLA", kv{"attention.key_length": uint32(64), "attention.value_length": uint32(64)}, nil, 1, kv{"qk_nope_head_dim": nil, "mla_v_head_dim": nil}},
		{"gemma 3", kv{"general.architecture": "gemma3"}, nil, 1, kv{"norm_eps": 1e-6, "sliding_window_pattern": 0, "rope_local_theta": 10000.0}},
		{"pattern as a list", kv{"attention.sliding_window_pattern": array{true, true, false, true}}, nil, 4,
			kv{"sliding_window_pattern": 3, "sliding_window_pattern_per_layer": []bool{true, true, false, true}}},
		{"pattern as a list of numbers", kv{"attention.sliding_window_pattern": array{uint32(1), int8(1), uint8(0), 1.0}}, nil, 4,
			kv{"sliding_window_pattern": 3, "sliding_window_pattern_per_layer": []bool{true, true, false, true}}},
		{"pattern with a number too large", kv{"attention.sliding_window_pattern": array{uint32(1), uint32(2)}}, nil, 2,
			kv{"sliding_window_pattern": nil, "sliding_window_pattern_per_layer": nil}},
	} {
		t.Run(c.name, func(t *testing.T) {
			check(t, FromGGUF(metadata(c.kv), shapesOf(c.shapes), c.layers), c.want)
		})
	}
}

// TestBareKeys reads files that leave out the architecture before their keys.
func TestBareKeys(t *testing.T) {
	values := kv{"general.architecture": "bitnet", "block_count": uint32(2), "hidden_size": uint32(64), "num_attention_heads": uint32(4), "bitnet.vocab_size": uint32(9), "vocab_size": uint32(8), "tokenizer.ggml.tokens": array{"a", "b"}}
	get := func(key string) (any, bool) { v, ok := values[key]; return v, ok }
	check(t, FromGGUF(get, nil, 0), kv{"n_layers": 2, "dim": 64, "n_heads": 4, "n_kv_heads": 4, "head_dim": 16, "vocab_size": 9})
	delete(values, "vocab_size")
	delete(values, "bitnet.vocab_size")
	check(t, FromGGUF(get, nil, 0), kv{"vocab_size": 2})
	values["general.architecture"] = strings.Repeat("x", 1<<20)
	check(t, FromGGUF(get, nil, 0), kv{"n_layers": 2})
}

func TestFromHF(t *testing.T) {
	for _, c := range []struct {
		name, config string
		want         kv
	}{
		{"null is absent", `{"num_key_value_heads":null,"num_attention_heads":8,"sliding_window":null,"rope_scaling":null}`,
			kv{"n_kv_heads": 8, "sliding_window": 0, "rope_scaling_type": "none", "rope_scaling_factor": 1.0}},
		{"first key wins", `{"n_embd":8,"hidden_size":16}`, kv{"dim": 16}},
		{"the first key wins though it is wrong", `{"n_embd":8,"hidden_size":"x"}`, kv{"dim": nil}},
		{"names of absurd length", `{"model_type":"` + strings.Repeat("x", 101) + `","architectures":["` + strings.Repeat("Y", 100) + `"]}`, kv{"architecture": strings.Repeat("Y", 100)}},
		{"text_config wins", `{"model_type":"gemma3","architectures":["Gemma3ForConditionalGeneration"],"hidden_size":1,"vocab_size":7,"text_config":{"model_type":"gemma3_text","n_embd":64,"rope_theta":1e6}}`,
			kv{"architecture": "gemma3", "dim": 64, "vocab_size": 7, "rope_theta": 1e6, "rope_local_theta": 10000.0}},
		{"thinker_config", `{"thinker_config":{"text_config":{"hidden_size":64}}}`, kv{"dim": 64}},
		{"text_config that is not an object", `{"text_config":5,"hidden_size":64}`, kv{"dim": 64}},
		{"classes of text_config first", `{"model_type":"llava","architectures":["LlavaForConditionalGeneration"],"text_config":{"architectures":["Qwen2ForCausalLM"]}}`, kv{"architecture": "qwen2"}},
		{"unknown architecture", `{"model_type":"new","architectures":["NewForCausalLM"]}`, kv{"architecture": "new"}},
		{"only a class", `{"architectures":["NewForCausalLM"]}`, kv{"architecture": "NewForCausalLM"}},
		{"no architecture", `{"architectures":[],"model_type":5}`, kv{"architecture": "unknown"}},
		{"classes of another type", `{"architectures":[5,"LlamaForCausalLM"]}`, kv{"architecture": "unknown"}},
		{"Mistral is llama", `{"model_type":"mistral"}`, kv{"architecture": "llama"}},
		{"new rope objects", `{"rope_parameters":{"rope_theta":5e5,"rope_type":"yarn","factor":4,"original_max_position_embeddings":4096,"partial_rotary_factor":0.5},"head_dim":64}`,
			kv{"rope_theta": 5e5, "rope_scaling_type": "yarn", "rope_scaling_factor": 4.0, "rope_orig_ctx": 4096, "rope_dim": 32}},
		{"two rope objects", `{"rope_parameters":{"full_attention":{"rope_theta":1e6},"sliding_attention":{"rope_theta":1e4}}}`, kv{"rope_theta": 1e6, "rope_local_theta": 1e4}},
		{"rotary share", `{"hidden_size":2560,"num_attention_heads":32,"partial_rotary_factor":0.4}`, kv{"head_dim": 80, "rope_dim": 32}},
		{"impossible rotary share", `{"head_dim":64,"rotary_pct":1e30}`, kv{"rope_dim": nil}},
		{"multi query", `{"num_attention_heads":32,"multi_query":true}`, kv{"n_kv_heads": 1}},
		{"multi query of a Falcon", `{"model_type":"falcon","num_attention_heads":71,"num_kv_heads":71,"multi_query":true}`, kv{"n_kv_heads": 1}},
		{"newer Falcon", `{"model_type":"falcon","num_attention_heads":128,"num_kv_heads":8,"multi_query":true,"new_decoder_architecture":true}`, kv{"n_kv_heads": 8}},
		{"not multi query", `{"num_attention_heads":32,"multi_query":false}`, kv{"n_kv_heads": 32}},
		{"layers of each kind", `{"layer_types":["sliding_attention","sliding_attention","full_attention","sliding_attention"]}`,
			kv{"sliding_window_pattern": 3, "sliding_window_pattern_per_layer": []bool{true, true, false, true}}},
		{"kinds before their period", `{"layer_types":["full_attention","sliding_attention","full_attention"],"sliding_window_pattern":2}`,
			kv{"sliding_window_pattern": []bool{false, true, false}, "sliding_window_pattern_per_layer": []bool{false, true, false}}},
		{"kinds that the description computes", `{"model_type":"granite_swa","num_hidden_layers":5,"sliding_window":8}`,
			kv{"sliding_window_pattern": []bool{false, true, true, true, false}, "sliding_window_pattern_per_layer": []bool{false, true, true, true, false}}},
		{"kinds without a period", `{"layer_types":["full_attention","sliding_attention"]}`,
			kv{"sliding_window_pattern": []bool{false, true}, "sliding_window_pattern_per_layer": []bool{false, true}}},
		{"only windows", `{"layer_types":["sliding_attention"]}`, kv{"sliding_window_pattern": []bool{true}}},
		{"only full", `{"layer_types":["full_attention","full_attention"]}`, kv{"sliding_window_pattern": 0, "sliding_window_pattern_per_layer": nil}},
		{"kinds that are not windows", `{"layer_types":["linear_attention","full_attention"]}`, kv{"sliding_window_pattern": 0, "sliding_window_pattern_per_layer": nil}},
		{"the next key where a list is about another thing", `{"layer_types":["conv"],"global_attn_every_n_layers":3}`, kv{"sliding_window_pattern": 3}},
		{"pattern as a word", `{"sliding_window_pattern":"LLLG"}`, kv{"sliding_window_pattern": 4}},
		{"a word that is not a pattern", `{"sliding_window_pattern":"LGLG"}`, kv{"sliding_window_pattern": nil}},
		{"a window that is not used", `{"sliding_window":32768,"use_sliding_window":false}`, kv{"sliding_window": 0}},
		{"a window that is used", `{"sliding_window":32768,"use_sliding_window":true}`, kv{"sliding_window": 32768}},
		{"not used inside", `{"text_config":{"sliding_window":32768,"use_sliding_window":false},"use_sliding_window":true}`, kv{"sliding_window": 0}},
		{"a flag that is none", `{"sliding_window":32768,"use_sliding_window":"false"}`, kv{"sliding_window": 32768}},
		{"no window to use", `{"use_sliding_window":false}`, kv{"sliding_window": 0}},
		{"usual pattern", `{"model_type":"gemma2","sliding_window":4096}`, kv{"sliding_window_pattern": 2}},
		{"DeepSeek V3", `{"model_type":"deepseek_v3","hidden_size":7168,"num_attention_heads":128,"kv_lora_rank":512,"q_lora_rank":1536,"qk_nope_head_dim":128,"qk_rope_head_dim":64,"v_head_dim":128,"moe_intermediate_size":2048,"n_routed_experts":256,"n_shared_experts":1,"num_experts_per_tok":8,"first_k_dense_replace":3,"num_nextn_predict_layers":1}`,
			kv{"architecture": "deepseek2", "rope_dim": 64, "qk_nope_head_dim": 128, "mla_v_head_dim": 128, "n_experts": 256, "expert_ffn_dim": 2048, "shared_expert_ffn_dim": 2048, "n_dense_layers": 3, "n_nextn_layers": 1}},
		{"Whisper", `{"model_type":"whisper","d_model":384,"encoder_layers":4,"encoder_attention_heads":6,"decoder_layers":4,"decoder_attention_heads":6,"encoder_ffn_dim":1536,"decoder_ffn_dim":1536,"max_source_positions":1500,"max_target_positions":448,"num_mel_bins":80,"vocab_size":51865}`,
			kv{"architecture": "whisper", "dim": 384, "n_layers": 4, "n_heads": 6, "ffn_dim": 1536, "max_seq_len": 448, "enc_n_layers": 4, "enc_n_heads": 6, "enc_dim": 384, "enc_ffn_dim": 1536, "enc_max_len": 1500, "n_mels": 80}},
		{"encoder without a width", `{"d_model":384,"encoder_layers":4}`, kv{"enc_ffn_dim": 1536}},
		{"d_model of a decoder", `{"d_model":384}`, kv{"dim": 384, "enc_dim": nil, "enc_ffn_dim": nil, "enc_n_layers": 0}},
		{"Mamba", `{"model_type":"mamba","hidden_size":768,"intermediate_size":1536,"expand":2,"conv_kernel":4,"state_size":16,"time_step_rank":48}`,
			kv{"ssm_inner": 1536, "ssm_conv_kernel": 4, "ssm_state": 16, "ssm_dt_rank": 48}},
		{"Mamba 2", `{"model_type":"mamba2","hidden_size":768,"expand":2}`, kv{"ssm_inner": 1536}},
		{"an FFN is not a state space", `{"model_type":"llama","hidden_size":768,"intermediate_size":1536}`, kv{"ssm_inner": nil, "ffn_dim": 1536}},
		{"quantisation", `{"quantization":{"bits":4}}`, kv{"quant_bits": 4, "quant_group_size": 64, "quant_mode": "affine"}},
		{"quantisation of another method", `{"quantization_config":{"quant_method":"gptq","bits":4,"group_size":128}}`, kv{"quant_bits": 4, "quant_group_size": 128, "quant_mode": nil}},
		{"no quantisation", `{"quantization_config":{"quant_method":"fp8"}}`, kv{"quant_bits": 0, "quant_group_size": nil, "quant_mode": nil}},
		{"quantisation inside text_config", `{"text_config":{"quantization":{"bits":8,"group_size":32,"mode":"mxfp8"}}}`, kv{"quant_bits": 8, "quant_group_size": 32, "quant_mode": "mxfp8"}},
		{"numbers beyond all types", `{"hidden_size":1e999,"vocab_size":123456789012345678901234567890,"rope_theta":1e39,"rms_norm_eps":1e-999,"num_hidden_layers":-0.0}`,
			kv{"dim": nil, "vocab_size": nil, "rope_theta": nil, "norm_eps": 0.0, "n_layers": 0}},
		{"floats in F32", `{"rms_norm_eps":1e-05,"rope_theta":10000.00001}`, kv{"norm_eps": 1e-5, "rope_theta": 10000.0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			check(t, FromHF(parseJSON(t, c.config), nil, 0), c.want)
			var root map[string]any // without json.Number
			if json.Unmarshal([]byte(c.config), &root) == nil {
				check(t, FromHF(object(root), nil, 0), c.want)
			}
		})
	}
}

// TestAssumed holds that a field is marked where its value is a default, and only there.
func TestAssumed(t *testing.T) {
	shapes := shapesOf(tsr{"token_embedding.weight": {100, 64}})
	for name, fields := range map[string][]tensorfs.Field{
		"GGUF": FromGGUF(func(key string) (any, bool) {
			v, ok := kv{"general.architecture": "llama", "llama.rope.freq_base": 10000.0, "llama.attention.head_count": uint32(4)}[key]
			return v, ok
		}, shapes, 3),
		"HF": FromHF(object(kv{"architectures": []any{"LlamaForCausalLM"}, "rope_theta": 10000.0, "num_attention_heads": 4.0}), shapes, 3),
	} {
		assumed := map[string]bool{}
		for _, f := range fields {
			assumed[f.Name] = f.Assumed
		}
		for field, want := range map[string]bool{
			"architecture": false, "rope_theta": false, "n_heads": false, // said
			"dim": false, "n_layers": false, "vocab_size": false, "tie_embeddings": false, // of the tensors
			"max_seq_len": true, "norm_eps": true, "n_kv_heads": true, "head_dim": true, "n_experts": true,
		} {
			if got, ok := assumed[field]; !ok || got != want {
				t.Errorf("%s: %s: %v (%v), want %v", name, field, got, ok, want)
			}
		}
	}
}

// TestWithoutConfig has tensors and nothing else: no default may be shown.
func TestWithoutConfig(t *testing.T) {
	got := FromHF(nil, shapesOf(tsr{"token_embedding.weight": {100, 64}, "layers.0.ffn.down.weight": {64, 256}}), 3)
	want := []tensorfs.Field{
		{Name: "architecture", Value: "unknown"}, {Name: "dim", Value: int64(64)}, {Name: "n_layers", Value: int64(3)},
		{Name: "ffn_dim", Value: int64(256)}, {Name: "vocab_size", Value: int64(100)}, {Name: "tie_embeddings", Value: true},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestAppendJSON(t *testing.T) {
	got := AppendJSON([]byte("x"), []tensorfs.Field{{Name: "a", Value: int64(1)}, {Name: "b", Value: []int64{1, 2}}, {Name: "c", Value: 1e-5}, {Name: "d", Value: []bool{true}}},
		tensorfs.Field{Name: "e", Value: "\xff"}, tensorfs.Field{Name: "f", Value: []string{"\"\n", ""}}, tensorfs.Field{Name: "g", Value: []string{}})
	want := `x{
  "a": 1,
  "b": [1, 2],
  "c": 0.00001,
  "d": [true],
  "e": {"base64":"/w=="},
  "f": ["\"\n", ""],
  "g": []
}
`
	if string(got) != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if got := string(AppendJSON(nil, nil)); got != "{\n}\n" {
		t.Errorf("got %q", got)
	}
}

// FuzzFromHF holds for any config.json: counts are counts, floats are finite,
// and the JSON is sound.
func FuzzFromHF(f *testing.F) {
	f.Add([]byte(`{"hidden_size":64,"num_attention_heads":[4,8],"layer_types":["sliding_attention","full_attention"],"text_config":{"expand":1e9}}`))
	f.Add([]byte(`{"model_type":"mamba2","hidden_size":4294967295,"expand":3.4e38,"partial_rotary_factor":0.3,"head_dim":7,"kv_lora_rank":1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		var root map[string]any
		if d.Decode(&root) != nil {
			return
		}
		for _, fields := range [][]tensorfs.Field{FromHF(object(root), shapesOf(nil), 2), FromGGUF(object(root), nil, 2)} {
			seen := map[string]bool{}
			for _, f := range fields {
				if seen[f.Name] {
					t.Errorf("%s twice", f.Name)
				}
				seen[f.Name] = true
				switch v := f.Value.(type) {
				case int64:
					if v < 0 || v > maxCount {
						t.Errorf("%s is %d", f.Name, v)
					}
				case float64:
					if !(v >= 0 && v <= math.MaxFloat32) {
						t.Errorf("%s is %v", f.Name, v)
					}
				case string, bool, []bool, []int64:
				default:
					t.Errorf("%s is a %T", f.Name, v)
				}
			}
			if b := AppendJSON(nil, fields); !json.Valid(b) {
				t.Errorf("no JSON: %s", b)
			}
		}
	})
}

func BenchmarkFromGGUF(b *testing.B) {
	get := metadata(kv{"block_count": uint32(32), "embedding_length": uint32(4096), "attention.head_count": uint32(32)})
	b.ReportAllocs()
	for b.Loop() {
		FromGGUF(get, nil, 32)
	}
}

// object returns the Lookup of a decoded config.json.
func object(root map[string]any) Lookup {
	return func(path string) (any, bool) {
		at := root
		for {
			key, rest, more := strings.Cut(path, ".")
			v, ok := at[key]
			if !more || !ok {
				return v, ok
			}
			if at, ok = v.(map[string]any); !ok {
				return nil, false
			}
			path = rest
		}
	}
}

// TestTransposedDown: the width of feed-forward networks is found in both orders of a matrix. GPT-2
// stores it as [in, out], and omits the width if it is four times the model's width.
func TestTransposedDown(t *testing.T) {
	for _, down := range [][]int64{{64, 256}, {256, 64}} {
		config := object(kv{"model_type": "gpt2", "n_embd": 64.0, "n_inner": nil})
		check(t, FromHF(config, shapesOf(tsr{"layers.0.ffn.down.weight": down}), 3), kv{"ffn_dim": 256})
	}
}
