package lora_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/adapter"
	"github.com/tensorfs/tensorfs/formats/safetensors"
	"github.com/tensorfs/tensorfs/internal/testing/memory"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
	"github.com/tensorfs/tensorfs/views"
	"github.com/tensorfs/tensorfs/views/lora"
)

// TestGoldenMLX compares adapters of mlx-lm with the numbers that mlx_lm.fuse wrote.
func TestGoldenMLX(t *testing.T) {
	for name, base := range map[string]string{"lora": "plain-bf16-f32", "dora": "plain-bf16-f32", "full": "plain-bf16-f32", "experts": "moe-nested"} {
		dir := filepath.Join(golden, "mlx", name)
		m := opened(t, filepath.Join(golden, base, "base"), []string{dir + "/adapter"}, 1)
		want, err := formats.Open(dir + "/expected-f32.safetensors")
		must(t, err)
		defer want.Close()
		changed := 0
		for i := range m.Tensors {
			if m.Tensors[i].Change != nil {
				changed++
			}
		}
		if changed != len(want.Tensors) || changed == 0 {
			t.Errorf("%s: %d tensors are changed, want %d", name, changed, len(want.Tensors))
		}
		for i := range want.Tensors {
			w := &want.Tensors[i]
			// mlx-lm multiplies one factor by the scale first, and DoRA's lengths are sums in F32.
			if apart := ulps(numbers(t, w), numbers(t, m.TensorBySource(w.Source))); apart > 2 {
				t.Errorf("%s: %s is %v ulp from mlx_lm.fuse", name, w.Source, apart)
			}
		}
	}
}

// asMLX is a PEFT adapter as mlx-lm would have saved it.
func asMLX(t *testing.T, dir string, scale float64) *tensorfs.Model {
	t.Helper()
	from, err := formats.Open(dir)
	must(t, err)
	defer from.Close()
	var list []safetensors.Stored
	for i := range from.Tensors {
		x := &from.Tensors[i]
		rows, columns := x.Shape[0], x.Shape[1]
		values, turned := numbers(t, x), make([]float32, rows*columns)
		for r := range rows {
			for c := range columns {
				turned[c*rows+r] = values[r*columns+c]
			}
		}
		name := strings.NewReplacer(pre, "", ".lora_A.weight", ".lora_a", ".lora_B.weight", ".lora_b").Replace(x.Source)
		list = append(list, safetensors.Stored{Name: name, DType: tensorfs.F32, Shape: []int64{columns, rows}, Data: tensorfs.Bytes(testmodel.Encode(tensorfs.F32, turned, 0))})
	}
	return mlx(t, fmt.Sprintf(`{"lora_parameters":{"rank":%v,"scale":%v}}`, list[0].Shape[1], scale), list...)
}

func mlx(t testing.TB, config string, list ...safetensors.Stored) *tensorfs.Model {
	t.Helper()
	m, err := formats.OpenFS(memory.New(map[string][]byte{adapter.ConfigName: []byte(config), adapter.MLXWeightsName: weights(t, list...)}), ".")
	must(t, err)
	return m
}

// TestMLXIsPEFT holds that an adapter of mlx-lm gives the same bits as the PEFT adapter of the same
// factors.
func TestMLXIsPEFT(t *testing.T) {
	const dir = golden + "/plain-bf16-f32/"
	want := opened(t, dir+"base", []string{dir + "adapter0"}, 1)
	m, err := formats.Open(dir + "base")
	must(t, err)
	defer m.Close()
	apply(t, m, asMLX(t, dir+"adapter0", 2), 1)
	changed := 0
	for i := range m.Tensors {
		if x := &m.Tensors[i]; x.Change != nil {
			changed++
			if !slices.Equal(numbers(t, x), numbers(t, want.Tensor(x.Name))) {
				t.Errorf("%s has other numbers", x.Name)
			}
		}
	}
	if changed != 14 {
		t.Errorf("%d tensors are changed", changed)
	}
}

