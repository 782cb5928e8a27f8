package convert

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/internal/convert/internal/settings"
	"github.com/tensorfs/tensorfs/internal/convert/layout"
	"github.com/tensorfs/tensorfs/internal/testing/memory"
)

// eachGolden calls do with every golden model that has a config.json.
func eachGolden(t *testing.T, do func(name string, m *tensorfs.Model, config map[string]any)) {
	t.Helper()
	for _, root := range []string{"architectures", "whole-gguf"} {
		found, err := filepath.Glob(filepath.Join(testdata, root, "*", "config.json"))
		if err != nil || len(found) == 0 {
			t.Fatal(found, err)
		}
		for _, file := range found {
			m, err := formats.Open(filepath.Dir(file))
			if err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var config map[string]any
			if err := json.Unmarshal(text, &config); err != nil {
				t.Fatal(err)
			}
			do(filepath.Base(filepath.Dir(file)), m, config)
			m.Close()
		}
	}
}

// readFields are the rows of config_fields.txt about the fields of model types, with their defaults.
func readFields(t *testing.T) map[string]map[string]any {
	t.Helper()
	text, err := os.ReadFile("../../formats/architectures/config_fields.txt")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]map[string]any{}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) < 2 || strings.ContainsAny(words[0], "#+") || slices.Contains(words, ":") {
			continue
		}
		fields := map[string]any{}
		for _, word := range words[1:] {
			name, value, _ := strings.Cut(word, "=")
			var v any
			if value != "" && json.Unmarshal([]byte(value), &v) == nil && v != nil {
				fields[name] = v
			}
		}
		all[words[0]] = fields
	}
	return all
}

// madeOf returns the keys that are made from a config.json, and the notes about it.
func madeOf(t *testing.T, m *tensorfs.Model, config map[string]any) (keys map[string]any, notes []string, err error) {
	t.Helper()
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	about, err := settings.ToGGUF(m, parsed(t, string(text)))
	if err != nil {
		return nil, nil, err
	}
	meta, err := about.Keys(settings.Given{Rows: int64(embeddingRows(m)), Tokenizer: true, Tensor: layout.TensorsOf(m).Find})
	if err != nil {
		return nil, nil, err
	}
	keys = map[string]any{}
	for _, k := range meta {
		keys[k.Key] = k.Value
	}
	return keys, about.Notes(), nil
}

// other returns another value of a type.
func other(v any) any {
	switch v := v.(type) {
	case bool:
		return !v
	case float64:
		if v == 0 {
			return 1
		}
		return 2 * v
	case string:
		return "wobble"
	}
	return nil
}

// harmless are fields that a class reads, and whose value changes no key.
var harmless = map[string]string{
	"training":     "*dropout* *_pdrop initializer_* init_* rescale_prenorm_residual *jitter* router_aux_loss_coef mtp_loss_scaling_factor time_step_m* time_step_floor time_step_scale learnable_sink_init sparse_pred*",
	"answers":      "*_token_id *_token_index im_*_id use_cache num_logits_to_keep output_router_logits is_decoder is_encoder_decoder classifier_* decoder_bias summary_*",
	"precision":    "*fp32* mamba_ssm_cache_dtype use_mamba* use_associative_scan chunk_size mamba_chunk_size pretraining_tp reorder_and_upcast_attn",
	"other parts":  "audio_* vision_* image_* projector_* projectors_bias multimodal_projector_bias mm_tokens_per_image spatial_merge_size scale_factor downsample_* drop_vision* insert_layer_id merger_times enable_audio_output",
	"windows":      "use_sliding_window max_window_layers sliding_window sliding_window_pattern",
	"tensors":      "attention_bias mlp_bias no_bias use_qkv_bias use_qk_norm mamba_conv_bias mamba_rms_norm multi_query tie_word_embeddings vocab_size vocab_size_per_layer_input type_vocab_size block_* expand mamba_expand mamba_d_head intermediate_size moe_intermediate_size num_heads time_step_rank learned_pos_emb sinusoidal_pos_embds",
	"into tensors": "*_multiplier",
	"layers":       "attn_layer_* expert_layer_* moe_layer_end_index gating num_nextn_predict_layers",
	"no experts":   "moe_shared_expert_* n_group topk_group n_routed_experts n_shared_experts norm_topk_prob num_experts_per_tok routed_scaling_factor",
	"other fields": "rope_theta head_dim num_key_value_heads num_attention_heads linear_* max_position_embeddings n_positions", // say it
}

