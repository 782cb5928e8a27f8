package convert

import (
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/gguf"
	"github.com/tensorfs/tensorfs/internal/convert/internal/settings"
	"github.com/tensorfs/tensorfs/internal/convert/preset"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
)

// parsed returns the fields of a config.json.
func parsed(t testing.TB, text string) settings.Fields {
	t.Helper()
	f, err := settings.ParseFields("config.json", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// configs are the texts of the golden config.json files, by the names of their
// folders.
func configs(t testing.TB) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(models, "whole-gguf", "*", "config.json"))
	if err != nil || len(files) < 20 {
		t.Fatal(files, err)
	}
	texts := map[string]string{}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts[filepath.Base(filepath.Dir(file))] = string(b)
	}
	return texts
}

// keysOf returns the keys that a config.json gives without tensors.
func keysOf(t testing.TB, text string) (map[string]any, error) {
	t.Helper()
	made, _, err := keysAndNotes(t, text)
	return made, err
}

// keysAndNotes is keysOf, with what is noted.
func keysAndNotes(t testing.TB, text string) (made map[string]any, notes []string, err error) {
	t.Helper()
	m := &tensorfs.Model{Path: "/models/some-model"}
	about, err := settings.ToGGUF(m, parsed(t, text))
	if err != nil {
		return nil, nil, err
	}
	meta, err := about.Keys(settings.Given{Rows: 320, Tokenizer: true})
	if err != nil {
		return nil, nil, err
	}
	made = map[string]any{}
	for _, k := range meta {
		made[k.Key] = k.Value
	}
	if _, err := gguf.Compose(meta, nil); err != nil {
		t.Errorf("the keys cannot be written: %v", err)
	}
	return made, about.Notes(), nil
}

