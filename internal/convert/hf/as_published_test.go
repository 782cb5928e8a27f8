package hf_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/gguf"
	"github.com/tensorfs/tensorfs/formats/safetensors"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/convert/hf"
	"github.com/tensorfs/tensorfs/internal/testing/memory"
	"github.com/tensorfs/tensorfs/internal/testing/testwhole"
)

// tableOf returns the rows of a table of tensors, as tensorsOfGGUF has them, and the keys beside it.
func tableOf(t *testing.T, name string) (tensors, keys map[string]string) {
	t.Helper()
	tensors, keys = map[string]string{}, map[string]string{}
	for _, line := range strings.Split(strings.TrimSpace(string(read(t, "published/"+name+".tensors.tsv"))), "\n")[1:] {
		tensor, rest, _ := strings.Cut(line, "\t")
		tensors[tensor] = strings.ReplaceAll(strings.TrimSpace(rest), "\t", " ")
	}
	var meta map[string]struct {
		Type  string
		Value json.RawMessage
	}
	if err := json.Unmarshal(read(t, "published/"+name+".meta.json"), &meta); err != nil {
		t.Fatal(err)
	}
	for key, v := range meta {
		if bytes.HasPrefix(v.Value, []byte("[")) && !strings.HasPrefix(v.Type, "array:") {
			v.Type = "array:" + v.Type
		}
		keys[key] = expectedValue(t, v.Type, v.Value)
	}
	return tensors, keys
}

// published is what is held of a model of testdata/published.
type published struct {
	unread  string         // patterns of keys that differ from the converter's file; a comment at each gives the reason
	absent  string         // tensors that the converter loses, and llama.cpp needs
	reason  string         // why there is no gguf/
	note    string         // what is said of the file
	config  map[string]any // fields of hf/ of the GGUF file
	tensors string         // tensors of hf/ that have to be there, and with "-" that must not
}

// asPublished are models whose files are as publishers, or transformers 5, write them.
var asPublished = map[string]published{
	// llama.cpp's granite reads no key of state spaces, takes no number of experts for none, reads the width of shared experts
	// only beside others, and a number of heads of k and v for all layers as a list of it.
	"granite4-micro": {
		unread:  "granite.ssm.* granite.expert_* granite.attention.head_count_kv",
		config:  map[string]any{"architectures": []any{"GraniteForCausalLM"}, "tie_word_embeddings": true},
		tensors: "model.layers.0.mlp.gate_proj.weight",
	},
	"granite4-moe-attention": { // the same
		unread:  "granitemoe.ssm.* granitemoe.attention.head_count_kv",
		config:  map[string]any{"architectures": []any{"GraniteMoeSharedForCausalLM"}, "shared_intermediate_size": 24.0},
		tensors: "model.layers.0.block_sparse_moe.input_linear.weight",
	},
	"nemotron-latent": { // whose converter was asked for no further tokens
		note:    "the layer that predicts further tokens is left out",
		config:  map[string]any{"moe_latent_size": 16.0},
		tensors: "backbone.layers.1.mixer.fc1_latent_proj.weight -mtp.layers.0.enorm.weight",
	},
	// A toy of three layers: llama.cpp norms q and k of 64 and more, see TestManyLayersOfCohere.
	"cohere-r-plus": {reason: "llama.cpp norms q and k of models of 64 layers or more"},
	// llama.cpp does not load a lfm2moe without the bias of its router, and never scales what experts give.
	"lfm2-moe-scale": {reason: "use_expert_bias is false, and only true can be said"},
	// The end tokens of its generation_config.json are other tokens in the order of the tokenizers library.
	"added-tokens-out-of-order": {note: `does not end an answer at 401`},
	"gemma2-untied":             {note: "lm_head is left out"},
	"qwen2-window":              {note: "sliding_window 8 is left out"},
	"qwen3moe-window":           {note: "sliding_window 8 is left out"},
	"modern-bert-pooling":       {config: map[string]any{"classifier_pooling": "cls"}},
	"pixtral":                   {absent: "v.token_embd.img_break", config: map[string]any{"architectures": []any{"LlamaForCausalLM"}}},
	"ministral3-vl":             {absent: "v.token_embd.img_break", config: map[string]any{"architectures": []any{"Ministral3ForCausalLM"}}, tensors: "lm_head.weight"},
	"gemma4-saved-by-transformers5": {
		config:  map[string]any{"num_kv_shared_layers": 2.0},
		tensors: "model.layers.1.self_attn.k_norm.weight -model.layers.2.self_attn.k_norm.weight -model.layers.3.self_attn.k_proj.weight",
	},
	"umt5-3-2": {
		config:  map[string]any{"num_layers": 3.0, "num_decoder_layers": 2.0},
		tensors: "encoder.block.2.layer.0.SelfAttention.q.weight -decoder.block.2.layer.0.SelfAttention.q.weight",
	},
	"t5-gated-saved-by-transformers5": {config: map[string]any{"tie_word_embeddings": false}, tensors: "lm_head.weight shared.weight"},
	"falcon2": {
		config:  map[string]any{"new_decoder_architecture": true, "num_ln_in_parallel_attn": 1.0, "num_kv_heads": 2.0},
		tensors: "transformer.h.0.input_layernorm.weight",
	},
}

