package hf

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/testing/datatest"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
	"github.com/tensorfs/tensorfs/internal/testing/testwhole"
	"github.com/tensorfs/tensorfs/views"
)

// ollamaModel opens a model of the store in testdata.
func ollamaModel(t testing.TB, name string) *tensorfs.Model {
	t.Helper()
	return testwhole.Open(t, filepath.Join(tensorData, "ollama", "models", "manifests", "registry.ollama.ai", "library", name))
}

// TestOllama: tensors keep their names; hf/ has numbers, mlx/ has the stored codes
// and scales under the names of MLX.
func TestOllama(t *testing.T) {
	modules, factors := 0, 0
	for _, name := range []string{"nvfp4", "jan", "mixed", "bf16", "int4-nometa", "int4", "feb", "mxfp8"} {
		t.Run(name, func(t *testing.T) {
			m := ollamaModel(t, "tiny/"+name)
			hf, err := hfTensors(m)
			if err != nil {
				t.Fatal(err)
			}
			mlx, err := mlxTensors(m)
			if err != nil {
				t.Fatal(err)
			}
			numbers, stored := map[string][]byte{}, map[string][]byte{}
			for _, s := range hf.List {
				numbers[s.Name] = testwhole.Read(t, s.Data)
			}
			for _, s := range mlx.List {
				stored[s.Name] = testwhole.Read(t, s.Data)
			}
			left := len(stored)
			var settings map[string]any
			if mlx.Quantization != nil {
				if err := json.Unmarshal(mlx.Quantization, &settings); err != nil {
					t.Fatal(err)
				}
			}
			weights := 0
			for i := range m.Tensors {
				x := &m.Tensors[i]
				if x.Owner != "" {
					continue
				}
				weights++
				want := testwhole.Read(t, x.Data)
				module, q := strings.TrimSuffix(x.Source, ".weight"), x.Quant
				if q == nil {
					if !bytes.Equal(numbers[x.Source], want) || !bytes.Equal(stored[x.Source], want) {
						t.Errorf("%s is not as it is stored", x.Source)
					}
					left--
					continue
				}
				h, err := views.Encode(x, tensorfs.F16)
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(numbers[x.Source], testwhole.Read(t, h)) {
					t.Errorf("%s is not its numbers", x.Source)
				}
				if q.Global != nil {
					if f := testwhole.Read(t, q.Global.Data); len(f) != 4 || float32At(f, 0) != 1 {
						factors++
						if !bytes.Equal(stored[x.Source], numbers[x.Source]) || stored[module+".scales"] != nil {
							t.Errorf("%s has a factor that mlx-lm does not know", x.Source)
						}
						left--
						continue
					}
				}
				modules++
				left -= 2
				if !bytes.Equal(stored[x.Source], want) || !bytes.Equal(stored[module+".scales"], testwhole.Read(t, q.Scales.Data)) {
					t.Errorf("%s has other codes or scales", x.Source)
				}
				if q.Biases != nil {
					left--
					if !bytes.Equal(stored[module+".biases"], testwhole.Read(t, q.Biases.Data)) {
						t.Errorf("%s has other biases", x.Source)
					}
				}
				own, _ := settings[module].(map[string]any)
				if own == nil {
					own = settings
				}
				if own["bits"] != float64(q.Bits) || own["group_size"] != float64(q.GroupSize) || own["mode"] != q.Mode {
					t.Errorf("%s has %v", module, own)
				}
			}
			if weights != len(hf.List) || left != 0 {
				t.Errorf("%d tensors of %d, and %d others for mlx-lm", len(hf.List), weights, left)
			}
		})
	}
	if modules < 40 || factors < 2 {
		t.Errorf("%d modules and %d factors", modules, factors)
	}
}

