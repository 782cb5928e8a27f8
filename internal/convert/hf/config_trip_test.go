package hf

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/convert/layout"
	"github.com/tensorfs/tensorfs/internal/testing/testwhole"
)

// lost are fields that a GGUF file does not keep and that change no number, and fields that have a
// comparison of their own.
var lost = []string{
	"attention_dropout", "attn_pdrop", "dtype", "experts_per_token", "initial_context_length",
	"num_nextn_predict_layers", "output_router_logits", "quantization", "quantization_config", "rope_scaling", "router_aux_loss_coef", "torch_dtype",
}

// tripped are fields that come back in another form, by model. A value of nil must
// be missing or null.
var tripped = map[string]map[string]any{
	"falcon":          {"multi_query": false}, // means nothing in the new architecture
	"qwen2":           {"eos_token_id": ends(368, 366)},
	"mlx-qwen2-mixed": {"eos_token_id": ends(368, 366)},
	"llama3":          {"eos_token_id": ends(370, 367)}, // eos comes first
	"mlx-llama3-4bit": {"eos_token_id": ends(370, 367)}, // the same
	"smollm3":         {"eos_token_id": 370.0},          // the tokenizer's
	"gemma3":          {"eos_token_id": ends(1, 5)},     // what llama.cpp ends at besides: <end_of_turn>
	"mlx-gemma3-8bit": {"eos_token_id": ends(1, 5)},
	"gpt-oss":         {"eos_token_id": ends(358, 357, 364)}, // <|endoftext|>, <|call|>
	"qwen2moe":        {"eos_token_id": ends(338, 336)},      // the tokenizer's, and <|endoftext|>
	"qwen3moe":        {"eos_token_id": ends(338, 336)},
	"qwen3":           {"tie_word_embeddings": false, "eos_token_id": ends(368, 366)}, // the matrix is stored nevertheless
}

// ends is a list of tokens in JSON.
func ends(list ...float64) []any {
	var out []any
	for _, id := range list {
		out = append(out, id)
	}
	return out
}

// TestConfigRoundTrip makes the GGUF file of Hugging Face and MLX directories, and
// config.json of it again.
func TestConfigRoundTrip(t *testing.T) {
	dirs, err := filepath.Glob(testdata + "whole-gguf/*/config.json")
	if err != nil || len(dirs) < 20 {
		t.Fatal(dirs, err)
	}
	for _, file := range dirs {
		name := filepath.Base(filepath.Dir(file))
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			want, got := readJSON(t, text), readJSON(t, trip(t, filepath.Dir(file)))
			scaling, _ := want["rope_scaling"].(map[string]any)
			for _, k := range lost {
				delete(want, k)
			}
			maps.Copy(want, tripped[name])
			maps.Copy(want, wantedByEngines(want))
			for k, w := range want {
				if !reflect.DeepEqual(got[k], w) {
					t.Errorf("%s is %v, want %v", k, got[k], w)
				}
			}
			sameScaling(t, got, scaling)
		})
	}
}

// throughGGUF opens the GGUF file of a directory.
func throughGGUF(t *testing.T, dir string) *tensorfs.Model {
	t.Helper()
	f := convert.GGUF(testwhole.Open(t, dir), convert.Options{})
	if f.Reason != "" || len(f.List) != 1 {
		t.Fatal(f.Reason)
	}
	return testwhole.OpenGGUF(t, testwhole.Read(t, f.List[0].Data))
}

// trip returns config.json of the GGUF file of a directory.
func trip(t *testing.T, dir string) []byte {
	t.Helper()
	m := throughGGUF(t, dir)
	text, err := config(m, givenOf(m, map[string]any{"torch_dtype": "float16"}), false)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// sameScaling holds that all settings of rotary embeddings survive. Llama 3's parameters survive
// only if they are the published ones; otherwise the numbers computed from them do.
func sameScaling(t *testing.T, config, want map[string]any) {
	t.Helper()
	got, _ := config["rope_scaling"].(map[string]any)
	if want["rope_type"] == "llama3" && got["rope_type"] == "longrope" {
		head := config["head_dim"].(float64)
		list := layout.Llama3Divisors(int64(head), config["rope_theta"].(float64), float32(want["factor"].(float64)), 1, 4, float32(want["original_max_position_embeddings"].(float64)))
		var back []float32
		text, _ := json.Marshal(got["short_factor"])
		if err := json.Unmarshal(text, &back); err != nil || !slices.Equal(back, list) {
			t.Errorf("%v, want %v", got, list)
		}
		if !reflect.DeepEqual(got["long_factor"], got["short_factor"]) || got["original_max_position_embeddings"] != config["max_position_embeddings"] ||
			config["original_max_position_embeddings"] != config["max_position_embeddings"] {
			t.Errorf("%v", config)
		}
		return
	}
	for k, w := range want {
		if !reflect.DeepEqual(got[k], w) {
			t.Errorf("rope_scaling has %s %v, want %v", k, got[k], w)
		}
	}
	for k, v := range got {
		if _, ok := want[k]; !ok && !slices.Contains(strings.Fields("type rope_type"), k) {
			t.Errorf("rope_scaling has %s %v", k, v)
		}
	}
}
