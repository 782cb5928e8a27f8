package tree_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/names"
	"github.com/tensorfs/tensorfs/internal/assemble"
	"github.com/tensorfs/tensorfs/internal/testing/memory"
)

// TestConfigAgrees holds that a directory of Hugging Face and the GGUF file that the
// converter makes of it have the same config, but for fields that only one of the two
// can know. The golden models have tables of these files.
func TestConfigAgrees(t *testing.T) {
	compared := 0
	for _, golden := range []string{"architectures", "whole-gguf"} {
		tables, err := filepath.Glob(filepath.Join("../../testdata", golden, "expected/*.meta.json"))
		if err != nil || len(tables) == 0 {
			t.Fatal(tables, err)
		}
		for _, table := range tables {
			name := strings.TrimSuffix(filepath.Base(table), ".meta.json")
			if strings.HasSuffix(name, ".mmproj") {
				continue
			}
			dir := filepath.Join("../../testdata", golden, name)
			want := byName(configOfTable(t, strings.TrimSuffix(table, ".meta.json")))
			for _, config := range []string{"config.json", "config.v5.json"} { // as published, and as transformers 5 saves it
				text, err := os.ReadFile(filepath.Join(dir, config))
				if err != nil {
					continue
				}
				compared++
				t.Run(name+"/"+config, func(t *testing.T) {
					m := openWith(t, dir, text)
					sameFields(t, byName(m.Config), want, strings.Fields(ownOf[name]))
				})
			}
		}
	}
	if compared < 100 {
		t.Errorf("only %d models", compared)
	}
}

// ownOf are the fields of a model that differ, because one of the two files does not say
// what the other does.
var ownOf = map[string]string{
	"llama3":          "rope_scaling_factor rope_orig_ctx", // a GGUF file has the factors that follow from them
	"mlx-llama3-4bit": "rope_scaling_factor rope_orig_ctx",
	"exaone":          "rope_scaling_factor rope_orig_ctx",
	"exaone4":         "rope_scaling_factor rope_orig_ctx",
	"exaone4.5":       "rope_scaling_factor rope_orig_ctx",
	"apertus":         "rope_scaling_factor rope_orig_ctx",
	"deepseek3":       "n_nextn_layers", // the converter leaves the layer out
	"minicpmv4.6":     "n_nextn_layers", // the directory does not have the layer
	"qwen3":           "tie_embeddings", // the matrix is stored though it is tied
	"mt5":             "tie_embeddings",
	"t5-lm-head":      "tie_embeddings",
	"umt5":            "tie_embeddings",
	"eurobert":        "tie_embeddings", // there is no such matrix
	"llama-embed":     "tie_embeddings rope_scaling_factor rope_orig_ctx",
	"t5encoder":       "tie_embeddings",
	"umt5-model":      "tie_embeddings",
	"nomic-bert":      "max_seq_len", // the converter writes with how many tokens it was trained
	"nomic-bert-moe":  "max_seq_len architecture",

	"qwen3-reranker-untied": "tie_embeddings", // the converter leaves two rows of the matrix
	"glm":                   "max_seq_len",    // the converter writes the width of the hidden state

	"hunyuan-dense": "rope_theta rope_local_theta rope_scaling_type rope_orig_ctx", // the converter works alpha into the base
	"qwen2.5-omni":  "tie_embeddings",                                              // as qwen3-vl-moe
	"qwen3-vl-moe":  "tie_embeddings",                                              // transformers 5 writes the default of the class for text

	"hunyuan-vl":    "rope_scaling_type n_experts rope_orig_ctx",                                // the converter writes alpha for its own scaling, and no single expert
	"grok":          "attn_logit_softcap",                                                       // config.json leaves it to a default
	"grok2":         "rope_scaling_factor rope_scaling_type sliding_window",                     // config.json has fields of its own for them
	"step3.5":       "n_heads_per_layer n_kv_heads_per_layer rope_orig_ctx rope_scaling_factor", // a GGUF file has layers that predict among the others, and the divisors
	"step3.7":       "n_kv_heads_per_layer rope_orig_ctx rope_scaling_factor",                   // as step3.5
	"unlimited-ocr": "v_head_dim norm_eps",                                                      // as deepseek-ocr
	"deepseek-ocr":  "v_head_dim norm_eps",                                                      // config.json has a 0, and leaves the other to a default
	"dbrx":          "rope_theta rope_local_theta",                                              // transformers 5 writes a base that it has from nowhere
	"internlm2":     "rope_scaling_factor rope_scaling_type",                                    // as internlm3
	"internlm3":     "rope_scaling_factor rope_scaling_type",                                    // the converter does not write dynamic scaling
	"mamba-lm":      "ssm_state ssm_conv_kernel ssm_dt_rank ssm_inner",                          // config.json leaves them to defaults
	"codeshell":     "rope_scaling_type",                                                        // the converter writes a linear scaling by 1
	"hy3":           "n_dense_layers n_experts_shared",                                          // the converter does not write them
	"plm":           "kv_dim mla_v_head_dim n_kv_heads v_head_dim",                              // as of minicpm3
	"minicpm3":      "kv_dim rope_orig_ctx mla_v_head_dim n_kv_heads v_head_dim",                // a GGUF file does not say how k and v are stored

	// These have no description yet, which says it.
	"llama4": "ffn_dim",
	"laguna": "n_heads n_heads_per_layer q_dim n_dense_layers sliding_window_pattern sliding_window_pattern_per_layer", // lists of config.json
}

