package formats

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/views"
)

// plainNames maps names of tensors that a GGUF file stores unchanged, except for the type, to the names in a Hugging
// Face or MLX model. Nothing is permuted, transposed or stacked.
var plainNames = strings.NewReplacer(
	"model.layers.", "blk.", "transformer.h.", "blk.", "encoder.layer.", "blk.",
	"model.embed_tokens.", "token_embd.", "lm_head.", "output.", "embeddings.word_embeddings.", "token_embd.",
	"mlp.down_proj.", "ffn_down.", "mlp.gate_proj.", "ffn_gate.", "mlp.up_proj.", "ffn_up.",
	"self_attn.v_proj.", "attn_v.", "self_attn.o_proj.", "attn_output.", "self_attn.q_proj.", "attn_q.", "self_attn.k_proj.", "attn_k.",
	"mlp.switch_mlp.down_proj.", "ffn_down_exps.", "mlp.switch_mlp.gate_proj.", "ffn_gate_exps.", "mlp.switch_mlp.up_proj.", "ffn_up_exps.",
	"block_sparse_moe.switch_mlp.down_proj.", "ffn_down_exps.", "block_sparse_moe.switch_mlp.gate_proj.", "ffn_gate_exps.",
	"block_sparse_moe.switch_mlp.up_proj.", "ffn_up_exps.",
	"mlp.experts.down_proj.", "ffn_down_exps.", "mlp.experts.gate_proj.", "ffn_gate_exps.", "mlp.experts.up_proj.", "ffn_up_exps.",
	"attention.self.query.", "attn_q.", "attention.self.key.", "attn_k.", "attention.self.value.", "attn_v.",
	"attention.output.dense.", "attn_output.", "intermediate.dense.", "ffn_up.", "output.dense.", "ffn_down.",
)

// permuted are the tensors whose rows are in another order in a GGUF file of the llama family.
var permuted = regexp.MustCompile(`attn_[qk]\.`)

// goldenTensors calls f with every tensor of a model that its GGUF file has as it is, and its line of a table.
func goldenTensors(t *testing.T, dir, table string, name int, f func(t *testing.T, x *tensorfs.Tensor, line []string)) (n int) {
	t.Helper()
	m, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	text, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	tensors := map[string]*tensorfs.Tensor{}
	for i := range m.Tensors {
		x := &m.Tensors[i]
		tensors[plainNames.Replace(x.Source)] = x
	}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		x := tensors[cells[name]]
		if x == nil || (strings.Contains(dir, "llama") || strings.Contains(dir, "mixtral")) && permuted.MatchString(cells[name]) {
			continue
		}
		n++
		f(t, x, cells)
	}
	return n
}

