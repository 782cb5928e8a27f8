package hf_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
)

// modules by their packing: each of 32 rows of 128 columns in groups of 64.
var (
	ofGPTQ = tensors(st(x+".qweight", tensorfs.I32, 16, 32), st(x+".qzeros", tensorfs.I32, 2, 4), st(x+".scales", tensorfs.F16, 2, 32))
	ofAWQ  = tensors(st(x+".qweight", tensorfs.I32, 128, 4), st(x+".qzeros", tensorfs.I32, 2, 4), st(x+".scales", tensorfs.F16, 2, 32))
	ofFP8  = tensors(st(x+".weight", tensorfs.F8_E4M3, 32, 128), st(x+".weight_scale_inv", tensorfs.F32, 1, 1))
	ofRows = tensors(st(x+".weight", tensorfs.F8_E4M3, 32, 128), st(x+".weight_scale", tensorfs.BF16, 32), st(x+".input_scale", tensorfs.BF16, 1))
	ofMX4  = tensors(st(x+".weight_packed", tensorfs.U8, 32, 64), st(x+".weight_scale", tensorfs.U8, 32, 4))
	ofInts = tensors(st(x+".weight_packed", tensorfs.I32, 32, 16), st(x+".weight_scale", tensorfs.BF16, 32, 2), st(x+".weight_shape", tensorfs.I64, 2))
)

