package hf_test

import (
	"encoding/json"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/hf"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
)

// TestMLXWithoutNames holds that modules that config.json does not name have the bits, groups and modes of their
// shapes, as mlx-lm gives them, whatever the settings of the whole model are.
func TestMLXWithoutNames(t *testing.T) {
	for _, model := range []string{"whole-gguf/mlx-qwen2-mixed", "models-mlx/qwen3-mixed", "whole-gguf/mlx-mixtral-mxfp4", "models-mlx/gpt-oss-mxfp4", "whole-gguf/mlx-llama2-nvfp4"} {
		dir := "../../testdata/" + model
		files := map[string][]byte{}
		for _, name := range []string{"config.json", "model.safetensors"} {
			b, err := os.ReadFile(dir + "/" + name)
			if err != nil {
				t.Fatal(err)
			}
			files[name] = b
		}
		named, err := hf.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer named.Close()
		var config map[string]any
		if err := json.Unmarshal(files["config.json"], &config); err != nil {
			t.Fatal(err)
		}
		usual := map[string]any{"bits": 4, "group_size": 64}
		entries := map[string]any{}
		for key, v := range config["quantization"].(map[string]any) {
			if _, ok := v.(map[string]any); ok {
				entries[key] = v
			}
		}
		with := func(top map[string]any, rename func(string) string) map[string]any {
			all := maps.Clone(top)
			for key, v := range entries {
				if rename != nil {
					all[rename(key)] = v
				}
			}
			return all
		}
		for what, settings := range map[string]map[string]any{
			"no keys":                           with(usual, nil),
			"keys with another prefix":          with(usual, func(key string) string { return "language_model." + key }),
			"keys with .weight":                 with(usual, func(key string) string { return key + ".weight" }),
			"another usual group":               with(map[string]any{"bits": 4, "group_size": 128}, nil),
			"other usual bits":                  with(map[string]any{"bits": 8, "group_size": 32}, nil),
			"bits as text":                      with(map[string]any{"bits": "4", "group_size": 64}, nil),
			"another mode":                      with(map[string]any{"bits": 4, "group_size": 32, "mode": "mxfp4"}, nil),
			"bits and groups that do not exist": with(map[string]any{"bits": 7, "group_size": 48}, nil),
			"no bits":                           with(map[string]any{"group_size": 64}, nil),
		} {
			t.Run(model+" "+what, func(t *testing.T) {
				c := maps.Clone(config)
				delete(c, "quantization_config")
				c["quantization"] = settings
				text, err := json.Marshal(c)
				if err != nil {
					t.Fatal(err)
				}
				m := open(t, writeDir(t, map[string][]byte{"config.json": text, "model.safetensors": files["model.safetensors"]}))
				for i := range named.Tensors {
					want, got := &named.Tensors[i], m.TensorBySource(named.Tensors[i].Source)
					if got.Opaque != want.Opaque || (got.Quant == nil) != (want.Quant == nil) {
						t.Errorf("%s: %v, %q, want %v", got.Source, got.Quant, got.Opaque, want.Quant)
					} else if q, w := got.Quant, want.Quant; q != nil && (q.Mode != w.Mode || q.Bits != w.Bits || q.GroupSize != w.GroupSize) {
						t.Errorf("%s: %s %d bits in groups of %d, want %s %d in %d", got.Source, q.Mode, q.Bits, q.GroupSize, w.Mode, w.Bits, w.GroupSize)
					}
				}
			})
		}
	}
}

// TestMLXWidthsThatDiffer holds that shapes do not decide where a module of the architecture may have other columns than
// its name suggests.
func TestMLXWidthsThatDiffer(t *testing.T) {
	const f16, u32 = tensorfs.F16, tensorfs.U32
	module := func(name string) []testmodel.SafeTensor { // 4 bits in groups of 64 of 512 columns, or 2 in 128 of 1024, or 8 in 32 of 256
		return tensors(st(name+".weight", u32, 4, 64), st(name+".scales", f16, 4, 8), st(name+".biases", f16, 4, 8))
	}
	for _, c := range []struct {
		fields, module string
		bits           int
	}{
		{`"hidden_size":1024`, "model.layers.0.self_attn.q_proj", 2},
		{`"hidden_size":512`, "model.layers.0.self_attn.q_proj", 4},
		{`"hidden_size":256`, "model.layers.0.mlp.up_proj", 8},
		{`"hidden_size":1024,"num_attention_heads":4,"head_dim":64`, "model.layers.0.self_attn.o_proj", 8},
		{`"hidden_size":1024,"num_attention_heads":4,"v_head_dim":64,"kv_lora_rank":32`, "model.layers.0.self_attn.o_proj", 4},
		{`"hidden_size":1024,"word_embed_proj_dim":512`, "model.embed_tokens", 4},
		{`"hidden_size":1024,"attention_hidden_size":2048`, "model.layers.0.self_attn.q_proj", 4},
		{`"hidden_size":1024,"moe_latent_size":512`, "model.layers.0.mlp.up_proj", 4},
		{`"hidden_size":1024`, "vision_tower.vision_model.encoder.layers.0.self_attn.q_proj", 4},
		{`"hidden_size":1024`, "odd.q_proj", 4},
		{`"hidden_size":96`, "model.layers.0.self_attn.q_proj", 4},
	} {
		config := `{"model_type":"llama",` + c.fields + `,"quantization":{"bits":4,"group_size":64}}`
		m := open(t, writeDir(t, map[string][]byte{"config.json": []byte(config), "model.safetensors": testmodel.Safetensors(module(c.module), nil)}))
		if q := bySource(m)[c.module+".weight"].Quant; q == nil || q.Bits != c.bits {
			t.Errorf("%s, %s: %+v, want %d bits", c.fields, c.module, q, c.bits)
		}
	}
	// The length of a norm is the width.
	list := append(module("model.layers.0.self_attn.q_proj"), st("model.norm.weight", f16, 512))
	m := open(t, writeDir(t, map[string][]byte{"config.json": []byte(`{"model_type":"llama","hidden_size":1024,"quantization":{"bits":4,"group_size":64}}`), "model.safetensors": testmodel.Safetensors(list, nil)}))
	if q := bySource(m)[strings.TrimSuffix(list[0].Name, "")].Quant; q == nil || q.Bits != 4 {
		t.Errorf("beside a norm of 512: %+v", q)
	}
}