// TestOllamaLayers: a GGUF layer is a GGUF model, and one with a projector beside
// it has tensors without a place.
func TestOllamaLayers(t *testing.T) {
	for _, make := range directories {
		if r, err := make(ollamaModel(t, "tinyllama/latest")); err != nil || len(r.List) == 0 {
			t.Error(err)
		}
		if r, err := make(ollamaModel(t, "tinyllama/vl")); err == nil || !strings.Contains(err.Error(), "no place") {
			t.Error(r.List, err)
		}
	}
}

// mlxModel is an MLX directory of random tensors.
type mlxModel struct {
	config map[string]any
	list   []testmodel.SafeTensor
}

func (m *mlxModel) add(name string, d tensorfs.DType, shape ...int64) []byte {
	x := testmodel.SafeTensor{Name: name, DType: d, Shape: shape}
	x.Data = datatest.Random(uint64(len(m.list)+1), int(x.Size()))
	for i := 1; d == tensorfs.BF16 && i < len(x.Data); i += 2 { // ordinary numbers
		x.Data[i] = x.Data[i]&0x80 | 0x3E
	}
	m.list = append(m.list, x)
	return x.Data
}

// hf returns the tensors of hf/.
func (m *mlxModel) hf(t testing.TB) (map[string][]byte, map[string][]int64) {
	t.Helper()
	dir := t.TempDir()
	m.config["quantization"] = map[string]any{"group_size": 32, "bits": 4, "mode": "mxfp4"}
	config, err := json.Marshal(m.config)
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{"config.json": config, "model.safetensors": testmodel.Safetensors(m.list, [][2]string{{"format", "mlx"}})} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	model := testwhole.Open(t, dir)
	if model.Format != "mlx" {
		t.Fatal(model.Format)
	}
	r, err := hfTensors(model)
	if err != nil {
		t.Fatal(err)
	}
	data, shapes := map[string][]byte{}, map[string][]int64{}
	for _, s := range r.List {
		data[s.Name], shapes[s.Name] = testwhole.Read(t, s.Data), s.Shape
	}
	return data, shapes
}

// sameTensor compares a tensor of a directory.
func sameTensor(t testing.TB, data map[string][]byte, shapes map[string][]int64, name string, want []byte, shape ...int64) {
	t.Helper()
	if !bytes.Equal(data[name], want) || !slices.Equal(shapes[name], shape) {
		t.Errorf("%s is %d bytes of shape %v, want %d of %v", name, len(data[name]), shapes[name], len(want), shape)
	}
	delete(data, name)
}

// turnedMatrix returns a matrix of 2-byte numbers with its columns as rows.
func turnedMatrix(b []byte, rows, cols int) (out []byte) {
	for c := range cols {
		for r := range rows {
			out = append(out, b[2*(r*cols+c):][:2]...)
		}
	}
	return out
}