// TestMethodsOfOtherNames holds that a packing is read under every name that programs give it, and that what has other
// numbers than its tensors suggest is not.
func TestMethodsOfOtherNames(t *testing.T) {
	const weight = "layers.0.attention.q.weight"
	packed := func(mode string, group int) *quant {
		return &quant{mode, 4, group, [2]int{}, []int64{32, 128}, weight, "", ""}
	}
	fp8 := func(block [2]int, scales string) *quant {
		return &quant{"fp8", 8, 0, block, []int64{32, 128}, "", "layers.0.attention.q." + scales, ""}
	}
	gptq, awq := packed("gptq", 64), packed("awq", 64)
	const round = `"quant_method":"auto-round","bits":4,"group_size":64`
	for _, c := range []struct {
		settings string // of quantization_config, or of config.json if they name the key
		tensors  []testmodel.SafeTensor
		want     *quant
		raw      string // why there are no numbers
	}{
		{settings: round, tensors: ofGPTQ, want: gptq},
		{settings: `"quant_method":"intel/auto-round","bits":4,"group_size":64,"backend":"gptq:exllamav2"`, tensors: ofGPTQ, want: gptq},
		{settings: `"quant_method":"AUTO_ROUND","bits":4,"group_size":64,"backend":"auto_round:exllamav2"`, tensors: ofGPTQ, want: gptq},
		{settings: `"quant_method":"inc","bits":4,"group_size":64,"backend":"auto"`, tensors: ofGPTQ, want: gptq},
		{settings: `"quant_method":"inc","bits":4,"group_size":64,"backend":"awq:marlin"`, tensors: ofAWQ, want: awq},
		{settings: round + `,"packing_format":"auto_round:auto_gptq"`, tensors: ofGPTQ, want: gptq},
		{settings: round + `,"packing_format":"auto_round:gptqmodel"`, tensors: ofGPTQ, want: gptq},
		{settings: round + `,"packing_format":"auto_round"`, tensors: ofGPTQ, want: gptq},
		{settings: round + `,"packing_format":"auto_round:tritonv2"`, tensors: ofGPTQ, want: gptq},
		{settings: round + `,"packing_format":"auto_round:auto_awq"`, tensors: ofAWQ, want: awq},
		{settings: `"quant_method":"intel/auto-round","bits":4,"group_size":64,"backend":"auto_round:auto_awq:gemm"`, tensors: ofAWQ, want: awq},
		{settings: round + `,"packing_format":"auto_round:auto_awq"`, tensors: ofGPTQ, raw: "has shape"},
		{settings: round + `,"packing_format":"auto_round:auto_gptq"`, tensors: ofFP8, want: fp8([2]int{}, "scale_inv")},
		{settings: round + `,"packing_format":"auto_round:auto_awq"`, tensors: ofRows, want: fp8([2]int{1, 128}, "scale")},
		{settings: `"quant_method":"auto-round","bits":8,"data_type":"fp","group_size":[32,128],"packing_format":"auto_round:fp8"`, tensors: ofFP8, want: fp8([2]int{32, 128}, "scale_inv")},
		{settings: `"quant_method":"auto-round","bits":8,"data_type":"fp","packing_format":"auto_round:fp8_static"`, tensors: ofRows, want: fp8([2]int{1, 128}, "scale")},
		{settings: round + `,"packing_format":"auto_round:auto_gptq","extra_config":{"` + x + `":{"bits":8,"data_type":"fp","group_size":[32,128]}}`, tensors: ofFP8, want: fp8([2]int{32, 128}, "scale_inv")},
		{settings: round + `,"packing_format":"auto_round:auto_gptq","extra_config":{".*q_proj":{"bits":8,"data_type":"fp","group_size":[32,128]}}`, tensors: ofFP8, want: fp8([2]int{32, 128}, "scale_inv")},
		{settings: round + `,"packing_format":"auto_round:auto_gptq","extra_config":{"` + x + `":{"group_size":[32,64]}}`, tensors: ofFP8, raw: "blocks of 32 x 64"},
		{settings: round + `,"packing_format":"auto_round:llm_compressor"`, tensors: ofMX4, want: &quant{"mxfp4", 4, 32, [2]int{}, []int64{32, 128}, weight, "layers.0.attention.q.scale", ""}},
		{settings: round + `,"packing_format":"auto_round","data_type":"mx_int"`, tensors: ofMX4, raw: "has auto-round"},
		{settings: round + `,"packing_format":"auto_round:llm_compressor"`, tensors: ofGPTQ, raw: "has auto-round"},
		{settings: round + `,"packing_format":"auto_round:llm_compressor_nvfp4_e5m3"`, tensors: ofGPTQ, raw: `packing_format is "auto_round:llm_compressor_nvfp4_e5m3", which is not read`},
		{settings: round + `,"packing_format":"svdquant"`, tensors: ofGPTQ, raw: `packing_format is "svdquant", which is not read`},
		{settings: round + `,"rotation_config":{"hadamard":{}}`, tensors: ofGPTQ, raw: "rotation_config is there"},
		{settings: round + `,"rotation_config":{"hadamard":{}}`, tensors: ofFP8, raw: "rotation_config is there"},
		{settings: round + `,"rotation_config":null,"spinquant_config":{}`, tensors: ofGPTQ, want: gptq},
		{settings: round, tensors: append(tensors(st(x+".w_bf16_to_fp8_scale", tensorfs.BF16, 1)), ofGPTQ...), raw: "w_bf16_to_fp8_scale\" is beside it"},
		// Bits and groups of its own, by the module's name or a pattern; the shapes tell.
		{settings: `"quant_method":"auto-round","bits":8,"group_size":128,"extra_config":{"` + x + `":{"bits":4,"group_size":64}}`, tensors: ofGPTQ, want: gptq},
		{settings: `"quant_method":"auto-round","bits":8,"group_size":128,"packing_format":"auto_round:awq","extra_config":{".*self_attn.*":{"bits":4,"group_size":64}}`, tensors: ofAWQ, want: awq},
		{settings: `"quant_method":"auto-round","bits":8,"group_size":128`, tensors: ofGPTQ, raw: "bits is 8, but its shapes fit 4"},
		{settings: `"quant_method":"auto-round","bits":4,"group_size":-1`, tensors: ofGPTQ, raw: "has shape [2 32], and its module needs [1 32]"},
		{settings: round, tensors: ofGPTQ[:2], raw: `.scales" is missing`},
		{settings: round, tensors: tensors(ofGPTQ[0], ofGPTQ[2]), raw: `.qzeros" is missing`},
		{settings: round + `,"packing_format":"auto_round:auto_awq"`, tensors: ofAWQ[:2], raw: `.scales" is missing`},
		{settings: round, tensors: ofFP8[:1], raw: "no scale for these 8-bit floats"},
		{settings: round + `,"packing_format":"auto_round:llm_compressor"`, tensors: ofMX4[:1], raw: `.weight_scale" is missing`},
		// GPTQ and AWQ.
		{settings: `"quant_method":"gptqmodel","bits":4,"group_size":64`, tensors: ofGPTQ, want: gptq},
		{settings: `"quant_method":"gptq_marlin","bits":4,"group_size":64`, tensors: ofGPTQ, want: gptq},
		{settings: `"quant_method":"gptq_marlin","bits":4,"group_size":64,"checkpoint_format":"marlin"`, tensors: ofGPTQ, raw: "checkpoint_format is marlin"},
		{settings: `"quant_method":"gptq_v2","bits":4,"group_size":64`, tensors: ofGPTQ, want: gptq},
		{settings: `"quant_method":"rtn","bits":4,"group_size":64,"scheme":"sym"`, tensors: ofGPTQ, want: gptq},
		{settings: `"quant_method":"teq","bits":4,"group_size":64`, tensors: ofGPTQ, want: gptq},
		{settings: `"quant_method":"awq","bits":4,"group_size":64,"backend":"inc"`, tensors: ofGPTQ, want: gptq},
		{settings: `"quant_method":"awq_marlin","bits":4,"group_size":64`, tensors: ofAWQ, want: awq},
		{settings: `"quant_method":"awq","w_bit":4,"q_group_size":64,"zero_point":true,"version":"GEMM"`, tensors: ofAWQ, want: awq},
		{settings: `"quant_method":"awq","bits":4,"group_size":-1`, tensors: ofAWQ, raw: "has shape [2 32], and its module needs [1 32]"},
		{settings: `"quant_method":"awq","bits":4,"group_size":64,"zero_point":true`, tensors: tensors(ofAWQ[0], ofAWQ[2]), raw: `.qzeros" is missing`},
		{settings: `"quant_method":"awq","bits":4,"group_size":64,"zero_point":false`, tensors: tensors(ofAWQ[0], ofAWQ[2]), want: awq},
		{settings: round + `,"sym":false,"packing_format":"auto_round:auto_awq"`, tensors: tensors(ofAWQ[0], ofAWQ[2]), raw: `.qzeros" is missing`},
		{settings: `"bits":4,"group_size":64`, tensors: tensors(st(x+".weight", tensorfs.U32, 32, 16)), raw: `quantised with MLX, but "` + x + `.scales" is missing`},
		{settings: `"bits":4,"group_size":64`, tensors: tensors(st(x+".weight", tensorfs.U32, 32, 16), st(x+".scales", tensorfs.F16, 32, 2)), raw: `"` + x + `.biases" is missing`},
		// compressed-tensors.
		{settings: `"quant_method":"compressed-tensors","format":"pack-quantized","config_groups":{"a":{"weights":{"num_bits":4,"group_size":64,"symmetric":false}}}`, tensors: ofInts, raw: `.weight_zero_point" is missing`},
		{settings: `"quant_method":"compressed-tensors","format":"pack-quantized","config_groups":{"a":{"weights":{"num_bits":4,"group_size":64,"symmetric":false}},"b":{"weights":{"num_bits":4,"group_size":64,"symmetric":true}}}`, tensors: ofInts, want: packed("pack-quantized", 64)},
		{settings: `"quant_method":"compressed-tensors","format":"pack-quantized","config_groups":{"a":{"weights":{"num_bits":4,"group_size":64,"actorder":"group"}}}`, tensors: ofInts, raw: `.weight_g_idx" is missing`},
		{settings: `"quant_method":"compressed-tensors","format":"pack-quantized","config_groups":{"a":{"weights":{"num_bits":4,"group_size":64,"actorder":"weight"}}}`, tensors: ofInts, want: packed("pack-quantized", 64)},
		{settings: `"quant_method":"compressed-tensors","format":"int-quantized","config_groups":{"a":{"weights":{"num_bits":8,"symmetric":false}}}`, tensors: tensors(st(x+".weight", tensorfs.I8, 32, 128), st(x+".weight_scale", tensorfs.BF16, 32, 1)), raw: `.weight_zero_point" is missing`},
		{settings: `"compression_config":{"quant_method":"compressed-tensors","format":"pack-quantized","config_groups":{"group_0":{"weights":{"num_bits":4,"group_size":64}}}}`, tensors: ofInts, want: packed("pack-quantized", 64)},
		{settings: `"compression_config":{"format":"pack-quantized","config_groups":{"group_0":{"weights":{"num_bits":4,"group_size":64}}}}`, tensors: ofInts, want: packed("pack-quantized", 64)},
		{settings: `"compression_config":{"quantization_config":{"quant_method":"compressed-tensors","format":"pack-quantized","config_groups":{"group_0":{"weights":{"num_bits":4,"group_size":64}}}},"sparsity_config":{"format":"dense"}}`, tensors: ofInts, want: packed("pack-quantized", 64)},
		{settings: `"compression_config":{"quantization_config":{"format":"pack-quantized","config_groups":{"group_0":{"weights":{"num_bits":4,"group_size":64}}}},"sparsity_config":{"format":"sparse-24-bitmask"}}`, tensors: ofInts, raw: "sparsity_config is sparse-24-bitmask"},
		{settings: `"quant_method":"compressed-tensors","quantization_config":{"format":"pack-quantized","config_groups":{"group_0":{"weights":{"num_bits":4,"group_size":64}}}}`, tensors: ofInts, want: packed("pack-quantized", 64)},
		{settings: `"text_config":{"compression_config":{"format":"pack-quantized","config_groups":{"group_0":{"weights":{"num_bits":4,"group_size":64}}}}}`, tensors: ofInts, want: packed("pack-quantized", 64)},
		{settings: `"quantization_config":{},"compression_config":{"format":"pack-quantized","config_groups":{"group_0":{"weights":{"num_bits":4,"group_size":64}}}}`, tensors: ofInts, want: packed("pack-quantized", 64)},
		{settings: `"quantization_config":{"quant_method":"gptq","bits":4},"compression_config":{"format":"pack-quantized","config_groups":{"group_0":{"weights":{"num_bits":4,"group_size":64}}}}`, tensors: ofInts, raw: "has gptq"},
		{settings: `"quant_method":"compressed-tensors","format":"float-quantized","transform_config":{"config_groups":{"R1":{}}}`, tensors: ofRows, raw: "transform_config names config_groups"},
	} {
		settings := c.settings
		if !strings.Contains(settings, "n_config\":{") || strings.HasPrefix(settings, `"quant_method"`) || strings.HasPrefix(settings, `"bits"`) {
			settings = `"quantization_config":{` + settings + `}`
		}
		t.Run(settings, func(t *testing.T) {
			m := open(t, writeDir(t, map[string][]byte{"config.json": []byte(`{"model_type":"llama",` + settings + `}`), "model.safetensors": testmodel.Safetensors(c.tensors, nil)}))
			codes := bySource(m)[c.tensors[0].Name]
			if strings.HasSuffix(codes.Source, "fp8_scale") {
				codes = bySource(m)[c.tensors[1].Name]
			}
			if got := values(codes.Quant); !reflect.DeepEqual(got, c.want) {
				t.Errorf("Quant %+v, want %+v (%s)", got, c.want, codes.Opaque)
			}
			if c.raw != "" && !strings.Contains(codes.Opaque, c.raw) {
				t.Errorf("%q does not say %q", codes.Opaque, c.raw)
			}
		})
	}
}