// TestAsPublished holds that gguf/ of each model of testdata/published has the tensors and keys of
// llama.cpp's converter, and that hf/ of that file has what the class needs.
func TestAsPublished(t *testing.T) {
	tables, err := filepath.Glob(data + "published/*/config.json")
	if err != nil || len(tables) < 27 {
		t.Fatalf("%d models, %v", len(tables), err)
	}
	for _, table := range tables {
		name := filepath.Base(filepath.Dir(table))
		t.Run(name, func(t *testing.T) { asPublished[name].check(t, name) })
	}
}

func (c published) check(t *testing.T, name string) {
	m, err := formats.Open(data + "published/" + name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	made := convert.GGUF(m, convert.Options{})
	if made.Reason != "" || c.reason != "" {
		if c.reason == "" || !strings.Contains(made.Reason, c.reason) {
			t.Errorf("gguf/ is refused: %q, want %q", made.Reason, c.reason)
		}
		return
	}
	notes := strings.Join(made.Notes, "\n")
	if !strings.Contains(notes, c.note) || c.note == "" && strings.Contains(notes, "config.json:") && !strings.Contains(notes, "neither transformers nor") {
		t.Errorf("the notes are %q, want %q", notes, c.note)
	}
	files := contents(t, made)
	var wrong problems
	for name, file := range map[string]string{name: "model.gguf", name + ".mmproj": "mmproj.gguf"} {
		if _, err := os.Stat(data + "published/" + name + ".tensors.tsv"); err != nil {
			continue
		}
		tensors, keys := tableOf(t, name)
		if files[file] == nil {
			t.Fatalf("there is no %s: %q", file, made.Notes)
		}
		g := testwhole.Parse(t, files[file])
		got := tensorsOfGGUF(t, g)
		for _, name := range strings.Fields(c.absent) {
			delete(got, name)
		}
		wrong.compare(got, tensors)
		has := keysOf(g)
		arch := fmt.Sprint(g.Value("general.architecture"))
		heads, _ := g.Value(arch + ".attention.head_count").(uint32)
		width, _ := g.Value(arch + ".embedding_length").(uint32)
		shared := fmt.Sprintf("UINT32 \"%d\"", width/max(heads, 1))
		for _, list := range []map[string]string{has, keys} {
			withoutAssumed(list, "general.name")
			maps.DeleteFunc(list, func(key, v string) bool {
				if strings.HasSuffix(key, ".attention.key_length") || strings.HasSuffix(key, ".attention.value_length") { // as without the key
					return v == shared
				}
				return slices.ContainsFunc(strings.Fields(c.unread), func(pattern string) bool { ok, _ := filepath.Match(pattern, key); return ok })
			})
		}
		// The converter knows the pre-tokenizer of no toy, and some tables are without the vocabulary.
		if keys["tokenizer.ggml.pre"] == `STRING "default"` {
			delete(keys, "tokenizer.ggml.pre")
		}
		for _, key := range []string{"pre", "tokens", "token_type", "merges"} {
			if _, ok := keys["tokenizer.ggml."+key]; !ok {
				delete(has, "tokenizer.ggml."+key)
			}
		}
		wrong.compare(has, keys)
	}
	back := wrong.of(t, hf.HF, openGGUF, map[string][]byte{"m.gguf": files["model.gguf"]})
	if back != nil {
		config := fields(t, back["config.json"])
		for name, want := range c.config {
			if !sameValue(config[name], want) {
				wrong.add("config.json of hf/ has %s %v, want %v", name, config[name], want)
			}
		}
		list := namesIn(t, back["model.safetensors"])
		for _, name := range strings.Fields(c.tensors) {
			name, without := strings.CutPrefix(name, "-")
			if slices.Contains(list, name) == without {
				wrong.add("hf/ has %s: %v", name, !without)
			}
		}
	}
	for _, problem := range wrong {
		t.Error(problem)
	}
}

// namesIn returns the names of the tensors of a file.
func namesIn(t *testing.T, file []byte) (list []string) {
	t.Helper()
	m, err := formats.OpenFS(memory.New(map[string][]byte{"m.safetensors": file}), "m.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	for i := range m.Tensors {
		list = append(list, m.Tensors[i].Source)
	}
	return list
}

// TestWithoutTextClass: a model of several parts whose text_config has no architectures is
// described by the model_type there.
func TestWithoutTextClass(t *testing.T) {
	files := onDisk(t, data+"published/ministral3-vl")
	config := fields(t, files["config.json"])
	text := config["text_config"].(map[string]any)
	delete(text, "rope_parameters")
	text["model_type"], text["rope_theta"], text["is_composition"] = "mistral", 1e9, true
	config["architectures"], config["model_type"], config["vision_feature_select_strategy"] = []any{"LlavaForConditionalGeneration"}, "llava", "full"
	delete(config, "spatial_merge_size")
	for kind, want := range map[string]string{"mistral": "llama", "wobble": ""} {
		text["model_type"] = kind
		files["config.json"], _ = json.Marshal(config)
		m, err := openDirectory(memory.New(files))
		if err != nil {
			t.Fatal(err)
		}
		made := convert.GGUF(m, convert.Options{})
		switch {
		case want == "" && !strings.Contains(made.Reason, "LlavaForConditionalGeneration"), want != "" && made.Reason != "":
			t.Errorf("%s: %q", kind, made.Reason)
		case want != "":
			got := testwhole.Parse(t, contents(t, made)["model.gguf"])
			if got.Value("general.architecture") != any(want) || len(got.Tensors) != 21 {
				t.Errorf("%s: %v with %d tensors", kind, got.Value("general.architecture"), len(got.Tensors))
			}
		}
		m.Close()
	}
}

// TestChangedConfigs makes gguf/ of golden models with a changed config.json: either a key has the
// value that the class takes, or the error gives the reason.
func TestChangedConfigs(t *testing.T) {
	const gone = "\x00"
	for _, c := range []struct {
		model   string
		changes map[string]any
		key     string
		want    any
		reason  string
		note    string
	}{
		{"hunyuan-dense", map[string]any{"eod_token_id": 3}, "tokenizer.ggml.eos_token_id", uint32(3), "", ""},
		{"olmo3", map[string]any{"rope_theta": gone}, "olmo2.rope.freq_base", float32(500000), "", ""},
		{"olmo3", map[string]any{"layer_types": gone}, "olmo2.attention.sliding_window_pattern", []any{true, true, true, false}, "", ""},
		{"exaone4", map[string]any{"layer_types": gone, "sliding_window": 64}, "exaone4.attention.sliding_window_pattern", []any{true, true, true, false}, "", ""},
		{"command-r", map[string]any{"rope_theta": gone}, "command-r.rope.freq_base", float32(500000), "", ""},
		{"command-r", map[string]any{"rope_theta": nil}, "", nil, "rope_theta is null", ""},
		{"command-r", map[string]any{"use_qk_norm": true}, "", nil, "use_qk_norm says otherwise", ""},
		{"cohere2", map[string]any{"rope_theta": gone}, "cohere2.rope.freq_base", nil, "", ""},
		{"smollm3", map[string]any{"rope_theta": gone}, "smollm3.rope.freq_base", float32(2000000), "", ""},
		{"ernie4.5", map[string]any{"rope_theta": gone}, "ernie4_5.rope.freq_base", float32(500000), "", ""},
		{"ernie4.5-moe", map[string]any{"rope_theta": gone}, "ernie4_5-moe.rope.freq_base", float32(500000), "", ""},
		{"minimax-m2", map[string]any{"rope_theta": gone}, "minimax-m2.rope.freq_base", float32(5000000), "", ""},
		{"phimoe", map[string]any{"rope_theta": gone}, "phimoe.rope.freq_base", float32(1000000), "", ""},
		{"solar-open", map[string]any{"rope_theta": gone}, "glm4moe.rope.freq_base", float32(1000000), "", ""},
		{"apertus", map[string]any{"rope_theta": gone}, "apertus.rope.freq_base", float32(12000000), "", ""},
		{"apertus", map[string]any{"rope_scaling": gone}, "", nil, "scales rotary embeddings as Llama 3 does", ""},
		{"nemotron_h", map[string]any{}, "nemotron_h.attention.layer_norm_rms_epsilon", float32(1e-5), "", ""},
		{"nemotron_h", map[string]any{"rms_norm_eps": 1e-5}, "nemotron_h.attention.layer_norm_rms_epsilon", float32(1e-5), "", ""},
		{"roberta-classifier", map[string]any{"id2label": gone}, "bert.classifier.output_labels", []any{"LABEL_0", "LABEL_1", "LABEL_2", "LABEL_3", "LABEL_4", "LABEL_5", "LABEL_6", "LABEL_7", "LABEL_8", "LABEL_9", "LABEL_10"}, "", ""},
		{"roberta", map[string]any{"id2label": gone}, "bert.classifier.output_labels", nil, "", ""},
		{"t5", map[string]any{"tie_word_embeddings": true}, "t5.block_count", uint32(2), "", "by the root of d_model"},
		{"t5", map[string]any{"num_decoder_layers": 3}, "", nil, "more layers than its encoder", ""},
		{"t5", map[string]any{"num_decoder_layers": 1}, "", nil, "layer 1 has true for has.attention_norm", ""},
		{"../whole-gguf/qwen2", map[string]any{"use_sliding_window": true, "sliding_window": 8, "max_window_layers": 1}, "", nil, "", "sliding_window 8 is left out"},
		{"../whole-gguf/qwen2", map[string]any{"use_sliding_window": false, "sliding_window": 8, "max_window_layers": 1}, "", nil, "", "-sliding_window"},
		{"../whole-gguf/qwen2", map[string]any{"use_sliding_window": true, "sliding_window": 8, "max_window_layers": 99}, "", nil, "", "-sliding_window"},
		{"../whole-gguf/llama3", map[string]any{"architectures": []any{"MistralForCausalLM"}, "model_type": "mistral", "sliding_window": 8}, "", nil, "", "sliding_window 8 is left out"},
		{"../whole-gguf/llama3", map[string]any{"architectures": []any{"MistralForCausalLM"}, "model_type": "mistral", "sliding_window": nil}, "", nil, "", "-sliding_window"},
		{"../whole-gguf/qwen2", map[string]any{"use_sliding_window": true, "sliding_window": 8, "max_window_layers": 1, "layer_types": []any{"full_attention", "sliding_attention"}}, "", nil, "", "sliding_window 8 is left out"},
		{"../whole-gguf/qwen3", map[string]any{"use_sliding_window": true, "sliding_window": 8, "max_window_layers": 1, "layer_types": []any{"full_attention", "sliding_attention"}}, "", nil, "", "sliding_window 8 is left out"},
		{"../whole-gguf/qwen3moe", map[string]any{"use_sliding_window": true, "sliding_window": 8, "max_window_layers": 1, "layer_types": []any{"full_attention", "sliding_attention"}}, "", nil, "", "sliding_window 8 is left out"},
		{"../whole-gguf/qwen2", map[string]any{"use_sliding_window": true, "sliding_window": 8, "max_window_layers": 2, "layer_types": []any{"full_attention", "full_attention"}}, "", nil, "", "-sliding_window"},
		{"mistral3", map[string]any{"text_config.sliding_window": 8}, "mistral3.attention.sliding_window", nil, "", "sliding_window 8 is left out"},
		{"../whole-gguf/gemma3", map[string]any{"sliding_window": 8}, "gemma3.attention.sliding_window", uint32(8), "", "-sliding_window"},
		{"../whole-gguf/gpt-oss", map[string]any{"rope_scaling.truncate": true}, "gpt-oss.rope.scaling.type", "yarn", "", "truncate of rope_scaling"},
		{"../whole-gguf/gpt-oss", map[string]any{"rope_scaling.truncate": false}, "gpt-oss.rope.scaling.type", "yarn", "", "-truncate"},
		{"qwen2-vl", map[string]any{"rope_theta": gone}, "qwen2vl.rope.freq_base", float32(1000000), "", ""},
		{"qwen2.5-vl", map[string]any{"rope_theta": gone}, "qwen2vl.rope.freq_base", float32(1000000), "", ""},
		{"qwen2.5-omni", map[string]any{"thinker_config.text_config.rope_theta": gone}, "qwen2vl.rope.freq_base", float32(1000000), "", ""},
		{"qwen3-vl", map[string]any{"text_config.rope_theta": gone}, "qwen3vl.rope.freq_base", float32(500000), "", ""},
		{"qwen3-vl-moe", map[string]any{"text_config.rope_theta": gone}, "qwen3vlmoe.rope.freq_base", float32(500000), "", ""},
		{"qwen3-omni", map[string]any{"thinker_config.text_config.rope_theta": gone}, "qwen3vlmoe.rope.freq_base", float32(1000000), "", ""},
		{"hy3", map[string]any{"rope_parameters.rope_theta": gone}, "hy_v3.rope.freq_base", float32(11158840), "", ""},
		{"../whole-gguf/llama3", map[string]any{"rms_norm_eps": gone}, "llama.attention.layer_norm_rms_epsilon", float32(1e-6), "", ""},
		{"../whole-gguf/llama3", map[string]any{"rms_norm_eps": gone, "auto_map": map[string]any{"AutoModelForCausalLM": "m.C"}}, "llama.attention.layer_norm_rms_epsilon", float32(1e-6), "", ""},
		{"../whole-gguf/llama3", map[string]any{"rms_norm_eps": nil}, "", nil, "none of rms_norm_eps", ""},
		{"phi2", map[string]any{"layer_norm_eps": gone}, "phi2.attention.layer_norm_epsilon", float32(1e-5), "", ""},
		{"glm-dsa", map[string]any{"rms_norm_eps": gone}, "glm-dsa.attention.layer_norm_rms_epsilon", float32(1e-5), "", ""},
		{"granitehybrid-dense", map[string]any{"intermediate_size": 24}, "granitehybrid.feed_forward_length", uint32(48), "", ""},
		{"../published/granite4-micro", map[string]any{"intermediate_size": 24}, "granite.feed_forward_length", uint32(40), "", ""},
		{"minicpm", map[string]any{"mup_denominator": 32, "auto_map": map[string]any{"AutoConfig": "configuration_minicpm.MiniCPMConfig"}}, "", nil, "", "-left out"}, // only drafts read it
		{"minicpm", map[string]any{"mup_denominator": 32, "sparse_config": map[string]any{"kernel_size": 32, "topk": 64, "use_nope": false}}, "", nil, "", "sparse_config is left out"},
		{"../whole-gguf/gpt2", map[string]any{"activation_function": "gelu"}, "", nil, "", `activation_function is "gelu": hf/ of the file has "gelu_new"`},
		{"../whole-gguf/gpt2", map[string]any{"activation_function": "gelu_pytorch_tanh"}, "", nil, "", "-gelu"},
		{"../whole-gguf/bert", map[string]any{"hidden_act": "gelu_new"}, "", nil, "", `hidden_act is "gelu_new"`},
		{"../whole-gguf/gemma3", map[string]any{"hidden_act": "gelu"}, "", nil, "", "-gelu"}, // its class has hidden_activation
		{"mpt", map[string]any{"fc_type": "torch", "ffn_config": map[string]any{"fc_type": map[string]any{"name": "torch"}, "ffn_type": "mptmlp"}, "use_pad_tok_in_ffn": true}, "", nil, "", "-left out"},
		{"mpt", map[string]any{"fc_type": map[string]any{"name": "torch"}}, "", nil, "", "-left out"},
		{"mpt", map[string]any{"ffn_config": map[string]any{"ffn_type": "mptglu"}}, "", nil, "ffn_type", ""},
		{"mpt", map[string]any{"ffn_config": map[string]any{"ffn_type": "mptmlp", "wobble": 2}}, "", nil, "ffn_config.wobble", ""},
		{"ernie4.5", map[string]any{"compression_ratio": 1.0, "auto_map": map[string]any{"AutoConfig": "c.C"}}, "", nil, "", "-left out"},
		{"ernie4.5", map[string]any{"compression_ratio": 2.0, "auto_map": map[string]any{"AutoConfig": "c.C"}}, "", nil, "compression_ratio", ""},
		{"stablelm", map[string]any{"norm_eps": 1e-5, "layer_norm_eps": 1e-5, "rotary_scaling_factor": 1.0, "auto_map": map[string]any{"AutoConfig": "c.C"}}, "", nil, "", "-left out"},
		{"stablelm", map[string]any{"norm_eps": 1e-6, "layer_norm_eps": 1e-5}, "", nil, "norm_eps", ""},
		{"glm4moe", map[string]any{"scoring_func": "sigmoid"}, "", nil, "", "-left out"},
		{"glm4moe", map[string]any{"scoring_func": "softmax"}, "", nil, "scoring_func", ""},
		{"phimoe", map[string]any{}, "phimoe.rope.scaling.attn_factor", float32(1.3540064), "", "-mscale"},
		{"phimoe", map[string]any{"rope_scaling": phiScaling(1.243, 1.3540064007726602)}, "phimoe.rope.scaling.attn_factor", float32(1.3540064), "", "long_mscale and short_mscale of rope_scaling are left out"},
		{"phimoe", map[string]any{"rope_scaling": phiScaling(1.3540064007726602, 1.5)}, "phimoe.rope.scaling.attn_factor", float32(1.3540064), "", "long_mscale and short_mscale of rope_scaling are left out"},
		{"falcon-h1", map[string]any{"tie_word_embeddings": true}, "", nil, "", "lm_head_multiplier is left out"},
		{"deci", nil, "deci.block_count", uint32(4), "", "llama.cpp leaves out the attention of layers without a feed-forward"},
	} {
		files := onDisk(t, data+"architectures/"+c.model)
		config := map[string]any{}
		if err := json.Unmarshal(bytes.ReplaceAll(files["config.json"], []byte("Infinity"), []byte("1e300")), &config); err != nil {
			t.Fatal(err)
		}
		for name, v := range c.changes {
			o := config
			for part, rest, ok := strings.Cut(name, "."); ok; part, rest, ok = strings.Cut(name, ".") {
				o, name = o[part].(map[string]any), rest
			}
			if o[name] = v; v == gone {
				delete(o, name)
			}
		}
		files["config.json"], _ = json.Marshal(config)
		m, err := openDirectory(memory.New(files))
		if err != nil {
			t.Fatal(err)
		}
		made := convert.GGUF(m, convert.Options{})
		switch {
		case c.reason != "" || made.Reason != "":
			if c.reason == "" || !strings.Contains(made.Reason, c.reason) {
				t.Errorf("%s with %q: %q, want %q", c.model, c.changes, made.Reason, c.reason)
			}
		default:
			got := testwhole.Parse(t, contents(t, made)["model.gguf"]).Value(c.key)
			if a, ok := got.(tensorfs.Array); ok {
				got = elements(a)
			}
			if fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("%s with %q: %s is %v, want %v", c.model, c.changes, c.key, got, c.want)
			}
			note, without := strings.CutPrefix(c.note, "-")
			if strings.Contains(strings.Join(made.Notes, "\n"), note) == without {
				t.Errorf("%s with %q: %q, want %q", c.model, c.changes, made.Notes, c.note)
			}
		}
		m.Close()
	}
}