// sameFields compares the config of a directory with that of its GGUF file.
func sameFields(t *testing.T, dir, gguf map[string]string, own []string) {
	t.Helper()
	for field, x := range dir {
		if y, ok := gguf[field]; (!ok || x != y) && !slices.Contains(own, field) {
			t.Errorf("%s is %s, and %q in GGUF", field, x, y)
		}
	}
	for field, y := range gguf {
		if _, ok := dir[field]; !ok && !slices.Contains(own, field) {
			t.Errorf("%s is %s in GGUF", field, y)
		}
	}
}

// openWith opens the model in a directory with another config.json.
func openWith(t *testing.T, dir string, config []byte) *tensorfs.Model {
	t.Helper()
	files := map[string][]byte{"config.json": config}
	for _, name := range []string{"model.safetensors", "model.safetensors.index.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"} {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err == nil {
			files[name] = text
		}
	}
	m, err := formats.OpenFS(memory.New(files), ".")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

func byName(fields []tensorfs.Field) map[string]string {
	out := map[string]string{}
	for _, f := range fields {
		out[f.Name] = fmt.Sprint(f.Value)
	}
	for _, own := range []string{"quant_bits", "quant_group_size", "quant_mode"} { // how the numbers are stored
		delete(out, own)
	}
	return out
}

// configOfTable returns the config of a GGUF file of which there are tables of its keys and
// of its tensors.
func configOfTable(t *testing.T, table string) []tensorfs.Field {
	t.Helper()
	text, err := os.ReadFile(table + ".meta.json")
	if err != nil {
		t.Fatal(err)
	}
	var meta map[string]struct{ Value any }
	text = regexp.MustCompile(`-?Infinity`).ReplaceAll(text, []byte("null"))
	if err := json.Unmarshal(text, &meta); err != nil {
		t.Fatal(err)
	}
	if text, err = os.ReadFile(table + ".tensors.tsv"); err != nil {
		t.Fatal(err)
	}
	var ts assemble.Tensors
	for line := range strings.Lines(string(text)) {
		f := strings.Split(strings.TrimSpace(line), "\t")
		if f[0] == "name" {
			continue
		}
		var shape []int64
		for n := range strings.SplitSeq(f[2], "x") {
			v, err := strconv.ParseInt(n, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			shape = slices.Insert(shape, 0, v)
		}
		ts.Add(tensorfs.Tensor{Source: f[0], Shape: shape})
	}
	arch, _ := meta["general.architecture"].Value.(string)
	ts.Name(names.GGUF, arch)
	return ts.Config(func(key string) (any, bool) {
		v, ok := meta[key]
		return v.Value, ok
	})
}