// edited is a config with added or replaced fields. An empty value removes a field.
func edited(t testing.TB, text string, fields map[string]string) string {
	t.Helper()
	o, err := jsonobj.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for k, v := range o.All() {
		all[k] = v.String()
	}
	maps.Copy(all, fields)
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(all)) {
		if all[k] != "" {
			parts = append(parts, string(tensorfs.AppendJSONString(nil, k))+":"+all[k])
		}
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// TestHostileKeys changes fields of good configs to what no model has: the answer
// is one line.
func TestHostileKeys(t *testing.T) {
	texts := configs(t)
	for _, c := range []struct{ name, field, value, want string }{
		{"llama3", "num_hidden_layers", "1000000", "1 to 512"},
		{"llama3", "num_hidden_layers", "0", "1 to 512"},
		{"llama3", "num_hidden_layers", "-1", "does not fit"},
		{"llama3", "num_hidden_layers", `"2"`, "not a whole number"},
		{"llama3", "num_hidden_layers", "null", "none of n_layers, num_hidden_layers"},
		{"llama3", "num_hidden_layers", "null", "none of n_layers, num_hidden_layers"},
		{"llama3", "hidden_size", "64.5", "not a whole number"},
		{"llama3", "hidden_size", "1e300", "not a whole number"},
		{"llama3", "hidden_size", "4294967296", "does not fit"},
		{"llama3", "hidden_size", "4294967295", "1 to 16777216"},
		{"llama3", "hidden_size", "63", "not a multiple"},
		{"llama3", "num_attention_heads", "0", "1 to"},
		{"llama3", "num_attention_heads", "[4,4]", "not a whole number"},
		{"llama3", "num_key_value_heads", "0", "1 to"},
		{"llama3", "num_key_value_heads", "3", "not a multiple"},
		{"llama3", "max_position_embeddings", "true", "not a whole number"},
		{"llama3", "rms_norm_eps", "NaN", "not a number"},
		{"llama3", "rms_norm_eps", "1e39", "does not fit"},
		{"llama3", "rms_norm_eps", "1e999", "not a number"},
		{"llama3", "rms_norm_eps", "null", "none of rms_norm_eps"},
		{"llama3", "rope_scaling", `"llama3"`, "not an object"},
		{"llama3", "rope_scaling", `{"rope_type":"ntk"}`, "scaled by"},
		{"qwen2", "rope_scaling", `{"rope_type":"longrope"}`, "scaled by"},
		{"llama3", "rope_scaling", `{"rope_type":"longrope"}`, "one list"},
		{"llama3", "rope_scaling", `{"rope_type":"longrope","long_factor":[1,2],"short_factor":[1,1]}`, "one list"},
		{"llama3", "rope_scaling", `{"rope_type":"longrope","long_factor":[1,2],"short_factor":[1,2],"original_max_position_embeddings":64}`, "64 positions"},
		{"llama3", "rope_scaling", `{"rope_type":"longrope","long_factor":[1,2],"short_factor":[1,2],"original_max_position_embeddings":2048,"attention_factor":2}`, "attention_factor"},
		{"llama3", "rope_scaling", `{"rope_type":"longrope","long_factor":[1,2],"short_factor":[1,2],"original_max_position_embeddings":2048}`, "2 numbers"},
		{"llama3", "rope_scaling", `{"rope_type":"linear"}`, "factor is missing"},
		{"llama3", "rope_scaling", `{"type":5}`, "not a text"},
		{"llama3", "hidden_act", `"relu"`, "hidden_act"},
		{"llama3", "partial_rotary_factor", "0.5", "partial_rotary_factor"},
		{"llama3", "architectures", `["Mistral2ForConditionalGeneration"]`, "cannot be converted to GGUF"},
		{"llama3", "architectures", `["LlamaForCausalLM",5]`, "not a text"},
		{"llama3", "architectures", `"LlamaForCausalLM"`, "not a list"},
		{"llama3", "architectures", `[]`, ""},
		{"llama3", "vocab_size", `"many"`, ""}, // the embedding has them
		{"qwen2", "rope_scaling", `{"rope_type":"llama3","factor":8.0}`, "scaled by"},
		{"qwen2", "architectures", `["Qwen2ForSequenceClassification"]`, "cannot be converted to GGUF"},
		{"mixtral", "num_experts_per_tok", "5", "5 experts are used of 4"},
		{"mixtral", "num_experts_per_tok", "0", "num_experts_per_tok"},
		{"mixtral", "num_experts_per_tok", "null", "num_experts_per_tok"},
		{"qwen2moe", "decoder_sparse_step", "2", "decoder_sparse_step"},
		{"qwen2moe", "mlp_only_layers", "[0]", "mlp_only_layers"},
		{"qwen2moe", "num_experts", "null", "none of"},
		{"qwen3moe", "mlp_only_layers", `{"a":1}`, "not a list"},
		{"qwen3moe", "norm_topk_prob", "false", "norm_topk_prob"},
		{"qwen3moe", "norm_topk_prob", "", "norm_topk_prob"},
		{"gemma3", "sliding_window", "null", "sliding_window is null"},
		{"gemma3", "sliding_window_pattern", "0", "sliding_window_pattern"},
		{"gemma3", "layer_types", `["full_attention"]`, "1 entries for 7 layers"},
		{"gemma3", "layer_types", `["full_attention","full_attention","sliding_attention","full_attention","full_attention","full_attention","full_attention"]`, "no period"},
		{"gemma3", "query_pre_attn_scalar", "32", "query_pre_attn_scalar"},
		{"gemma3", "attn_logit_softcapping", "50.0", "attn_logit_softcapping"},
		{"phi3", "rope_scaling", `{"type":"longrope","long_factor":[1,2],"short_factor":[1,2]}`, "long_factor has 2 numbers, and 8"},
		{"phi3", "rope_scaling", `{"type":"longrope","long_factor":[1,2,3,4,5,6,7,"8"]}`, "not a number"},
		{"phi3", "rope_scaling", `{"type":"linear","factor":2}`, "scaled by"},
		{"phi3", "original_max_position_embeddings", "1", "original_max_position_embeddings"},
		{"phi3", "original_max_position_embeddings", "0", "original_max_position_embeddings"},
		{"phi3", "partial_rotary_factor", "-1", "partial_rotary_factor"},
		{"phi3", "partial_rotary_factor", "1e300", "partial_rotary_factor"},
		{"gpt2", "n_inner", "0", "1 to"},
		{"gpt2", "n_embd", "null", "hidden_size"},
		{"gpt2", "scale_attn_by_inverse_layer_idx", "true", "scale_attn_by_inverse_layer_idx"},
		{"falcon", "alibi", "true", "alibi is true"},
		{"falcon", "bias", "true", "bias is true"},
		{"falcon", "rope_theta", "500000", "rope_theta"},
		{"deepseek3", "q_lora_rank", "null", "q_lora_rank"},
		{"deepseek3", "n_shared_experts", "null", "n_shared_experts"},
		{"deepseek3", "kv_lora_rank", "-5", "kv_lora_rank"},
		{"deepseek3", "qk_nope_head_dim", "null", "qk_nope_head_dim is needed"},
		{"deepseek3", "scoring_func", `"cosine"`, "softmax and sigmoid"},
		{"deepseek3", "moe_layer_freq", "2", "moe_layer_freq"},
		{"deepseek3", "routed_scaling_factor", "null", "routed_scaling_factor"},
		{"gpt-oss", "layer_types", `["full_attention","sliding_attention"]`, "alternate"},
		{"smollm3", "no_rope_layers", `[1,1,0,1]`, "one layer of every 4"},
		{"smollm3", "no_rope_layers", `[1,1,1]`, "one layer of every 4"},
		{"smollm3", "no_rope_layer_interval", "3", "no_rope_layer_interval"},
		{"gpt-oss", "swiglu_limit", "8", "swiglu_limit"},
		{"bert", "position_embedding_type", `"relative_key"`, "position_embedding_type"},
		{"bert", "architectures", `["BertForSequenceClassification"]`, "classifier.output_labels"},
		{"bert", "hidden_act", `[1]`, "hidden_act is a list"},
		{"bert", "hidden_act", `{"a":1}`, "hidden_act is an object"},
	} {
		_, err := keysOf(t, edited(t, texts[c.name], map[string]string{c.field: c.value}))
		switch {
		case c.want == "":
			if err != nil {
				t.Errorf("%s with %s %s: %v", c.name, c.field, c.value, err)
			}
		case err == nil || !strings.Contains(err.Error(), c.want):
			t.Errorf("%s with %s %s: error %v does not say %q", c.name, c.field, c.value, err, c.want)
		case strings.ContainsAny(err.Error(), "\n\r") || len(err.Error()) > 400:
			t.Errorf("%s with %s %s: not a line: %q", c.name, c.field, c.value, err)
		}
	}
	for _, text := range []string{"{}", `{"model_type":""}`, `{"architectures":[""]}`, `{"architectures":[null]}`, `{"model_type":"clip"}`} {
		if _, err := keysOf(t, text); err == nil {
			t.Errorf("%s has keys", text)
		}
	}
}

// TestUnknownFields holds that fields which a program reads, and which the description of the
// architecture does not know, are refused by name; and that fields which no program reads
// are noted by name.
func TestUnknownFields(t *testing.T) {
	texts := configs(t)
	const own = `{"AutoConfig":"configuration_own.Config"}`
	for _, c := range []struct{ name, field, value, autoMap, refused string }{
		{"qwen3", "layer_types", `["full_attention","sliding_attention"]`, "", "is not known"},
		{"qwen3", "layer_types", `["chunked_attention"]`, "", "is not known"},
		{"llama3", "attention_chunk_size", "64", "", "is not known"}, // of the code for all classes
		{"llama3", "rope_pct", "0.5", "", "is not known"},            // of the converter
		{"falcon", "qk_layernorm", "true", own, "is not known"},
		{"llama3", "attention_multiplier", "0.5", own, "is not known"},
		{"llama3", "attention_multiplier", "0.5", `{"AutoTokenizer":["tokenization_own.Tokenizer",null]}`, ""},
		{"llama3", "attn_logit_softcapping", "50.0", "", ""},
		{"llama3", "use_qk_norm", "true", "", ""},
		{"llama3", "use_qk_norm", "false", "", ""},
		{"llama3", "use_qk_norm", "false", own, ""},
		{"llama3", "is_llama_config", "true", "", ""},
		{"llama3", "transformers.js_config", `{"kv_cache_dtype":{"q4f16":"float16"}}`, "", ""},
		{"llama3", "wobbles", "[1,2]", "", ""},
		{"qwen2", "dual_chunk_attention_config", `{"chunk_size":262144}`, "", ""},
		{"mixtral", "shared_expert_intermediate_size", "64", "", ""},
		{"phi3", "embedding_multiplier", "12.0", "", ""},
		{"gpt2", "attn_config", `{"alibi":true}`, "", ""},
		{"bert", "sbert_ce_default_activation_function", `"torch.nn.modules.linear.Identity"`, "", ""},
		{"gpt-oss", "position_embedding_type", `"alibi"`, "", ""},
	} {
		edits := map[string]string{c.field: c.value}
		if c.autoMap != "" {
			edits["auto_map"] = c.autoMap
		}
		_, notes, err := keysAndNotes(t, edited(t, texts[c.name], edits))
		switch {
		case c.refused != "":
			if err == nil || !strings.Contains(err.Error(), c.field) || !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%s with %s %s: %v", c.name, c.field, c.value, err)
			}
		case err != nil || !slices.ContainsFunc(notes, func(note string) bool { return strings.Contains(note, strconv.Quote(c.field)) }):
			t.Errorf("%s with %s %s: %v, noted %q", c.name, c.field, c.value, err, notes)
		}
	}
	for _, c := range []struct{ field, value string }{
		{"attention_multiplier", "null"}, {"attn_config", "{}"}, {"layer_types", `["full_attention"]`}, {"mlp_bias", "false"}, {"unsloth_fixed", "true"}, {"attention_dropout", "0.1"}, {"_some_flag", "true"}, {"sep_token_id", "3"},
	} {
		if _, notes, err := keysAndNotes(t, edited(t, texts["llama3"], map[string]string{c.field: c.value})); err != nil || len(notes) > 0 {
			t.Errorf("%s %s: %v, noted %q", c.field, c.value, err, notes)
		}
	}
}