// phiScaling is rope_scaling of Phi-3.5-MoE.
func phiScaling(short, long float64) map[string]any {
	factors := []any{1.0, 1.5, 2.0, 3.0}
	return map[string]any{"type": "longrope", "short_factor": factors, "long_factor": factors, "original_max_position_embeddings": 64, "short_mscale": short, "long_mscale": long}
}

// TestManyLayersOfCohere: llama.cpp norms q and k of a command-r of 64 layers, as Command R+ has
// them, and hf/ records it.
func TestManyLayersOfCohere(t *testing.T) {
	text, _ := pairOf(t, "command-r")
	g := testwhole.Parse(t, text)
	meta := slices.Clone(g.Metadata)
	for i := range meta {
		if meta[i].Key == "command-r.block_count" {
			meta[i].Value = uint32(64)
		}
	}
	var list []gguf.Stored
	add := func(name string, d tensorfs.DType, shape []int64, b tensorfs.Data) {
		list = append(list, gguf.Stored{Name: name, DType: d, Shape: shape, Data: b})
	}
	for _, x := range g.Tensors {
		if !strings.HasPrefix(x.Source, "blk.") {
			add(x.Source, x.DType, x.Shape, x.Data)
		}
	}
	for layer := range 64 {
		for _, x := range g.Tensors {
			if rest, ok := strings.CutPrefix(x.Source, "blk.0."); ok {
				add(fmt.Sprintf("blk.%d.%s", layer, rest), x.DType, x.Shape, x.Data)
			}
		}
		for norm, heads := range map[string]int64{"q": 4, "k": 2} {
			add(fmt.Sprintf("blk.%d.attn_%s_norm.weight", layer, norm), tensorfs.F32, []int64{heads, 16}, make(tensorfs.Bytes, heads*64))
		}
	}
	open := func(list []gguf.Stored) *tensorfs.Model {
		d, err := gguf.Compose(meta, list)
		if err != nil {
			t.Fatal(err)
		}
		m, err := openGGUF(memory.New(map[string][]byte{"m.gguf": all(t, d)}))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { m.Close() })
		return m
	}
	m := open(list)
	made := hf.HF(m, convert.Options{})
	if made.Reason != "" {
		t.Fatal(made.Reason)
	}
	files := contents(t, made)
	if fields(t, files["config.json"])["use_qk_norm"] != true || !slices.Contains(namesIn(t, files["model.safetensors"]), "model.layers.63.self_attn.k_norm.weight") {
		t.Errorf("hf/ has no norms: %s", files["config.json"])
	}
	var wrong problems
	if again := wrong.of(t, convert.GGUF, openDirectory, files); again != nil {
		got := tensorsOfGGUF(t, testwhole.Parse(t, again["model.gguf"]))
		if len(got) != len(list) || !strings.HasPrefix(got["blk.63.attn_q_norm.weight"], "F32 16x4 ") {
			wrong.add("gguf/ of hf/ has %d tensors, and %q", len(got), got["blk.63.attn_q_norm.weight"])
		}
	}
	m = open(slices.DeleteFunc(list, func(x gguf.Stored) bool { return x.Name == "blk.5.attn_q_norm.weight" }))
	if made := hf.HF(m, convert.Options{}); !strings.Contains(made.Reason, "q_norm") {
		wrong.add("without a norm: %q", made.Reason)
	}
	for _, problem := range wrong {
		t.Error(problem)
	}
}