// TestQuantFiles holds that settings are read from files of their own if config.json has none.
func TestQuantFiles(t *testing.T) {
	const gptq, awq = `{"bits":4,"group_size":64,"desc_act":false}`, `{"zero_point":true,"q_group_size":64,"w_bit":4,"version":"GEMM"}`
	for _, c := range []struct {
		config, name, text string
		tensors            []testmodel.SafeTensor
		mode               string
	}{
		{`{}`, "quantize_config.json", gptq, ofGPTQ, "gptq"},
		{`{}`, "quantize_config.json", `{"bits":4,"group_size":64,"quant_method":"awq"}`, ofAWQ, "awq"},
		{`{}`, "quant_config.json", awq, ofAWQ, "awq"},
		{`{}`, "quantization_config.json", `{"bits":4,"group_size":64,"quant_method":"auto-round"}`, ofGPTQ, "gptq"},
		{`{}`, "quantization_config.json", gptq, ofGPTQ, ""},
		{`{}`, "quantize_config.json", `{}`, ofGPTQ, ""},
		{`{}`, "quantize_config.json", `{"bits":`, ofGPTQ, ""},
		{`{"quantization_config":{"quant_method":"awq","bits":4,"group_size":64}}`, "quantize_config.json", gptq, ofAWQ, "awq"},
	} {
		m := open(t, writeDir(t, map[string][]byte{"config.json": []byte(c.config), c.name: []byte(c.text), "model.safetensors": testmodel.Safetensors(c.tensors, nil)}))
		codes := bySource(m)[c.tensors[0].Name]
		if q := codes.Quant; q == nil && c.mode != "" || q != nil && q.Mode != c.mode {
			t.Errorf("%s %s: %+v (%s), want %q", c.name, c.text, q, codes.Opaque, c.mode)
		}
	}
}

// TestManyPatterns holds that patterns of extra_config take bounded time.
func TestManyPatterns(t *testing.T) {
	var s strings.Builder
	for i := range 20000 {
		fmt.Fprintf(&s, `,"(a*)*%d$":{"bits":4}`, i)
	}
	list := tensors()
	for i := range 200 {
		p := fmt.Sprintf("model.layers.%d.self_attn.q_proj", i)
		list = append(list, st(p+".weight", tensorfs.F8_E4M3, 32, 128), st(p+".weight_scale_inv", tensorfs.F32, 1, 1))
	}
	m := open(t, writeDir(t, map[string][]byte{"config.json": []byte(`{"quantization_config":{"quant_method":"auto-round","bits":4,"extra_config":{` + s.String()[1:] + `}}}`), "model.safetensors": testmodel.Safetensors(list, nil)}))
	if q := bySource(m)["model.layers.7.self_attn.q_proj.weight"].Quant; q == nil {
		t.Error("no numbers")
	}
}
