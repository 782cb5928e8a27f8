package ollama

import (
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/assemble"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
)

func tensor(d tensorfs.DType, shape ...int64) *tensorfs.Tensor {
	return &tensorfs.Tensor{DType: d, Shape: shape}
}

func params(mode string, bits, group int) assemble.Params {
	return assemble.Params{Mode: mode, Bits: bits, Group: group}
}

func TestResolve(t *testing.T) {
	const bf, u8, u32 = tensorfs.BF16, tensorfs.U8, tensorfs.U32
	affine := func(w, s int64) module {
		return module{weight: tensor(u32, 6, w), scale: tensor(bf, 6, s), bias: tensor(bf, 6, s)}
	}
	bytes := func(w, s int64) module { return module{weight: tensor(u32, 6, w), scale: tensor(u8, 6, s)} }
	type edit = func(m *module)
	meta := func(kind, group string) edit { return func(m *module) { m.kind, m.group = kind, group } }
	cfg := func(text string) edit {
		return func(m *module) {
			o, err := jsonobj.Parse([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			m.config = newConfig(o)
		}
	}
	cols := func(n int64) edit { return func(m *module) { m.columns = func() (int64, bool) { return n, true } } }
	none := assemble.Params{}
	tests := []struct {
		name string
		m    module
		edit edit
		want assemble.Params
		bad  string
	}{
		{"int4", affine(8, 1), meta("int4", "64"), params("affine", 4, 64), ""},
		{"int4 of 32", affine(8, 2), meta("int4", "32"), params("affine", 4, 32), ""},
		{"int4 of 128", affine(16, 1), meta("int4", "128"), params("affine", 4, 128), ""},
		{"int4 without group", affine(8, 1), meta("int4", ""), params("affine", 4, 64), ""},
		{"int4 without group, of 32", affine(8, 2), meta("int4", ""), params("affine", 4, 32), ""},
		{"int4 without group, of 16", affine(8, 4), meta("int4", ""), none, "are not affine with 4 bits in groups of 64"},
		{"int8", affine(16, 1), meta("INT8", "64"), params("affine", 8, 64), ""},
		{"aliases", affine(8, 1), meta("Q4", ""), params("affine", 4, 64), ""},
		{"alias fp8", affine(16, 1), meta("fp8", ""), params("affine", 8, 64), ""},
		{"nvfp4", bytes(8, 4), meta("nvfp4", ""), params("nvfp4", 4, 16), ""},
		{"nvfp4 of 32", bytes(8, 2), meta("nvfp4", "32"), none, "nvfp4 with 4 bits in groups of 32 does not exist"},
		{"mxfp4", bytes(8, 2), meta("mxfp4", "32"), params("mxfp4", 4, 32), ""},
		{"mxfp8", bytes(8, 1), meta("mxfp8", "32"), params("mxfp8", 8, 32), ""},
		{"wrong group", affine(8, 1), meta("int4", "32"), none, "are not affine with 4 bits in groups of 32"},
		{"wrong bits", affine(8, 1), meta("int8", "64"), none, "are not affine with 8 bits"},
		{"unknown type", affine(8, 1), meta("int3", "64"), none, "not known"},
		{"group 0", affine(8, 1), meta("int4", "0"), none, "not a positive"},
		{"group +64", affine(8, 1), meta("int4", "+64"), none, "not a positive"},
		{"group -64", affine(8, 1), meta("int4", "-64"), none, "not a positive"},
		{"group 64.0", affine(8, 1), meta("int4", "64.0"), none, "not a positive"},
		{"group 2^31", affine(8, 1), meta("int4", "2147483648"), none, "not a positive"},
		{"int4 with scales of U8", bytes(8, 1), meta("int4", "64"), none, "F32, not U8"},
		{"nvfp4 with scales of BF16", affine(8, 4), meta("nvfp4", ""), none, "U8, not BF16"},
		{"no bias", affine(8, 1), func(m *module) { m.kind, m.bias = "int4", nil }, none, "needs biases"},
		{"bias of another shape", affine(8, 1), func(m *module) { m.kind, m.bias = "int4", tensor(bf, 6, 2) }, none, "biases are BF16 of shape [6 2]"},
		{"bias of another type", affine(8, 1), func(m *module) { m.kind, m.bias = "int4", tensor(tensorfs.F32, 6, 1) }, none, "biases are F32"},
		{"mxfp4 with bias", bytes(8, 2), func(m *module) { m.kind, m.bias = "mxfp4", tensor(u8, 6, 2) }, none, "takes no biases"},
		{"no scale", module{weight: tensor(u32, 6, 8)}, meta("int4", "64"), none, "no scales"},
		{"scales of another shape", affine(8, 1), func(m *module) { m.kind, m.scale = "int4", tensor(bf, 7, 1) }, none, "do not belong together"},
		{"scales of another rank", affine(8, 1), func(m *module) { m.kind, m.scale = "int4", tensor(bf, 6) }, none, "do not belong together"},
		{"weight of another type", affine(8, 1), func(m *module) { m.kind, m.weight = "int4", tensor(tensorfs.I32, 6, 8) }, none, "holds I32"},
		{"scalars", affine(8, 1), func(m *module) { m.kind, m.weight, m.scale = "int4", tensor(u32), tensor(bf) }, none, "do not belong together"},
		{"stacked", module{weight: tensor(u32, 2, 6, 8), scale: tensor(bf, 2, 6, 1), bias: tensor(bf, 2, 6, 1)}, meta("int4", "64"), params("affine", 4, 64), ""},
		{"empty", affine(0, 0), meta("int4", "64"), params("affine", 4, 64), ""},
		{"giant", module{weight: tensor(u32, 0, 1<<60), scale: tensor(bf, 0, 1<<57), bias: tensor(bf, 0, 1<<57)}, meta("int4", "64"), none, "2^63"},

		{"global", bytes(8, 4), func(m *module) { m.kind, m.global = "nvfp4", tensor(tensorfs.F32) }, params("nvfp4", 4, 16), ""},
		{"global [1]", bytes(8, 4), func(m *module) { m.kind, m.global = "nvfp4", tensor(tensorfs.F32, 1) }, params("nvfp4", 4, 16), ""},
		{"global [6]", bytes(8, 4), func(m *module) { m.kind, m.global = "nvfp4", tensor(tensorfs.F32, 6) }, params("nvfp4", 4, 16), ""},
		{"global [5]", bytes(8, 4), func(m *module) { m.kind, m.global = "nvfp4", tensor(tensorfs.F32, 5) }, none, "global scale is F32 of shape [5]"},
		{"global [6 1]", bytes(8, 4), func(m *module) { m.kind, m.global = "nvfp4", tensor(tensorfs.F32, 6, 1) }, none, "global scale"},
		{"global BF16", bytes(8, 4), func(m *module) { m.kind, m.global = "nvfp4", tensor(bf) }, none, "global scale is BF16"},
		{"global of mxfp4", bytes(8, 2), func(m *module) { m.kind, m.global = "mxfp4", tensor(tensorfs.F32) }, none, "takes no global scale"},
		{"global of int4", affine(8, 1), func(m *module) { m.kind, m.global = "int4", tensor(tensorfs.F32) }, none, "takes no global scale"},

		{"bytes, ratio 2", bytes(8, 4), nil, params("nvfp4", 4, 16), ""},
		{"bytes, ratio 4", bytes(8, 2), nil, params("mxfp4", 4, 32), ""},
		{"bytes, ratio 8", bytes(8, 1), nil, params("mxfp8", 8, 32), ""},
		{"bytes, ratio 16", bytes(16, 1), nil, none, "neither nvfp4"},
		{"bytes, ratio 8/3", bytes(8, 3), nil, none, "neither nvfp4"},
		{"bytes, no columns", bytes(8, 0), nil, none, "neither nvfp4"},
		{"bytes with bias", bytes(8, 4), func(m *module) { m.bias = tensor(u8, 6, 4) }, none, "takes no biases"},

		{"ratio 4", affine(8, 2), nil, params("affine", 4, 32), ""},
		{"ratio 32", affine(32, 1), nil, params("affine", 8, 128), ""},
		{"ratio 8, nothing known", affine(8, 1), nil, none, "fit the shapes"},
		{"ratio 8, 64 columns", affine(8, 1), cols(64), params("affine", 4, 64), ""},
		{"ratio 8, 32 columns", affine(8, 1), cols(32), params("affine", 8, 32), ""},
		{"ratio 8, other columns", affine(8, 1), cols(96), none, "fit the shapes"},
		{"ratio 16, nothing known", affine(16, 1), nil, none, "fit the shapes"},
		{"ratio 16, 64 columns", affine(16, 1), cols(64), params("affine", 8, 64), ""},
		{"ratio 16, 128 columns", affine(16, 1), cols(128), params("affine", 4, 128), ""},
		{"ratio 6", affine(6, 1), nil, none, "fit no known"},
		{"ratio 4, no bias", affine(8, 2), func(m *module) { m.bias = nil }, none, "needs biases"},

		{"config", affine(8, 1), cfg(`{"quantization":{"bits":4,"group_size":64}}`), params("affine", 4, 64), ""},
		{"config of 6 bits", affine(12, 1), cfg(`{"quantization":{"bits":6,"group_size":64}}`), params("affine", 6, 64), ""},
		{"config of 7 bits", affine(14, 1), cfg(`{"quantization":{"bits":7,"group_size":64}}`), none, "affine with 7 bits in groups of 64 does not exist"},
		{"config that does not fit", affine(8, 1), cfg(`{"quantization":{"bits":8,"group_size":64}}`), none, "are not affine with 8 bits"},
		{"config of another key", affine(8, 1), cfg(`{"quantization_config":{"bits":4,"group_size":64}}`), params("affine", 4, 64), ""},
		{"config of a multimodal model", affine(8, 1), cfg(`{"text_config":{"quantization_config":{"bits":4,"group_size":64}}}`), params("affine", 4, 64), ""},
		{"config of another method", affine(8, 1), cfg(`{"quantization_config":{"bits":4,"group_size":64,"quant_method":"gptq"}}`), none, "fit the shapes"},
		{"config without bits", affine(8, 2), cfg(`{"quantization_config":{"quant_method":"modelopt"}}`), params("affine", 4, 32), ""},
		{"config of the module", affine(16, 1), cfg(`{"quantization":{"bits":4,"group_size":64,"m.q_proj":{"bits":8,"group_size":64}}}`), params("affine", 8, 64), ""},
		{"config of the module inherits nothing", affine(8, 1), cfg(`{"quantization":{"bits":4,"group_size":32,"mode":"mxfp4","m.q_proj":{}}}`), params("affine", 4, 64), ""},
		{"config: module is quantised", affine(8, 1), cfg(`{"quantization":{"bits":4,"group_size":64,"m.q_proj":true}}`), params("affine", 4, 64), ""},
		{"config: module is not quantised", affine(8, 1), cfg(`{"quantization":{"bits":4,"group_size":64,"m.q_proj":false}}`), none, "not quantised"},
		{"config of another mode", affine(8, 1), cfg(`{"quantization":{"bits":4,"group_size":32,"mode":"mxfp4"}}`), none, "are not mxfp4 with 4 bits"},
		{"config of an unknown mode", affine(8, 1), cfg(`{"quantization":{"bits":4,"group_size":32,"mode":"x"}}`), none, "not known"},
		{"config of bad bits", affine(8, 1), cfg(`{"quantization":{"bits":"4","group_size":64}}`), none, "bits is not an integer"},
		{"config of bits -4", affine(8, 1), cfg(`{"quantization":{"bits":-4,"group_size":64}}`), none, "affine with -4 bits"},
		{"config, but bytes", bytes(8, 4), cfg(`{"quantization":{"bits":4,"group_size":64}}`), params("nvfp4", 4, 16), ""},
		{"config, but metadata", affine(16, 1), func(m *module) { cfg(`{"quantization":{"bits":4,"group_size":64}}`)(m); m.kind = "int8" }, params("affine", 8, 64), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.m.path = "m.q_proj"
			tt.m.columns = func() (int64, bool) { return 0, false }
			if tt.edit != nil {
				tt.edit(&tt.m)
			}
			q, err := tt.m.resolve()
			if tt.bad != "" {
				if err == nil || !strings.Contains(err.Error(), tt.bad) {
					t.Errorf("%+v, %v, want a reason about %q", q, err, tt.bad)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := params(q.Mode, q.Bits, q.GroupSize); got != tt.want || q.Scales != tt.m.scale || q.Biases != tt.m.bias || q.Global != tt.m.global {
				t.Errorf("%+v, want %+v", q, tt.want)
			}
		})
	}
}

func TestColumns(t *testing.T) {
	rows := map[string]int64{"m.mlp.up_proj": 96, "x.gate_proj": 80}
	for _, tt := range []struct {
		config, path string
		want         int64 // 0 if unknown
	}{
		{`{"hidden_size":64}`, "m.self_attn.q_proj", 64},
		{`{"hidden_size":64}`, "lm_head", 64},
		{`{"hidden_size":64,"text_config":{"hidden_size":128}}`, "m.k_proj", 128},
		{`{"hidden_size":64}`, "m.mlp.down_proj", 96},
		{`{"intermediate_size":64}`, "x.down_proj", 80},
		{`{"intermediate_size":64}`, "y.down_proj", 0},
		{`{"num_attention_heads":4,"head_dim":16}`, "m.o_proj", 64},
		{`{"num_attention_heads":4}`, "m.o_proj", 0},
		{`{"hidden_size":64}`, "m.other", 0},
		{`{"hidden_size":"64"}`, "m.q_proj", 0},
		{`{"hidden_size":-64}`, "m.q_proj", 0},
		{`{}`, "m.q_proj", 0},
		{``, "m.q_proj", 0},
	} {
		var c *modelConfig
		if tt.config != "" {
			o, err := jsonobj.Parse([]byte(tt.config))
			if err != nil {
				t.Fatal(err)
			}
			c = newConfig(o)
		}
		got, ok := c.columns(tt.path, func(p string) (int64, bool) { n, ok := rows[p]; return n, ok })
		if ok != (tt.want != 0) || got != tt.want && ok {
			t.Errorf("%s %s: %d, %v, want %d", tt.config, tt.path, got, ok, tt.want)
		}
	}
}