// TestNormsOfNemotron: llama.cpp reads the key of RMS norms, the class has one epsilon.
func TestNormsOfNemotron(t *testing.T) {
	m, err := formats.Open(data + "architectures/nemotron_h")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	g := testwhole.Parse(t, contents(t, convert.GGUF(m, convert.Options{}))["model.gguf"])
	var list []gguf.Stored
	for _, x := range g.Tensors {
		list = append(list, gguf.Stored{Name: x.Source, DType: x.DType, Shape: x.Shape, Data: x.Data})
	}
	for epsilon, want := range map[float32]string{1e-5: "", 0.5: "layer_norm_rms_epsilon is 0.5"} {
		meta := slices.DeleteFunc(slices.Clone(g.Metadata), func(m tensorfs.Meta) bool { return m.Key == "nemotron_h.attention.layer_norm_rms_epsilon" })
		d, err := gguf.Compose(append(meta, tensorfs.Meta{Key: "nemotron_h.attention.layer_norm_rms_epsilon", Value: epsilon}), list)
		if err != nil {
			t.Fatal(err)
		}
		changed, err := openGGUF(memory.New(map[string][]byte{"m.gguf": all(t, d)}))
		if err != nil {
			t.Fatal(err)
		}
		if made := hf.HF(changed, convert.Options{}); (made.Reason == "") != (want == "") || !strings.Contains(made.Reason, want) {
			t.Errorf("%v: %q, want %q", epsilon, made.Reason, want)
		}
		changed.Close()
	}
}