// TestMLXForms undoes what mlx-lm changes when it converts.
func TestMLXForms(t *testing.T) {
	t.Run("stacks", func(t *testing.T) {
		m := mlxModel{config: map[string]any{"model_type": "qwen3_moe", "architectures": []string{"Qwen3MoeForCausalLM"}}}
		at := "language_model.model.layers.3.mlp."
		gate := m.add(at+"switch_mlp.gate_proj.weight", tensorfs.BF16, 2, 4, 6)
		mixtral := m.add("model.layers.0.block_sparse_moe.switch_mlp.down_proj.weight", tensorfs.BF16, 2, 6, 4)
		bias := m.add(at+"switch_mlp.up_proj.bias", tensorfs.BF16, 2, 4)
		ids := m.add("table", tensorfs.I64, 3)
		data, shapes := m.hf(t)
		for e := range 2 {
			n := string(rune('0' + e))
			sameTensor(t, data, shapes, at+"experts."+n+".gate_proj.weight", gate[48*e:48*e+48], 4, 6)
			sameTensor(t, data, shapes, at+"experts."+n+".up_proj.bias", bias[8*e:8*e+8], 4)
			sameTensor(t, data, shapes, "model.layers.0.block_sparse_moe.experts."+n+".w2.weight", mixtral[48*e:48*e+48], 6, 4)
		}
		sameTensor(t, data, shapes, "table", ids, 3)
		if len(data) > 0 {
			t.Errorf("and %v", data)
		}
	})
	t.Run("kv_b", func(t *testing.T) {
		m := mlxModel{config: map[string]any{"model_type": "deepseek_v3", "architectures": []string{"DeepseekV3ForCausalLM"}}}
		at := "model.layers.0.self_attn."
		k := m.add(at+"embed_q.weight", tensorfs.BF16, 2, 5, 3)     // heads, rank, nope
		v := m.add(at+"unembed_out.weight", tensorfs.BF16, 2, 4, 5) // heads, v, rank
		data, shapes := m.hf(t)
		var want []byte
		for h := range 2 {
			want = append(want, turnedMatrix(k[30*h:30*h+30], 5, 3)...)
			want = append(want, v[40*h:40*h+40]...)
		}
		sameTensor(t, data, shapes, at+"kv_b_proj.weight", want, 14, 5)
		if len(data) > 0 {
			t.Errorf("and %v", data)
		}
	})
	t.Run("gpt2", func(t *testing.T) {
		m := mlxModel{config: map[string]any{"model_type": "gpt2", "architectures": []string{"GPT2LMHeadModel"}}}
		w := m.add("model.h.0.attn.c_attn.weight", tensorfs.BF16, 12, 4)
		b := m.add("model.h.0.attn.c_attn.bias", tensorfs.BF16, 12)
		data, shapes := m.hf(t)
		sameTensor(t, data, shapes, "h.0.attn.c_attn.weight", turnedMatrix(w, 12, 4), 4, 12)
		sameTensor(t, data, shapes, "h.0.attn.c_attn.bias", b, 12)
		if len(data) > 0 {
			t.Errorf("and %v", data)
		}
	})
	t.Run("qwen3_next", func(t *testing.T) {
		m := mlxModel{config: map[string]any{"model_type": "qwen3_next", "architectures": []string{"Qwen3NextForCausalLM"}}}
		norm := m.add("model.layers.0.input_layernorm.weight", tensorfs.BF16, 6)
		own := m.add("model.layers.0.linear_attn.norm.weight", tensorfs.BF16, 6)
		conv := m.add("model.layers.0.linear_attn.conv1d.weight", tensorfs.BF16, 6, 4, 1)
		data, shapes := m.hf(t)
		less := data["model.layers.0.input_layernorm.weight"]
		for i := range 6 {
			x := math.Float32frombits(uint32(norm[2*i])<<16 | uint32(norm[2*i+1])<<24)
			if len(less) != 24 || float32At(less, i) != x-1 {
				t.Errorf("norm %v is %v", x, less)
			}
		}
		sameTensor(t, data, shapes, "model.layers.0.linear_attn.norm.weight", own, 6)
		sameTensor(t, data, shapes, "model.layers.0.linear_attn.conv1d.weight", conv, 6, 1, 4)
	})
}

// TestMLXFormsLackParts holds the reason if only some experts, or only one half of kv_b, are
// stored.
func TestMLXFormsLackParts(t *testing.T) {
	for model, c := range map[string]struct {
		name string
		want string
	}{
		"gpt_oss":     {"model.layers.0.mlp.experts.gate_proj.weight", ".gate_proj or its bias"},
		"deepseek_v3": {"model.layers.0.self_attn.embed_q.weight", "unembed_out"},
	} {
		dir := t.TempDir()
		b := testmodel.Safetensors([]testmodel.SafeTensor{{Name: c.name, DType: tensorfs.BF16, Shape: []int64{2, 3, 4}}}, [][2]string{{"format", "mlx"}})
		config := `{"model_type":"` + model + `","quantization":{"group_size":64,"bits":4}}`
		if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "model.safetensors"), b, 0o600); err != nil {
			t.Fatal(err)
		}
		if r, err := hfTensors(testwhole.Open(t, dir)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v, %v, want %q", r.List, err, c.want)
		}
	}
}