// TestSayings holds what fields that are there or not become.
func TestSayings(t *testing.T) {
	texts := configs(t)
	const null = "null"
	for _, c := range []struct {
		name   string
		fields map[string]string
		want   map[string]any // nil: the key is not there
	}{
		{"llama3", map[string]string{"architectures": ""}, map[string]any{"general.architecture": "llama"}},
		{"llama3", map[string]string{"architectures": "", "model_type": `"mistral"`, "rms_norm_eps": ""}, map[string]any{"llama.attention.layer_norm_rms_epsilon": float32(1e-6)}},
		{"llama3", map[string]string{"head_dim": "32"}, map[string]any{"llama.attention.key_length": uint32(32), "llama.attention.value_length": uint32(32), "llama.rope.dimension_count": uint32(32)}},
		{"llama3", map[string]string{"rope_scaling": `{"type":"linear","factor":4}`}, map[string]any{"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": float32(4), "llama.rope.scaling.original_context_length": nil}},
		{"llama3", map[string]string{"rope_scaling": "", "rope_theta": "", "rope_parameters": `{"rope_type":"default","rope_theta":7e5}`}, map[string]any{"llama.rope.freq_base": float32(7e5), "llama.rope.scaling.type": nil}},
		{"llama3", map[string]string{"is_causal": "false"}, map[string]any{"llama.attention.causal": false}},
		{"llama3", map[string]string{"is_causal": "true"}, map[string]any{"llama.attention.causal": nil}},
		{"llama3", map[string]string{"num_local_experts": "0", "num_experts_per_tok": "2"}, map[string]any{"llama.expert_count": nil, "llama.expert_used_count": nil}},
		{"mixtral", map[string]string{"rope_theta": ""}, map[string]any{"llama.rope.freq_base": float32(1e6)}},
		{"qwen3", map[string]string{"rope_scaling": `{"rope_type":"yarn","factor":2,"attention_factor":1.5,"extrapolation_factor":0.5}`},
			map[string]any{"qwen3.rope.scaling.yarn_attn_factor": float32(1.5), "qwen3.rope.scaling.yarn_ext_factor": float32(0.5)}},
		{"gemma3", map[string]string{"num_attention_heads": "", "num_key_value_heads": "", "head_dim": "", "rms_norm_eps": "", "rope_theta": "", "max_position_embeddings": "", "sliding_window": "", "rope_local_base_freq": "", "query_pre_attn_scalar": "256"},
			map[string]any{"gemma3.attention.head_count": uint32(8), "gemma3.attention.head_count_kv": uint32(4), "gemma3.attention.key_length": uint32(256), "gemma3.attention.value_length": uint32(256),
				"gemma3.rope.freq_base": float32(1e6), "gemma3.rope.freq_base_swa": float32(1e4), "gemma3.context_length": uint32(131072), "gemma3.attention.sliding_window": uint32(4096), "gemma3.attention.layer_norm_rms_epsilon": float32(1e-6)}},
		{"gemma3", map[string]string{"sliding_window_pattern": "1"}, map[string]any{"gemma3.attention.sliding_window": nil, "gemma3.attention.sliding_window_pattern": nil}},
		{"gemma3", map[string]string{"sliding_window_pattern": "2"}, map[string]any{"gemma3.attention.sliding_window": uint32(512), "gemma3.attention.sliding_window_pattern": uint32(2)}},
		{"gemma3", map[string]string{"sliding_window_pattern": "", "layer_types": `["sliding_attention","sliding_attention","full_attention","sliding_attention","sliding_attention","full_attention","sliding_attention"]`},
			map[string]any{"gemma3.attention.sliding_window_pattern": uint32(3)}},
		{"gemma3", map[string]string{"num_hidden_layers": "2", "layer_types": `["sliding_attention","sliding_attention"]`}, map[string]any{"gemma3.attention.sliding_window": uint32(512), "gemma3.attention.sliding_window_pattern": nil}},
		{"gemma3", map[string]string{"num_hidden_layers": "2", "layer_types": `["full_attention","full_attention"]`}, map[string]any{"gemma3.attention.sliding_window": nil}},
		{"gemma3", map[string]string{"final_logit_softcapping": "30.0"}, map[string]any{"gemma3.final_logit_softcapping": float32(30)}},
		{"gemma3", map[string]string{"rope_theta": "", "rope_local_base_freq": "", "rope_parameters": `{"full_attention":{"rope_type":"linear","factor":8.0,"rope_theta":5e5},"sliding_attention":{"rope_type":"default","rope_theta":2e4}}`},
			map[string]any{"gemma3.rope.freq_base": float32(5e5), "gemma3.rope.freq_base_swa": float32(2e4), "gemma3.rope.scaling.type": "linear", "gemma3.rope.scaling.factor": float32(8)}},
		{"phi3", map[string]string{"rope_scaling": null, "sliding_window": null, "original_max_position_embeddings": ""},
			map[string]any{"phi3.attention.sliding_window": uint32(0), "phi3.rope.scaling.attn_factor": nil, "phi3.rope.scaling.original_context_length": uint32(4096)}},
		{"phi3", map[string]string{"partial_rotary_factor": "0.75", "rope_scaling": null}, map[string]any{"phi3.rope.dimension_count": uint32(12)}},
		{"phi3", map[string]string{"max_position_embeddings": "4096"}, map[string]any{"phi3.rope.scaling.attn_factor": float32(1)}},
		{"gpt2", map[string]string{"n_inner": "100", "n_ctx": ""}, map[string]any{"gpt2.feed_forward_length": uint32(100), "gpt2.context_length": uint32(128)}},
		{"falcon", map[string]string{"new_decoder_architecture": "false", "num_kv_heads": "4"}, map[string]any{"falcon.attention.head_count_kv": uint32(1)}},
		{"deepseek3", map[string]string{"q_lora_rank": null, "num_hidden_layers": "27", "rms_norm_eps": "", "scoring_func": "", "norm_topk_prob": "false", "first_k_dense_replace": ""},
			map[string]any{"deepseek2.attention.q_lora_rank": nil, "deepseek2.attention.layer_norm_rms_epsilon": float32(1e-6), "deepseek2.expert_gating_func": uint32(2), "deepseek2.expert_weights_norm": nil, "deepseek2.leading_dense_block_count": uint32(3)}},
		{"deepseek3", map[string]string{"rope_scaling": `{"type":"yarn","factor":40,"mscale_all_dim":0.707}`}, map[string]any{"deepseek2.rope.scaling.yarn_log_multiplier": float32(0.1 * 0.707)}},
		{"gpt-oss", map[string]string{"rope_theta": "", "sliding_window": "", "head_dim": ""}, map[string]any{"gpt-oss.rope.freq_base": float32(150000), "gpt-oss.attention.sliding_window": uint32(128), "gpt-oss.attention.key_length": uint32(64)}},
	} {
		got, err := keysOf(t, edited(t, texts[c.name], c.fields))
		if err != nil {
			t.Errorf("%s with %v: %v", c.name, c.fields, err)
			continue
		}
		for k, w := range c.want {
			if got[k] != w {
				t.Errorf("%s with %v: %s is %v, want %v", c.name, c.fields, k, got[k], w)
			}
		}
	}
}