// TestMLXRefusals holds what of mlx-lm's adapters is refused, as mlx-lm refuses it or because its
// numbers would be others.
func TestMLXRefusals(t *testing.T) {
	const module = "model.layers.0.self_attn.q_proj."
	const usual = `"lora_parameters":{"rank":2,"scale":4.0}`
	a, b, length := tensor(module+"lora_a", tensorfs.F32, 64, 2), tensor(module+"lora_b", tensorfs.F32, 2, 64), tensor(module+"m", tensorfs.F32, 64)
	norm := tensor("model.norm.weight", tensorfs.BF16, 64)
	for _, c := range []struct {
		arch, config string
		list         []safetensors.Stored
		want         string
	}{
		{"llama", usual, nil, ""},
		{"llama", `"fine_tune_type":"dora",` + usual, []safetensors.Stored{a, b, length}, ""},
		{"llama", `"use_dora":true,` + usual, []safetensors.Stored{a, b, length}, ""},
		{"llama", `"fine_tune_type":"full"`, []safetensors.Stored{tensor(q, tensorfs.BF16, 64, 64)}, ""},
		{"llama", `"fine_tune_type":"vera",` + usual, nil, `"fine_tune_type": "vera" is not lora, dora or full`},
		{"llama", `"fine_tune_type":1,` + usual, nil, `"fine_tune_type": "1" is not lora, dora or full`},
		{"llama", `"rank":2`, nil, `"lora_parameters": "scale" is not a number`},
		{"llama", `"lora_parameters":{"rank":2,"scale":1e39}`, nil, `"lora_parameters": "scale"`},
		{"llama", `"lora_parameters":{"rank":9223372036854775808,"scale":1}`, nil, `"rank" is not a whole number`},
		{"llama", `"lora_parameters":{"rank":3,"scale":1}`, nil, "do not fit the rank in adapter_config.json, which is 3"},
		{"llama", `"fine_tune_type":"dora",` + usual, nil, `there is no m for "model.layers.0.self_attn.q_proj"`},
		{"llama", `"fine_tune_type":"dora",` + usual, []safetensors.Stored{a, b, tensor(module+"m", tensorfs.F32, 63)}, "where the weight has 64 rows"},
		{"llama", `"fine_tune_type":"dora",` + usual, []safetensors.Stored{length}, "no lora_a and no lora_b"},
		{"llama", usual, []safetensors.Stored{a, b, length}, "not a known part of an adapter of mlx-lm"},
		{"llama", usual, []safetensors.Stored{a, b, norm}, "not a known part of an adapter of mlx-lm"},
		{"llama", usual, []safetensors.Stored{a}, "no B"},
		{"llama", usual, []safetensors.Stored{a, tensor(module+"lora_b", tensorfs.F32, 2, 65)}, "for another model"},
		{"llama", `"fine_tune_type":"dora",` + usual, []safetensors.Stored{tensor("x.lora_a", tensorfs.F32, 2, 2, 8), tensor("x.lora_b", tensorfs.F32, 2, 8, 2)}, "no DoRA of experts"},
		{"llama", usual, []safetensors.Stored{tensor("x.lora_a", tensorfs.F32, 3, 2, 8), tensor("x.lora_b", tensorfs.F32, 2, 8, 2)}, "do not fit the rank"},
		{"llama", usual, []safetensors.Stored{tensor("lm_head.lora_a", tensorfs.F32, 64, 2), tensor("lm_head.lora_b", tensorfs.F32, 2, 64)}, "the base ties lm_head to embed_tokens"},
		{"llama", `"fine_tune_type":"full"`, []safetensors.Stored{tensor(module+"scales", tensorfs.F32, 64, 2)}, "not a known part"},
		{"gpt2", `"fine_tune_type":"full"`, []safetensors.Stored{tensor("h.0.ln_1.weight", tensorfs.F32, 64)}, `mlx-lm stores weights of "gpt2" in another form`},
	} {
		if c.list == nil {
			c.list = []safetensors.Stored{a, b}
		}
		name := map[string]string{"llama": q, "gpt2": "h.0.ln_1.weight"}[c.arch]
		shape := map[string][]int64{"llama": {64, 64}, "gpt2": {64}}[c.arch]
		list := []safetensors.Stored{tensor(name, tensorfs.BF16, shape...)}
		if c.arch == "llama" {
			list = append(list, tensor("model.embed_tokens.weight", tensorfs.BF16, 64, 64))
		}
		m := model(t, c.arch, list...)
		err := lora.Apply(m, views.Options{}, lora.Use{Model: mlx(t, "{"+c.config+"}", c.list...), Adapter: tensorfs.Adapter{Source: "a", Scale: 1}})
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.config, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %s", c.config, err, c.want)
		}
	}
	m, err := formats.Open("../../testdata/gguf/llama-xs.f16.gguf")
	must(t, err)
	defer m.Close()
	full, by, err := formats.Options{}.OpenAdapter(golden + "/mlx/full/adapter")
	must(t, err)
	if err := lora.Apply(m, views.Options{}, lora.Use{Model: full, Adapter: by}); err == nil || !strings.Contains(err.Error(), "the base is a GGUF file; name the directory") {
		t.Error(err)
	}
}
