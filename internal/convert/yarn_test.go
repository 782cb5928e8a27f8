package convert

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/formats"
)

// TestYarn: of rope_scaling by yarn llama.cpp reads the factor, and little else of most
// architectures. What it computes otherwise than transformers is noted.
func TestYarn(t *testing.T) {
	const scores, turns = "the scores of attention", "cosines and sines"
	for _, c := range []struct {
		model, scaling string // what is said beside the type, the factor 4 and the context
		note           string // "" for none
	}{
		{"qwen3", ``, ""},
		{"qwen3", `,"beta_fast":32,"beta_slow":1.0`, ""},
		{"qwen3", `,"beta_fast":64`, "beta_fast 64 (llama.cpp has 32)"},
		{"qwen3", `,"beta_slow":2`, "beta_slow 2 (llama.cpp has 1)"},
		{"qwen3", `,"truncate":false`, "truncate false"},
		{"qwen3", `,"attention_factor":1.0`, turns + " are multiplied by, 1 (llama.cpp has 1.139)"},
		{"qwen3", `,"attention_factor":1.1386294361119891`, ""},
		{"qwen3", `,"mscale":0.5,"mscale_all_dim":0.5`, turns + " are multiplied by, 1 (llama.cpp has 1.139)"},
		{"qwen3", `,"mscale":1.0,"mscale_all_dim":0`, ""},
		{"llama3", `,"mscale":1.0,"mscale_all_dim":1.0`, turns},
		{"deepseek3", `,"mscale":1.0,"mscale_all_dim":1.0`, ""},
		{"deepseek3", `,"mscale":0.707,"mscale_all_dim":0.707`, ""},
		{"deepseek3", `,"mscale":0.5,"mscale_all_dim":1.0`, turns},
		{"deepseek3", `,"mscale":1.0,"mscale_all_dim":0`, scores},
		{"deepseek3", ``, scores},
		{"deepseek3", `,"mscale":1.0,"mscale_all_dim":1.0,"beta_fast":1`, "beta_fast 1"},
		{"deepseek32", `,"mscale":1.0,"mscale_all_dim":1.0`, ""},
		{"deepseek32", `,"mscale":0.707,"mscale_all_dim":0.707`, turns},
		{"ministral3", `,"mscale":1.0,"mscale_all_dim":1.0,"llama_4_scaling_beta":0.1,"beta_fast":64`, ""},
		{"ministral3", `,"mscale":0.5,"mscale_all_dim":1.0,"llama_4_scaling_beta":0.1`, turns},
	} {
		dir := goldenDirs(t)[filepath.Base(c.model)]
		m, err := formats.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		var config map[string]any
		text, err := os.ReadFile(filepath.Join(dir, "config.json"))
		if err != nil || decode(text, &config) != nil {
			t.Fatal(dir, err)
		}
		delete(config, "rope_parameters")
		delete(config, "original_max_position_embeddings")
		config["max_position_embeddings"] = 256
		config["rope_scaling"] = json.RawMessage(`{"rope_type":"yarn","rope_theta":10000.0,"factor":4.0,"original_max_position_embeddings":64` + c.scaling + `}`)
		_, notes, err := madeOf(t, m, config)
		m.Close()
		if err != nil {
			t.Errorf("%s %s: %v", c.model, c.scaling, err)
			continue
		}
		said := strings.Join(notes, "\n")
		if (said != "") != (c.note != "") || !strings.Contains(said, c.note) {
			t.Errorf("%s %s: %q, want %q", c.model, c.scaling, said, c.note)
		}
	}
}
