package hf_test

import (
	"slices"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
)

// TestActivationScales holds that scales and zero points of activations and of caches belong to a weight of
// their module, whether that is quantised or plain, so that no view takes them for weights.
func TestActivationScales(t *testing.T) {
	const (
		attention = "model.layers.0.self_attn"
		keys      = "layers.0.attention.k.weight"
		bf16, f32 = tensorfs.BF16, tensorfs.F32
	)
	const fp8 = `{"model_type":"llama","quantization_config":{"quant_method":"fp8"}}`
	plain := tensors(st("model.layers.0.mlp.up_proj.weight", tensorfs.F8_E4M3, 8, 8), st("model.layers.0.mlp.up_proj.weight_scale", f32, 1),
		st(attention+".q_proj.weight", bf16, 8, 8), st(attention+".k_proj.weight", bf16, 8, 8), st(attention+".v_proj.weight", bf16, 8, 8), st(attention+".o_proj.weight", bf16, 8, 8),
		st(attention+".k_proj.bias", bf16, 8))
	for _, c := range []struct {
		name   string
		owner  string // "" for a tensor of its own
		config string
		shape  []int64
	}{
		{name: ".k_scale"}, {name: ".v_scale"}, {name: ".q_scale"}, {name: ".kv_scale"}, {name: ".qk_scale", owner: "-"},
		{name: ".prob_scale"}, {name: ".prob_output_scale"},
		{name: ".attn.k_scale"}, {name: ".attn.q_scale"}, {name: ".attn.prob_scale"}, {name: ".mla_attn.k_scale"},
		{name: ".qkv_proj.k_scale"}, {name: ".qkv_proj.v_scale"}, {name: ".qkv_proj.output_scale"},
		{name: ".k_cache.scale"}, {name: ".v_cache.scale"},
		{name: ".k_zero_point"}, {name: ".v_zero_point"}, {name: ".q_zero_point"}, {name: ".attn.k_zero_point"},
		{name: ".k_scale", shape: []int64{2, 1, 1}}, {name: ".k_scale", shape: []int64{}},
		{name: ".k_proj.k_scale", owner: keys}, {name: ".k_proj.output_scale", owner: keys}, {name: ".k_proj.input_scale", owner: keys},
		{name: ".k_proj.output_zero_point", owner: keys}, {name: ".k_proj.activation_scale", owner: keys}, {name: ".v_proj.v_scale", owner: "layers.0.attention.v.weight"},
		{name: ".k_scale", config: `{"model_type":"llama","quantization_config":{"quant_method":"compressed-tensors","format":"dense","config_groups":{},"kv_cache_scheme":{"num_bits":8}}}`},
		{name: ".k_scale", config: `{"model_type":"llama"}`, owner: "-"},                      // may be a weight of the model's own
		{name: ".k_scale", config: `{"quantization":{"bits":4,"group_size":32}}`, owner: "-"}, // and MLX has no such scales
		{name: ".k_scale", shape: []int64{8, 8}, owner: "-"},
		{name: ".k_proj.output_scale", shape: []int64{9}, owner: "-"},
		{name: ".rotary.k_norm_scale", owner: "-"},
	} {
		config := c.config
		if config == "" {
			config = fp8
		}
		shape := c.shape
		if shape == nil {
			shape = []int64{1}
		}
		list := plain
		if c.config != "" {
			list = plain[2:]
		}
		t.Run(c.name, func(t *testing.T) {
			m := open(t, writeDir(t, map[string][]byte{"config.json": []byte(config), "model.safetensors": testmodel.Safetensors(append(slices.Clone(list), st(attention+c.name, f32, shape...)), nil)}))
			if len(m.Warnings) > 0 && c.config == "" {
				t.Errorf("warnings %q", m.Warnings)
			}
			got := bySource(m)[attention+c.name]
			owner := m.Tensor(got.Owner)
			switch {
			case got.Opaque != "":
				t.Errorf("opaque: %s", got.Opaque)
			case c.owner == "-":
				if owner != nil {
					t.Errorf("belongs to %s", owner.Name)
				}
			case owner == nil || owner.Quant != nil || c.owner != "" && owner.Name != c.owner:
				t.Errorf("owner %q", got.Owner)
			}
		})
	}
}

// TestCacheScalesOfQuantisedAttention holds that the scales of a cache belong to a quantised part of attention, at any
// depth of their names.
func TestCacheScalesOfQuantisedAttention(t *testing.T) {
	for _, name := range []string{".k_scale", ".attn.k_scale", ".qkv_proj.k_scale", ".prob_output_scale"} {
		const config = `{"model_type":"llama","quantization_config":{"quant_method":"awq","bits":4,"group_size":64}}`
		scale := "model.layers.0.self_attn" + name
		m := open(t, writeDir(t, map[string][]byte{"config.json": []byte(config), "model.safetensors": testmodel.Safetensors(tensors(
			st(x+".qweight", tensorfs.I32, 128, 1), st(x+".qzeros", tensorfs.I32, 2, 1), st(x+".scales", tensorfs.F16, 2, 8), st(scale, tensorfs.F32, 1)), nil)}))
		if got := bySource(m)[scale]; m.Tensor(got.Owner) == nil || m.Tensor(got.Owner).Quant == nil {
			t.Errorf("%s: owner %q", name, got.Owner)
		}
	}
}

// TestScalesOfCacheAlone holds that there is no warning about a model with only a quantised cache.
func TestScalesOfCacheAlone(t *testing.T) {
	m := open(t, writeDir(t, map[string][]byte{
		"config.json":       []byte(`{"model_type":"llama","quantization_config":{"quant_method":"compressed-tensors","format":"dense","config_groups":{},"kv_cache_scheme":{"num_bits":8}}}`),
		"model.safetensors": testmodel.Safetensors(tensors(st(x+".weight", tensorfs.BF16, 8, 8), st("model.layers.0.self_attn.k_scale", tensorfs.F32, 1)), nil)}))
	if len(m.Warnings) > 0 {
		t.Errorf("warnings %q", m.Warnings)
	}
}