// TestUntested are the architectures without a golden file.
func TestUntested(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want map[string]any
	}{
		"gemma2": {`{"architectures":["Gemma2ForCausalLM"],"model_type":"gemma2","num_hidden_layers":26,"hidden_size":2304,"intermediate_size":9216,"num_attention_heads":8,"num_key_value_heads":4,"max_position_embeddings":8192,"query_pre_attn_scalar":256,"rope_theta":10000.0}`,
			map[string]any{"context_length": uint32(8192), "embedding_length": uint32(2304), "block_count": uint32(26), "feed_forward_length": uint32(9216), "attention.head_count": uint32(8), "attention.head_count_kv": uint32(4),
				"attention.layer_norm_rms_epsilon": float32(1e-6), "attention.key_length": uint32(256), "attention.value_length": uint32(256), "attn_logit_softcapping": float32(50), "final_logit_softcapping": float32(30), "attention.sliding_window": uint32(4096)}},
		"starcoder2": {`{"architectures":["Starcoder2ForCausalLM"],"model_type":"starcoder2","num_hidden_layers":30,"hidden_size":3072,"intermediate_size":12288,"num_attention_heads":24,"num_key_value_heads":2,"max_position_embeddings":16384,"norm_epsilon":1e-5,"rope_theta":999999.4420358813,"use_bias":true,"sliding_window":4096}`,
			map[string]any{"context_length": uint32(16384), "embedding_length": uint32(3072), "block_count": uint32(30), "feed_forward_length": uint32(12288), "attention.head_count": uint32(24), "attention.head_count_kv": uint32(2),
				"attention.layer_norm_epsilon": float32(1e-5), "rope.freq_base": float32(999999.4420358813)}},
		"nomic-bert": {`{"architectures":["NomicBertModel"],"model_type":"nomic_bert","n_layer":12,"n_embd":768,"n_head":12,"n_inner":3072,"n_positions":8192,"max_trained_positions":2048,"layer_norm_epsilon":1e-12,"rotary_emb_base":1000,"rotary_emb_fraction":1.0,"activation_function":"swiglu","prenorm":false,"causal":false,"rotary_emb_scale_base":null}`,
			map[string]any{"context_length": uint32(2048), "embedding_length": uint32(768), "block_count": uint32(12), "feed_forward_length": uint32(3072), "attention.head_count": uint32(12),
				"attention.key_length": uint32(64), "attention.value_length": uint32(64), // beside transformers 5, which has the class
				"attention.layer_norm_epsilon": float32(1e-12), "rope.freq_base": float32(1000), "attention.causal": false}},
	} {
		got, err := keysOf(t, c.text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for k, v := range got {
			if rest, ok := strings.CutPrefix(k, name+"."); ok {
				if w := c.want[rest]; w != v {
					t.Errorf("%s: %s is %v, want %v", name, k, v, w)
				}
				delete(c.want, rest)
			}
		}
		if len(c.want) > 0 {
			t.Errorf("%s: missing %v", name, c.want)
		}
	}
}