// TestLongFactorsOfMiniCPM: the lists of factors of MiniCPM 4 go into the GGUF file and back.
func TestLongFactorsOfMiniCPM(t *testing.T) {
	files := onDisk(t, data+"architectures/minicpm")
	config := fields(t, files["config.json"])
	long := []any{1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5}
	rope := map[string]any{"rope_type": "longrope", "long_factor": long, "short_factor": long, "original_max_position_embeddings": 2048.0}
	config["rope_scaling"] = rope
	files["config.json"], _ = json.Marshal(config)
	var wrong problems
	made := wrong.of(t, convert.GGUF, openDirectory, files)
	if made == nil {
		t.Fatal(wrong)
	}
	g := testwhole.Parse(t, made["model.gguf"])
	if got := tensorsOfGGUF(t, g); g.Value("minicpm.rope.scaling.type") != any("longrope") || got["rope_factors_long.weight"] == "" || got["rope_factors_short.weight"] != got["rope_factors_long.weight"] {
		t.Errorf("%v, %q", g.Value("minicpm.rope.scaling.type"), got["rope_factors_long.weight"])
	}
	back := wrong.of(t, hf.HF, openGGUF, map[string][]byte{"m.gguf": made["model.gguf"]})
	if back == nil {
		t.Fatal(wrong)
	}
	scaling, _ := fields(t, back["config.json"])["rope_scaling"].(map[string]any)
	for name, want := range rope {
		if !sameValue(scaling[name], want) {
			t.Errorf("hf/ has %s %v, want %v", name, scaling[name], want)
		}
	}
	rope["original_max_position_embeddings"] = 1024.0
	files["config.json"], _ = json.Marshal(config)
	m, err := openDirectory(memory.New(files))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if made := convert.GGUF(m, convert.Options{}); !strings.Contains(made.Reason, "beyond a part of max_position_embeddings") {
		t.Errorf("%q", made.Reason)
	}
}