// sum returns the sum of d's bytes.
func sum(t *testing.T, d tensorfs.Data) string {
	t.Helper()
	b := make([]byte, d.Size())
	if err := tensorfs.ReadFull(d, b, 0); err != nil {
		t.Error(err)
	}
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// encoded returns the sum of x as a type.
func encoded(t *testing.T, x *tensorfs.Tensor, to tensorfs.DType) string {
	t.Helper()
	d, err := views.Encode(x, to)
	if err != nil {
		t.Errorf("%s to %s: %v", x.Source, to, err)
		return ""
	}
	return sum(t, d)
}

func dtype(t *testing.T, name string) tensorfs.DType {
	t.Helper()
	for d := range tensorfs.DTypes() {
		if d.String() == name {
			return d
		}
	}
	t.Fatalf("no type %q", name)
	return 0
}

// TestEncodeExact holds quantised modules to the types and bytes that a GGUF file of the same numbers has.
func TestEncodeExact(t *testing.T) {
	types := map[string]int{}
	for dir, table := range map[string]string{
		"whole-gguf/mlx-qwen2-mixed":   "mlx-qwen2-mixed",
		"whole-gguf/mlx-llama2-nvfp4":  "mlx-llama2-nvfp4",
		"whole-gguf/mlx-llama3-4bit":   "mlx-llama3-4bit",
		"whole-gguf/mlx-mixtral-mxfp4": "mlx-mixtral-mxfp4",
		"whole-gguf/mlx-gemma3-8bit":   "mlx-gemma3-8bit",
		"models-mlx/qwen3-mixed":       "models-mlx.qwen3-mixed",
		"models-mlx/gpt-oss-mxfp4":     "models-mlx.gpt-oss-mxfp4",
	} {
		n := goldenTensors(t, filepath.Join("../testdata", dir), "../testdata/whole-gguf/expected/"+table+".tensors.tsv", 0, func(t *testing.T, x *tensorfs.Tensor, line []string) {
			want := dtype(t, line[1])
			if x.Quant != nil {
				to, exact, err := views.Exact(x)
				if err != nil || want != tensorfs.F32 && to != want || exact != (to != tensorfs.F16) || want != tensorfs.F32 && exact != (line[5] == "exact") {
					t.Errorf("%s %s: %s, %v, %v; want %v", dir, x.Source, to, exact, err, line)
				}
				types[line[1]]++
			}
			if strings.Contains(line[0], "norm") && strings.Contains(dir, "gemma") {
				return // one more in the file
			}
			if got := encoded(t, x, want); got != line[4] {
				t.Errorf("%s %s as %s: sum differs", dir, x.Source, want)
			}
		})
		if n < 4 {
			t.Errorf("%s: only %d tensors compared", dir, n)
		}
	}
	for _, name := range []string{"Q4_1", "Q5_1", "MXFP4", "NVFP4", "F16", "BF16"} {
		if types[name] == 0 {
			t.Errorf("no tensor became %s: %v", name, types)
		}
	}
}

// TestEncodeQuantised holds Q8_0 and Q4_0 to what llama.cpp quantises.
func TestEncodeQuantised(t *testing.T) {
	n := map[string]int{}
	for _, model := range []string{"qwen2", "qwen3moe", "gemma3", "bert", "llama3", "llama2-spm", "phi3"} {
		goldenTensors(t, "../testdata/whole-gguf/"+model, "../testdata/whole-gguf/quantised.tsv", 2, func(t *testing.T, x *tensorfs.Tensor, line []string) {
			if line[0] != model || line[3] != "Q8_0" && line[3] != "Q4_0" {
				return
			}
			n[line[3]+" of "+x.DType.String()]++
			if got := encoded(t, x, dtype(t, line[3])); got != line[5] {
				t.Errorf("%s %s as %s: sum differs", model, x.Source, line[3])
			}
		})
	}
	if n["Q8_0 of F32"] == 0 || n["Q8_0 of F16"] == 0 || n["Q4_0 of BF16"] < 50 {
		t.Errorf("too few tensors compared: %v", n)
	}
}

// TestEncodeF32 holds modules to the numbers that MLX's own dequantisation gives.
func TestEncodeF32(t *testing.T) {
	for _, model := range []string{"qwen3-mixed", "gpt-oss-mxfp4"} {
		text, err := os.ReadFile("../testdata/models-mlx/expected/" + model + ".json")
		if err != nil {
			t.Fatal(err)
		}
		var golden map[string]json.RawMessage
		if err := json.Unmarshal(text, &golden); err != nil {
			t.Fatal(err)
		}
		var all map[string]struct {
			Sum string `json:"f32_sha256"`
		}
		for _, part := range golden {
			var sums map[string]struct {
				Sum string `json:"f32_sha256"`
			}
			if json.Unmarshal(part, &sums) == nil && len(sums) > len(all) {
				all = sums
			}
		}
		m, err := Open("../testdata/models-mlx/" + model)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		n := 0
		for i := range m.Tensors {
			x := &m.Tensors[i]
			want := all[strings.TrimSuffix(x.Source, ".weight")].Sum
			if want == "" {
				want = all[x.Source].Sum
			}
			if x.Owner != "" || want == "" {
				continue
			}
			n++
			if encoded(t, x, tensorfs.F32) != want {
				t.Errorf("%s %s as F32: sum differs", model, x.Source)
			}
		}
		if n < 10 {
			t.Errorf("%s: only %d tensors compared", model, n)
		}
	}
}