// TestChangedDefaults changes each field that the class of a golden model declares, and that
// has a default, in turn: the reason names it, a key changes, a note names it, or it is one
// that is known to be harmless.
func TestChangedDefaults(t *testing.T) {
	types := readFields(t)
	known := strings.Fields(strings.Join(slices.Collect(maps.Values(harmless)), " "))
	tried := 0
	eachGolden(t, func(name string, m *tensorfs.Model, config map[string]any) {
		keys, notes, err := madeOf(t, m, config)
		if err != nil {
			return
		}
		text, _ := config["text_config"].(map[string]any)
		for _, o := range []map[string]any{config, text} {
			of, _ := o["model_type"].(string)
			for field, value := range types[of] {
				was, has := o[field]
				if has {
					value = was
				}
				if value = other(value); value == nil {
					continue
				}
				tried++
				o[field] = value
				got, said, err := madeOf(t, m, config)
				changed := err != nil || !slices.Equal(said, notes) || fmt.Sprint(got) != fmt.Sprint(keys)
				if !changed && !slices.ContainsFunc(known, func(pattern string) bool { ok, _ := filepath.Match(pattern, field); return ok }) {
					t.Errorf("%s with %s %v: nothing changes, and nothing is said", name, field, value)
				}
				if delete(o, field); has {
					o[field] = was
				}
			}
		}
	})
	if tried < 3000 {
		t.Errorf("%d fields", tried)
	}
}

// TestForeignFields adds fields that no program reads to each golden model, and fields that the
// class of another model reads. They are noted; where the model's own code may read them, they
// are the reason for no file.
func TestForeignFields(t *testing.T) {
	types := readFields(t)
	eachGolden(t, func(name string, m *tensorfs.Model, config map[string]any) {
		if _, _, err := madeOf(t, m, config); err != nil {
			return
		}
		_, own := config["auto_map"]
		top, _ := config["model_type"].(string)
		text, _ := config["text_config"].(map[string]any)
		inner, _ := text["model_type"].(string)
		own = own || types[top] == nil || inner != "" && types[inner] == nil
		for field, value := range map[string]any{
			"wobble_factor": 2, "wobble_mode": "round", "wobbles": []int{1}, "wobble": map[string]any{"a": 1}, // of none
			"altup_lr_scale": 2, "mamba_enable_jitter": true, "laurel_rank_scale": 0.5, "token_scale_mlp": 2, // of others
		} {
			for _, o := range []map[string]any{config, text} {
				if o == nil {
					continue
				}
				o[field] = value
				_, notes, err := madeOf(t, m, config)
				said := strings.Join(notes, "\n")
				if err != nil {
					said = err.Error()
				}
				if delete(o, field); !strings.Contains(said, strconv.Quote(field)) || (err != nil) != own {
					t.Errorf("%s with %s %v: %v, noted %q", name, field, value, err, notes)
				}
			}
		}
	})
}