// TestWithoutSlidingLayers: mlx-lm's exaone4 takes a pattern only with both kinds of layers.
func TestWithoutSlidingLayers(t *testing.T) {
	files := onDisk(t, data+"architectures/exaone4")
	config := fields(t, files["config.json"])
	config["sliding_window"], config["sliding_window_pattern"] = nil, nil
	delete(config, "layer_types")
	files["config.json"], _ = json.Marshal(config)
	var wrong problems
	made := wrong.of(t, convert.GGUF, openDirectory, files)
	if made == nil {
		t.Fatal(wrong)
	}
	back := wrong.of(t, hf.MLX, openGGUF, map[string][]byte{"m.gguf": made["model.gguf"]})
	if back == nil {
		t.Fatal(wrong)
	}
	if v, ok := fields(t, back["config.json"])["sliding_window_pattern"]; !ok || v != nil {
		t.Errorf("sliding_window_pattern is %v", v)
	}
}

// TestPicturesOfGemma4: tokens of a picture see each other, but in models of two widths.
func TestPicturesOfGemma4(t *testing.T) {
	text, tower := pairOf(t, "gemma4")
	m, err := openGGUF(memory.New(map[string][]byte{"m.gguf": text}))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	made := hf.HF(m, beside(t, tower))
	if made.Reason != "" {
		t.Fatal(made.Reason)
	}
	config, _ := fields(t, contents(t, made)["config.json"])["text_config"].(map[string]any)
	if config["use_bidirectional_attention"] != "vision" {
		t.Errorf("use_bidirectional_attention is %v", config["use_bidirectional_attention"])
	}
}

