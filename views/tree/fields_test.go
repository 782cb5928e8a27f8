package tree_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/testing/memory"
)

// TestFieldsThatChangeTheModel adds fields of other releases to golden models. If the model's
// class reads one, it changes what the model computes, llama.cpp would not, and the reason
// names it. Otherwise a note names it.
func TestFieldsThatChangeTheModel(t *testing.T) {
	unread := strings.Fields("granite olmo2 glm4 seed_oss nemotron gemma glm ernie4.5 dots1 granitemoe olmoe")
	for _, c := range []struct{ name, field, value string }{
		{"granite", "attn_logit_softcapping", `30.0`},
		{"smollm3", "use_sliding_window", `true`},
		{"mamba2", "time_step_limit", `[0.1, 0.5]`},
		{"lfm2", "num_experts", `4`},
		{"olmo2", "clip_qkv", `8.0`},
		{"glm4", "num_kv_shared_layers", `2`},
		{"seed_oss", "embedding_multiplier", `12.0`},
		{"nemotron", "use_moe", `true`},
		{"kimi-k2", "index_topk", `2048`},
		{"gemma", "final_logit_softcapping", `30.0`},
		{"glm", "use_qk_norm", `true`},
		{"ernie4.5", "moe_num_experts", `4`},
		{"dots1", "index_topk", `2048`},
		{"minicpm", "attention_multiplier", `0.5`},
		{"granitemoe", "num_nextn_predict_layers", `1`},
		{"olmoe", "shared_expert_intermediate_size", `64`},
		{"deepseek-moe", "kv_lora_rank", `16`},
		{"jamba", "mamba_inner_layernorms", `false`}, // true by default
		{"falcon-h1", "mamba_use_mlp", `false`},
	} {
		dir := "../../testdata/architectures/" + c.name
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
		plain := files["config.json"]
		field := "{\"" + c.field + "\": " + c.value + ",\n"
		if at := bytes.Index(plain, []byte(`"`+c.field+`"`)); at >= 0 {
			t.Errorf("%s has %s", c.name, c.field)
			continue
		}
		for config, added := range map[string]bool{string(plain): false, field + strings.TrimLeft(string(plain), "{ \n"): true} {
			files["config.json"] = []byte(config)
			m, err := formats.OpenFS(memory.New(files), ".")
			if err != nil {
				t.Fatal(err)
			}
			refused, noted := added && !slices.Contains(unread, c.name), added && slices.Contains(unread, c.name)
			f := convert.GGUF(m, convert.Options{})
			said := strings.Join(f.Notes, "\n")
			if (f.Reason != "") != refused || refused && !strings.Contains(f.Reason, c.field) || noted != strings.Contains(said, c.field) {
				t.Errorf("%s with %s %s: %q, noted %q", c.name, c.field, c.value, f.Reason, said)
			}
			m.Close()
		}
	}
}
