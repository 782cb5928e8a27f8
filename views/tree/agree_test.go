package tree_test

import (
	"encoding/json"
	"fmt"
	"maps"
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
	"github.com/tensorfs/tensorfs/internal/testing/testwhole"
	"github.com/tensorfs/tensorfs/views/tree"
)

// difference is a row of judged: fields of some models that differ between a directory and its GGUF
// file, and why neither can be mended.
type difference struct {
	models, fields string
	right          string // which of the two describes the model: "directory", "file", or "both"
	why            string
}

// judged are all differences between the config.json of a directory's tree and the config.json of
// its GGUF file's tree. Each was compared with what llama.cpp's converter writes and with what
// transformers and llama.cpp make of it.
var judged = []difference{
	{"deci llama3 mlx-llama3-4bit exaone exaone4 exaone4.5 apertus llama-embed step3.5 step3.7", "rope_scaling_factor rope_orig_ctx", "directory",
		"the converter writes the divisors that follow from the scaling of Llama 3 to a tensor, and none of its parameters"},
	{"internlm2 internlm3", "rope_scaling_type rope_scaling_factor", "directory",
		"llama.cpp has no dynamic scaling, and the converter writes none: the model is the same up to the length that it was trained with"},
	{"minicpm3", "rope_orig_ctx", "directory", "the converter writes no key: the description holds the field equal to max_position_embeddings"},
	{"nemotron_h-puzzle", "ffn_dim ffn_dim_per_layer n_experts_used", "file", "config.json names them in the objects of a list, which the schema of all formats does not read"},
	{"dots3-note", "head_dim head_dim_per_layer q_dim kv_dim", "file", "layers with a window have other heads, which config.json says in fields of their own"},
	{"dots3-note", "n_nextn_layers", "file", "config.json does not say that there is a layer that predicts further tokens: its tensors show it"},
	{"deepseek3 deepseek4 mimo2.5-mxfp4", "n_nextn_layers", "both", "the converter leaves the layers that predict further tokens out of the file"},
	{"arwkv7", "n_kv_heads", "file", "none of its layers has attention, and config.json keeps the number that Qwen had"},
	{"graniteswitch", "ssm_conv_kernel ssm_dt_rank ssm_groups ssm_state", "file", "config.json keeps fields of a class with states, and none of its layers has them"},
	{"minicpmv4.6", "n_nextn_layers", "file", "config.json counts a layer that predicts further tokens, and the directory has no tensors of it"},
	{"qwen3 mt5 t5-lm-head umt5", "tie_embeddings", "both", "config.json says that the matrices are tied, and the directory stores both: a GGUF file has what is stored"},
	{"eurobert llama-embed t5encoder umt5-model", "tie_embeddings", "both", "the model has no matrix after its last layer, so nothing is tied: a GGUF file says so by having none"},
	{"qwen2.5-omni qwen3-vl-moe", "tie_embeddings", "file", "transformers 5 saves the default of the text model's class beside what the whole model says, and the matrix is stored"},
	{"qwen3-reranker-untied", "tie_embeddings", "directory", "the converter keeps two rows of the last matrix, under another name"},
}

// TestConfigAgrees holds that a model has the same config as a directory and as a GGUF file:
// tensorfs's file of the directory, and the file of llama.cpp's converter. Each model is opened
// with the config.json that was published, and with the one that transformers 5 saves. A difference
// needs a row in judged, and a row needs a difference.
func TestConfigAgrees(t *testing.T) {
	seen := map[string]bool{} // "MODEL FIELD" of the differences
	compared := 0
	for _, golden := range []string{"architectures", "whole-gguf"} {
		configs, err := filepath.Glob(filepath.Join("../../testdata", golden, "*/config*.json"))
		if err != nil || len(configs) == 0 {
			t.Fatal(configs, err)
		}
		for _, config := range configs {
			dir, name := filepath.Dir(config), filepath.Base(filepath.Dir(config))
			if base := filepath.Base(config); base != "config.json" && base != "config.v5.json" {
				continue
			}
			text, err := os.ReadFile(config)
			if err != nil {
				t.Fatal(err)
			}
			t.Run(name+"/"+filepath.Base(config), func(t *testing.T) {
				m := openWith(t, dir, text)
				fields := byName(m.Config)
				table := filepath.Join("../../testdata", golden, "expected", name)
				if _, err := os.Stat(table + ".meta.json"); err == nil {
					compared++
					sameFields(t, name, "the converter's file", fields, byName(configOfTable(t, table)), seen)
				}
				if own := tree.New(m, tree.Options{}).WholeFiles("gguf"); own.Reason == "" {
					compared++
					file := testwhole.OpenGGUF(t, testwhole.Read(t, own.List[0].Data))
					sameFields(t, name, "this program's file", fields, byName(file.Config), seen)
				}
			})
		}
	}
	if compared < 400 {
		t.Errorf("only %d comparisons", compared)
	}
	for _, row := range judged {
		for _, model := range strings.Fields(row.models) {
			for _, field := range strings.Fields(row.fields) {
				if !seen[model+" "+field] {
					t.Errorf("%s does not differ in %s: the row is no longer needed", model, field)
				}
			}
		}
		if row.why == "" || !slices.Contains([]string{"directory", "file", "both"}, row.right) {
			t.Errorf("%s: %q is right because %q", row.models, row.right, row.why)
		}
	}
}

// sameFields compares the config of a directory with the config of a GGUF file. It notes the
// differences that have a row in judged.
func sameFields(t *testing.T, model, of string, dir, gguf map[string]string, seen map[string]bool) {
	t.Helper()
	all := maps.Clone(dir)
	maps.Copy(all, gguf)
	for field := range all {
		x, inDir := dir[field]
		y, inFile := gguf[field]
		if inDir == inFile && x == y {
			continue
		}
		seen[model+" "+field] = true
		if !slices.ContainsFunc(judged, func(d difference) bool {
			return slices.Contains(strings.Fields(d.models), model) && slices.Contains(strings.Fields(d.fields), field)
		}) {
			t.Errorf("%s is %q, and %q in %s", field, x, y, of)
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

// configOfTable returns the config of a GGUF file that is described by tables of its keys and of
// its tensors.
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