// TestLeftOutOfGemma4: llama.cpp decides by the width whether tokens of a picture see each other,
// and a note names a config.json that contradicts it.
func TestLeftOutOfGemma4(t *testing.T) {
	const note = "use_bidirectional_attention is left out"
	files := onDisk(t, data+"architectures/gemma4")
	config := fields(t, files["config.json"])
	for value, want := range map[any]bool{nil: true, "vision": false} {
		config["text_config"].(map[string]any)["use_bidirectional_attention"] = value
		files["config.json"], _ = json.Marshal(config)
		m, err := openDirectory(memory.New(files))
		if err != nil {
			t.Fatal(err)
		}
		made := convert.GGUF(m, convert.Options{})
		if got := strings.Contains(strings.Join(made.Notes, "\n"), note); got != want || contents(t, made)["mmproj.gguf"] == nil {
			t.Errorf("%v: %q", value, made.Notes)
		}
		m.Close()
	}
}

// TestPrompts: the texts that sentence-transformers puts before others are in no GGUF file.
func TestPrompts(t *testing.T) {
	for text, want := range map[string]bool{`{"prompts":{"query":"query: ","document":""}}`: true, `{"prompts":{"query":""}}`: false, `{}`: false} {
		files := onDisk(t, data+"architectures/qwen3-embedding")
		files["config_sentence_transformers.json"] = []byte(text)
		m, err := openDirectory(memory.New(files))
		if err != nil {
			t.Fatal(err)
		}
		made := convert.GGUF(m, convert.Options{})
		if got := strings.Contains(strings.Join(made.Notes, "\n"), `without the prompts of config_sentence_transformers.json ("query")`); made.Reason != "" || got != want {
			t.Errorf("%s: %q %q", text, made.Reason, made.Notes)
		}
		m.Close()
	}
}