// TestShapesDecide has fields left out or wrong beside tensors.
func TestShapesDecide(t *testing.T) {
	texts := configs(t)
	for _, c := range []struct {
		name   string
		fields map[string]string
		want   map[string]any
		err    string
	}{
		{"llama3", map[string]string{"num_key_value_heads": ""}, map[string]any{"llama.attention.head_count_kv": uint32(2)}, ""},
		{"qwen3", map[string]string{"head_dim": ""}, map[string]any{"qwen3.attention.key_length": uint32(32)}, ""},
		{"phi3", map[string]string{"num_key_value_heads": ""}, map[string]any{"phi3.attention.head_count_kv": uint32(2)}, ""},
		{"gemma3", map[string]string{"head_dim": "", "num_key_value_heads": ""}, map[string]any{"gemma3.attention.key_length": uint32(16), "gemma3.attention.head_count_kv": uint32(1)}, ""},
		{"llama3", map[string]string{"num_key_value_heads": "4"}, nil, "contradicts the tensor layers.0.attention.k.weight"},
		{"llama3", map[string]string{"head_dim": "32"}, nil, "contradicts the tensor layers.0.attention.q.weight"},
		{"llama3", map[string]string{"hidden_size": "128"}, nil, "contradicts the tensor token_embedding.weight"},
		{"llama3", map[string]string{"intermediate_size": "100"}, nil, "contradicts the tensor layers.0.ffn"},
		{"phi3", map[string]string{"num_key_value_heads": "4"}, nil, "contradicts the tensor layers.0.attention.qkv.weight"},
		{"falcon", map[string]string{"num_kv_heads": "4"}, nil, "heads of k and v"},
		{"mlx-llama3-4bit", map[string]string{"hidden_size": "128"}, nil, "contradicts the tensor token_embedding.weight"},
	} {
		files := os.DirFS(filepath.Join(models, "whole-gguf", c.name))
		dir := t.TempDir()
		if err := os.CopyFS(dir, files); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(edited(t, texts[c.name], c.fields)), 0o666); err != nil {
			t.Fatal(err)
		}
		_, meta, err := describe(t, dir, nil)
		if (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s with %v: error %v, want %q", c.name, c.fields, err, c.err)
		}
		for k, w := range c.want {
			if !slices.Contains(meta, tensorfs.Meta{Key: k, Value: w}) {
				t.Errorf("%s with %v: %s is not %v", c.name, c.fields, k, w)
			}
		}
	}
}