// TestTowerFields adds fields to vision_config. An unknown field that the tower's class reads is
// the reason for no mmproj.gguf; a field that no program reads gets a note.
func TestTowerFields(t *testing.T) {
	for _, c := range []struct{ name, field, value, reason string }{
		{"qwen3-vl", "wobble", "2", ""},
		{"qwen3-vl", "wobble", `"round"`, ""},
		{"qwen3-vl", "hidden_dropout", "0.5", ""}, // which is about training
		{"gemma3-vl", "vision_feature_layer", "-2", ""},
		{"gemma4", "attention_bias", "true", "attention_bias"},
		{"gemma4", "rope_theta", "100.0", ""},
		{"gemma4", "rope_theta", "10000.0", ""}, // outside of rope_parameters, which count
		{"gemma4", "rope_parameters", `{"rope_type":"axial","rope_theta":100.0}`, ""},
		{"gemma4", "rope_parameters", `{"rope_type":"default","rope_theta":50.0}`, "rope_theta is 50"},
		{"mistral3", "rope_theta", "10000.0", ""},
		{"mistral3", "rope_theta", "5000.0", "rope_theta is 5000"},
		{"../published/pixtral", "rope_parameters", `{"rope_type":"default","rope_theta":20000.0}`, "rope_theta is 20000"},
		{"qwen3-vl", "rope_parameters", `{"rope_type":"axial","rope_theta":10000.0}`, ""},
		{"qwen3-vl", "rope_parameters", `{"rope_type":"yarn","rope_theta":10000.0,"factor":2.0}`, `of the kind "yarn"`},
		{"llama4", "rope_theta", "500000.0", "rope_theta is 500000"},
		{"gemma3-vl", "rope_theta", "500.0", ""}, // which its class does not read
		{"qwen3-vl", "layer_types", `["sliding_attention"]`, "is not known"},
		{"llama4", "use_qk_norm", "false", "is not known"},
		{"llama4", "model.vision_feature_layer", "-2", ""}, // which its class does not read
		{"lfm2-vl", "model.projector_hidden_act", `"silu"`, "projector_hidden_act"},
		{"lfm2-vl", "model.projector_hidden_act", `"gelu"`, ""},
		{"lfm2-vl", "model.vision_feature_layer", "-2", "vision_feature_layer"},
		{"mistral3", "model.multimodal_projector_bias", "true", ""}, // which tensors show
		{"mistral3", "model.spatial_merge_size", "3", ""},
		{"../published/pixtral", "model.vision_feature_select_strategy", `"default"`, "vision_feature_select_strategy"},
		{"../published/pixtral", "model.vision_feature_layer", "-2", "vision_feature_layer"},
	} {
		dir := filepath.Join(testdata, "architectures", c.name)
		files := map[string][]byte{}
		list, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			if files[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
				t.Fatal(err)
			}
		}
		var config map[string]any
		if err := json.Unmarshal(files["config.json"], &config); err != nil {
			t.Fatal(err)
		}
		if name, outside := strings.CutPrefix(c.field, "model."); outside {
			config[name] = json.RawMessage(c.value)
		} else {
			config["vision_config"].(map[string]any)[c.field] = json.RawMessage(c.value)
		}
		if files["config.json"], err = json.Marshal(config); err != nil {
			t.Fatal(err)
		}
		m, err := formats.OpenFS(memory.New(files), ".")
		if err != nil {
			t.Fatal(err)
		}
		about, err := settings.ToProjector(m, parsed(t, string(files["config.json"])), architectures.Vision)
		m.Close()
		said := ""
		if err != nil {
			said = err.Error()
		} else {
			said = strings.Join(about.Notes(), "\n")
		}
		if (err != nil) != (c.reason != "") || !strings.Contains(said, c.reason) || c.field == "wobble" != strings.Contains(said, `"wobble": left out`) {
			t.Errorf("%s with %s %s: %v, noted %q", c.name, c.field, c.value, err, said)
		}
	}
}

// TestEmptyRope: a value that Python takes for false, instead of an object about rotary embeddings, counts as missing.
func TestEmptyRope(t *testing.T) {
	eachGolden(t, func(name string, m *tensorfs.Model, config map[string]any) {
		if name != "llama3" && name != "smollm3" {
			return
		}
		for _, field := range []string{"rope_scaling", "rope_parameters"} {
			was := config[field]
			delete(config, field)
			want, _, err := madeOf(t, m, config)
			for _, v := range []any{false, "", 0, []any{}, map[string]any{}, nil} {
				config[field] = v
				if got, notes, gotErr := madeOf(t, m, config); fmt.Sprint(got, gotErr) != fmt.Sprint(want, err) {
					t.Errorf("%s with %s %v: %v, %v, noted %q", name, field, v, got, gotErr, notes)
				}
			}
			config[field] = []any{1}
			if _, _, err := madeOf(t, m, config); field == "rope_scaling" && (err == nil || !strings.HasSuffix(err.Error(), "not an object; correct the field")) {
				t.Errorf("%s with a list for %s: %v", name, field, err)
			}
			if delete(config, field); was != nil {
				config[field] = was
			}
		}
	})
}

// TestWholeNumbers: 8.0 is 8 wherever a field is compared or written, and a list in its place ends nothing.
func TestWholeNumbers(t *testing.T) {
	for name, field := range map[string]string{"minimax-m2": "rotary_dim", "gemma4": "global_head_dim"} {
		eachGolden(t, func(golden string, m *tensorfs.Model, config map[string]any) {
			if golden != name {
				return
			}
			o := config
			if text, ok := config["text_config"].(map[string]any); ok {
				o = text
			}
			n, ok := o[field].(float64)
			o[field] = json.RawMessage(fmt.Sprintf("%.1f", n))
			if _, _, err := madeOf(t, m, config); err != nil || !ok {
				t.Errorf("%s with %s %.1f: %v", name, field, n, err)
			}
			o[field] = []any{n}
			if keys, _, err := madeOf(t, m, config); keys == nil && err == nil {
				t.Errorf("%s with a list for %s: nothing", name, field)
			}
			o[field] = n
		})
	}
}