// withHead returns the files of a golden model with a matrix for the output of its own, or without
// one, and the reason why there is no mlx/ of its GGUF file.
func withHead(t *testing.T, model string, own bool) (files map[string][]byte, gguf, fromGGUF string) {
	t.Helper()
	files = onDisk(t, data+"architectures/"+model)
	m, err := openDirectory(memory.New(files))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	var list []safetensors.Stored
	for i := range m.Tensors {
		x := &m.Tensors[i]
		if strings.HasSuffix(x.Source, "lm_head.weight") {
			continue
		}
		list = append(list, safetensors.Stored{Name: x.Source, DType: x.DType, Shape: x.Shape, Data: x.Data})
		if own && strings.HasSuffix(x.Source, "embed_tokens.weight") {
			zeros := make(tensorfs.Bytes, x.Data.Size())
			list = append(list, safetensors.Stored{Name: "lm_head.weight", DType: x.DType, Shape: x.Shape, Data: zeros})
		}
	}
	weights, err := safetensors.Compose([][2]string{{"format", "pt"}}, list)
	if err != nil {
		t.Fatal(err)
	}
	files["model.safetensors"] = all(t, weights)
	config := fields(t, files["config.json"])
	config["tie_word_embeddings"] = !own
	files["config.json"], _ = json.Marshal(config)
	if m, err = openDirectory(memory.New(files)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	made := convert.GGUF(m, convert.Options{})
	if made.Reason != "" {
		return files, made.Reason, ""
	}
	g, err := openGGUF(memory.New(map[string][]byte{"m.gguf": contents(t, made)["model.gguf"]}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	return files, "", hf.MLX(g, convert.Options{}).Reason
}

// TestHeadsOfMLX: some classes of mlx-lm always have a matrix for the output, some never do.
// llama.cpp's Cohere 2 never has one either.
func TestHeadsOfMLX(t *testing.T) {
	const always, never = "has a matrix for the output", "takes the embedding for the last matrix"
	for _, c := range []struct {
		model      string
		own        bool
		mlx, noted string // why there is no mlx/ of the directory, and of its GGUF file
		gguf       string // why there is no GGUF file
	}{
		{"glm4", false, always, always, ""},
		{"glm4", true, "", "", ""},
		{"stablelm", false, always, always, ""},
		{"nemotron_h", false, always, always, ""},
		{"command-r", true, never, never, ""},
		{"command-r", false, "", "", ""},
		{"lfm2", true, never, never, ""},
		{"lfm2moe", true, never, never, ""},
		{"cohere2", true, never, "", "llama.cpp does not have in cohere2"},
		{"cohere2", false, "", "", ""},
		{"gemma", true, never, "", ""},
	} {
		files, gguf, noted := withHead(t, c.model, c.own)
		m, err := openDirectory(memory.New(files))
		if err != nil {
			t.Fatal(err)
		}
		mlx := hf.MLX(m, convert.Options{}).Reason
		m.Close()
		for what, reason := range map[string][2]string{"mlx/": {mlx, c.mlx}, "mlx/ of gguf/": {noted, c.noted}, "gguf/": {gguf, c.gguf}} {
			if (reason[0] == "") != (reason[1] == "") || !strings.Contains(reason[0], reason[1]) {
				t.Errorf("%s with its own head %v: no %s: %q, want %q", c.model, c.own, what, reason[0], reason[1])
			}
		}
	}
}