// affordable is what keys and tensors of a golden model may allocate, for any config.json.
func affordable(text string) uint64 { return 16<<20 + 64*uint64(len(text)) }

// FuzzKeys holds that no config.json does harm: there is one line of reason, or
// keys that a file can have. Beside the tensors of a golden model of its architecture,
// numbers of 10^9 make nothing that is as long.
func FuzzKeys(f *testing.F) {
	models := map[string]*tensorfs.Model{}
	for name, text := range configs(f) {
		f.Add(text)
		for _, field := range []string{"head_dim", "num_hidden_layers", "vocab_size", "num_local_experts", "max_position_embeddings", "sliding_window_pattern"} {
			for _, n := range []string{"1000000000", "999999998", "-1", "2147483648", "9223372036854775808", "1e9"} {
				f.Add(edited(f, text, map[string]string{field: n}))
			}
		}
		m, cfg := open(f, filepath.Join(testdata, "whole-gguf", name))
		if about, err := settings.ToGGUF(m, cfg); err == nil && models[about.Architecture()] == nil {
			models[about.Architecture()] = m
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := jsonobj.Parse([]byte(text)); err != nil {
			return
		}
		used := testlimit.Allocated(func() {
			cfg := parsed(t, text)
			about, err := settings.ToGGUF(&tensorfs.Model{}, cfg)
			if err != nil {
				return
			}
			if m := models[about.Architecture()]; m != nil {
				if _, _, err := tensors(m, cfg, Options{}, 0, preset.Model{Architecture: about.Architecture()}); err != nil && strings.ContainsAny(err.Error(), "\n\r") {
					t.Errorf("%q", err)
				}
			}
		})
		if used > affordable(text) {
			t.Errorf("%d bytes are allocated for the tensors", used)
		}
		made, err := keysOf(t, text)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r") {
				t.Fatalf("%q", err)
			}
			return
		}
		arch := made["general.architecture"].(string)
		for k, v := range made {
			if x, ok := v.(float32); ok && (math.IsNaN(float64(x)) || math.IsInf(float64(x), 0)) {
				t.Errorf("%s is %v", k, x)
			}
		}
		if n := made[arch+".block_count"].(uint32); n < 1 || n > 512 {
			t.Errorf("%d layers", n)
		}
	})
}
