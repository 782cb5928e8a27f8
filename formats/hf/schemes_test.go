package hf_test

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/hf"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
)

// st is a tensor of a test; without shape it is a scalar.
func st(name string, t tensorfs.DType, shape ...int64) testmodel.SafeTensor {
	return testmodel.SafeTensor{Name: name, DType: t, Shape: shape}
}

const (
	x       = "model.layers.0.self_attn.q_proj" // canonically layers.0.attention.q
	qkv     = "model.layers.0.self_attn.qkv_proj"
	experts = "model.layers.0.mlp.experts."
)

// writeDir writes files into a new directory and returns it.
func writeDir(t testing.TB, files map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	for name, b := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func tensors(ts ...testmodel.SafeTensor) []testmodel.SafeTensor { return ts }

// quant is a Quant as values; companions by their names.
type quant struct {
	mode           string
	bits, group    int
	block          [2]int
	shape          []int64
	weight         string
	scales, biases string
}

func values(q *tensorfs.Quant) *quant {
	if q == nil {
		return nil
	}
	v := &quant{q.Mode, q.Bits, q.GroupSize, q.Block, q.Shape, q.Weight, "", ""}
	if q.Scales != nil {
		v.scales = q.Scales.Name
	}
	if q.Biases != nil {
		v.biases = q.Biases.Name
	}
	return v
}

// TestSchemes goes through the table of schemes, and through modules of each
// that do not fit. "raw" is what the reason for having no numbers must say; it
// must hold for the codes and all companions.
func TestSchemes(t *testing.T) {
	const (
		f32, f16, bf16, u8, i8, u32, i32, f8 = tensorfs.F32, tensorfs.F16, tensorfs.BF16, tensorfs.U8, tensorfs.I8, tensorfs.U32, tensorfs.I32, tensorfs.F8_E4M3
	)
	q := func(s string) string { return `{"model_type":"llama","quantization_config":` + s + `}` }
	for _, c := range []struct {
		name    string
		config  string
		extra   map[string]string // other files
		tensors []testmodel.SafeTensor
		main    string // source name of the codes
		want    *quant
		raw     string
		plain   []string // source names that keep their numbers
		label   string
	}{
		{
			name: "fp8 blocks", config: q(`{"quant_method":"fp8","weight_block_size":[128,128]}`), label: "fp8, blocks of 128 x 128", main: x + ".weight",
			tensors: tensors(st(x+".weight", f8, 200, 300), st(x+".weight_scale_inv", f32, 2, 3), st("model.norm.weight", bf16, 4)),
			want:    &quant{"fp8", 8, 0, [2]int{128, 128}, []int64{200, 300}, "", "layers.0.attention.q.scale_inv", ""}, plain: []string{"model.norm.weight"},
		},
		{
			name: "fp8 blocks of stacked experts", config: q(`{"quant_method":"fp8","weight_block_size":[2,4]}`), label: "fp8, blocks of 2 x 4", main: experts + "gate_up_proj",
			tensors: tensors(st(experts+"gate_up_proj", f8, 3, 5, 8), st(experts+"gate_up_proj_scale_inv", bf16, 3, 3, 2)),
			want:    &quant{"fp8", 8, 0, [2]int{2, 4}, []int64{3, 5, 8}, "", "layers.0.ffn.experts.gate_up.scale_inv", ""},
		},
		{
			name: "fp8 per tensor", config: q(`{"quant_method":"fp8"}`), label: "fp8", main: x + ".weight",
			tensors: tensors(st(x+".weight", f8, 2, 3), st(x+".weight_scale_inv", f32), st(x+".activation_scale", f32)),
			want:    &quant{"fp8", 8, 0, [2]int{}, []int64{2, 3}, "", "layers.0.attention.q.scale_inv", ""},
		},
		{
			name: "fp8 by Mistral", config: q(`{"quant_method":"fp8"}`), label: "fp8", main: x + ".weight",
			tensors: tensors(st(x+".weight", f8, 2, 3), st(x+".qscale_weight", bf16), st(x+".qscale_act", bf16)),
			want:    &quant{"fp8", 8, 0, [2]int{}, []int64{2, 3}, "", "model.layers.0.self_attn.q_proj.qscale_weight", ""},
		},
		{
			name: "fp8 per row", config: q(`{"quant_method":"compressed-tensors","format":"float-quantized","config_groups":{"group_0":{"weights":{"num_bits":8,"strategy":"channel"}}}}`),
			label: "compressed-tensors float-quantized 8-bit", main: x + ".weight",
			tensors: tensors(st(x+".weight", f8, 2, 3), st(x+".weight_scale", bf16, 2, 1), st(x+".input_scale", f32, 1)),
			want:    &quant{"fp8", 8, 0, [2]int{1, 3}, []int64{2, 3}, "", "layers.0.attention.q.scale", ""},
		},
		{
			name: "fp8 per matrix of a stack", config: q(`{"quant_method":"fp8"}`), label: "fp8", main: experts + "gate_up_proj",
			tensors: tensors(st(experts+"gate_up_proj", f8, 3, 5, 8), st(experts+"gate_up_proj_scale_inv", bf16, 3, 1, 1)),
			want:    &quant{"fp8", 8, 0, [2]int{5, 8}, []int64{3, 5, 8}, "", "layers.0.ffn.experts.gate_up.scale_inv", ""},
		},
		{
			name:   "fp8 blocks by compressed-tensors",
			config: q(`{"quant_method":"compressed-tensors","format":"float-quantized","config_groups":{"group_0":{"weights":{"num_bits":8,"strategy":"block","block_structure":[2,2]}}}}`),
			label:  "compressed-tensors float-quantized 8-bit", main: x + ".weight",
			tensors: tensors(st(x+".weight", f8, 3, 4), st(x+".weight_scale", bf16, 2, 2)),
			want:    &quant{"fp8", 8, 0, [2]int{2, 2}, []int64{3, 4}, "", "layers.0.attention.q.scale", ""},
		},
		{
			name: "fp8 by ModelOpt", config: `{}`, extra: map[string]string{"hf_quant_config.json": `{"producer":{"name":"modelopt"},"quantization":{"quant_algo":"FP8"}}`}, label: "modelopt FP8", main: x + ".weight",
			tensors: tensors(st(x+".weight", f8, 2, 3), st(x+".weight_scale", f32), st(x+".input_scale", f32)),
			want:    &quant{"fp8", 8, 0, [2]int{}, []int64{2, 3}, "", "layers.0.attention.q.scale", ""},
		},
		{
			name: "fp8 blocks of q, k and v for four processors", config: q(`{"quant_method":"fp8","weight_block_size":[128,128]}`), label: "fp8, blocks of 128 x 128", main: qkv + ".weight",
			tensors: tensors(st(qkv+".weight", f8, 1248, 160), st(qkv+".weight_scale_inv", f32, 12, 2)),
			want:    &quant{"fp8", 8, 0, [2]int{128, 128}, []int64{1248, 160}, "", "layers.0.attention.qkv.scale_inv", ""},
		},
		{
			name: "fp8 blocks of q, k and v for five processors", config: q(`{"quant_method":"fp8","weight_block_size":[128,128]}`), label: "fp8, blocks of 128 x 128", main: qkv + ".weight",
			tensors: tensors(st(qkv+".weight", f8, 1250, 160), st(qkv+".weight_scale_inv", f32, 15, 2)), raw: "do not fit blocks of 128 x 128 in shape [1250 160]",
		},
		{
			name: "fp8 blocks of another matrix for four processors", config: q(`{"quant_method":"fp8","weight_block_size":[128,128]}`), label: "fp8, blocks of 128 x 128", main: x + ".weight",
			tensors: tensors(st(x+".weight", f8, 1248, 160), st(x+".weight_scale_inv", f32, 12, 2)), raw: "do not fit blocks of 128 x 128 in shape [1248 160]",
		},
		{
			name: "MiMo's MXFP4", config: q(`{"quant_method":"fp8","weight_block_size":[128,128],"store_dtype":"mxfp4"}`), label: "fp8, blocks of 128 x 128", main: x + ".weight",
			tensors: tensors(st(x+".weight", u8, 2, 32), st(x+".weight_scale", u8, 2, 2)),
			want:    &quant{"mxfp4", 4, 32, [2]int{}, []int64{2, 64}, "", "layers.0.attention.q.scale", ""},
		},
		{
			name: "fp8 blocks of another size", config: q(`{"quant_method":"fp8","weight_block_size":[64,64]}`), label: "fp8, blocks of 64 x 64", main: x + ".weight",
			tensors: tensors(st(x+".weight", f8, 200, 300), st(x+".weight_scale_inv", f32, 2, 3)), raw: "do not fit blocks of 64 x 64",
		},
		{
			name: "fp8 blocks of another form", config: q(`{"quant_method":"fp8","weight_block_size":[64,32]}`), label: "fp8, blocks of 64 x 32", main: x + ".weight",
			tensors: tensors(st(x+".weight", f8, 64, 64), st(x+".weight_scale_inv", f32, 1, 1)), raw: "scales of shape [1 1] do not fit blocks of 64 x 32 in shape [64 64]",
		},
		{
			name: "fp8 blocks of a vector", config: q(`{"quant_method":"fp8","weight_block_size":[2,2]}`), label: "fp8, blocks of 2 x 2", main: x + ".weight",
			tensors: tensors(st(x+".weight", f8, 4), st(x+".weight_scale_inv", f32, 2)), raw: "do not fit blocks of 2 x 2 in shape [4]",
		},
		{
			name: "fp8 with several scales for a vector", config: q(`{"quant_method":"fp8"}`), label: "fp8", main: x + ".weight",
			tensors: tensors(st(x+".weight", f8, 4), st(x+".weight_scale_inv", f32, 2)), raw: "scales of shape [2] do not fit shape [4]",
		},
		{
			name: "fp8 per row of one", config: q(`{"quant_method":"fp8"}`), label: "fp8", main: x + ".weight",
			tensors: tensors(st(x+".weight", f8, 2, 1), st(x+".weight_scale_inv", f32, 2, 1)),
			want:    &quant{"fp8", 8, 0, [2]int{1, 1}, []int64{2, 1}, "", "layers.0.attention.q.scale_inv", ""},
		},
		{
			name: "fp8 without rows", config: q(`{"quant_method":"fp8"}`), label: "fp8", main: x + ".weight",
			tensors: tensors(st(x+".weight", f8, 0, 3), st(x+".weight_scale_inv", f32, 0, 2)), raw: "names no block size",
		},
		{
			name: "fp8 without columns", config: q(`{"quant_method":"fp8"}`), label: "fp8", main: x + ".weight",
			tensors: tensors(st(x+".weight", f8, 2, 0), st(x+".weight_scale_inv", f32, 2, 2)), raw: "names no block size",
		},
		{
			name: "fp8 blocks without a size", config: q(`{"quant_method":"fp8"}`), label: "fp8", main: x + ".weight",
			tensors: tensors(st(x+".weight", f8, 200, 300), st(x+".weight_scale_inv", f32, 2, 3)), raw: "names no block size",
		},
		{
			name: "fp8 with one scale and a block size", config: q(`{"quant_method":"fp8","weight_block_size":[2,2]}`), label: "fp8, blocks of 2 x 2", main: x + ".weight",
			tensors: tensors(st(x+".weight", f8, 4, 4), st(x+".weight_scale_inv", f32)), raw: "do not fit blocks of 2 x 2",
		},
		{
			name: "fp8 with integer scales", config: q(`{"quant_method":"fp8"}`), label: "fp8", main: x + ".weight",
			tensors: tensors(st(x+".weight", f8, 2, 3), st(x+".weight_scale_inv", u8)), raw: "its scales are U8",
		},
		{
			name: "gpt-oss", config: q(`{"quant_method":"mxfp4"}`), label: "mxfp4", main: experts + "gate_up_proj_blocks",
			tensors: tensors(st(experts+"gate_up_proj_blocks", u8, 2, 6, 4, 16), st(experts+"gate_up_proj_scales", u8, 2, 6, 4), st(experts+"gate_up_proj_bias", bf16, 2, 6)),
			want:    &quant{"mxfp4", 4, 32, [2]int{}, []int64{2, 6, 128}, "layers.0.ffn.experts.gate_up.weight", "layers.0.ffn.experts.gate_up.scales", ""}, plain: []string{experts + "gate_up_proj_bias"},
		},
		{
			name: "gpt-oss of unknown names", config: q(`{"quant_method":"mxfp4"}`), label: "mxfp4", main: "odd_blocks",
			tensors: tensors(st("odd_blocks", u8, 6, 4, 16), st("odd_scales", u8, 6, 4)),
			want:    &quant{"mxfp4", 4, 32, [2]int{}, []int64{6, 128}, "odd_blocks.weight", "odd_scales", ""},
		},
		{
			name: "gpt-oss with scales of another shape", config: q(`{"quant_method":"mxfp4"}`), label: "mxfp4", main: experts + "down_proj_blocks",
			tensors: tensors(st(experts+"down_proj_blocks", u8, 2, 6, 4, 16), st(experts+"down_proj_scales", u8, 2, 4, 6)), raw: "do not belong together",
		},
		{
			name: "packed integers", config: q(`{"quant_method":"compressed-tensors","format":"pack-quantized","config_groups":{"group_0":{"weights":{"num_bits":4,"group_size":128}}}}`),
			label: "compressed-tensors pack-quantized 4-bit, group 128", main: x + ".weight_packed",
			want:    &quant{"pack-quantized", 4, 128, [2]int{}, []int64{2, 256}, "layers.0.attention.q.weight", "", ""},
			tensors: tensors(st(x+".weight_packed", i32, 2, 32), st(x+".weight_scale", bf16, 2, 2), st(x+".weight_shape", i32, 2), st(x+".weight_zero_point", i32, 1, 2)),
		},
		{
			name: "integers", config: q(`{"quant_method":"compressed-tensors","format":"int-quantized"}`), label: "compressed-tensors int-quantized", main: x + ".weight",
			want:    &quant{"int-quantized", 8, 32, [2]int{}, []int64{2, 32}, "", "", ""},
			tensors: tensors(st(x+".weight", i8, 2, 32), st(x+".weight_scale", bf16, 2, 1)),
		},
		{
			name: "NVFP4 by compressed-tensors", config: q(`{"quant_method":"compressed-tensors","format":"nvfp4-pack-quantized"}`), label: "compressed-tensors nvfp4-pack-quantized", main: x + ".weight_packed",
			want:    &quant{"nvfp4-pack-quantized", 4, 16, [2]int{}, []int64{2, 64}, "layers.0.attention.q.weight", "", ""},
			tensors: tensors(st(x+".weight_packed", u8, 2, 32), st(x+".weight_scale", f8, 2, 4), st(x+".weight_global_scale", f32, 1), st(x+".input_global_scale", f32, 1)),
		},
		{
			name: "NVFP4 by ModelOpt", config: q(`{"quant_method":"modelopt","quant_algo":"NVFP4"}`), label: "modelopt NVFP4", main: x + ".weight",
			want:    &quant{"modelopt-nvfp4", 4, 16, [2]int{}, []int64{2, 64}, "", "", ""},
			tensors: tensors(st(x+".weight", u8, 2, 32), st(x+".weight_scale", f8, 2, 4), st(x+".weight_scale_2", f32), st(x+".input_scale", f32)),
		},
		{
			name: "GPTQ", config: q(`{"quant_method":"gptq","bits":4,"group_size":128}`), label: "gptq 4-bit, group 128", main: x + ".qweight",
			want:    &quant{"gptq", 4, 128, [2]int{}, []int64{8, 256}, "layers.0.attention.q.weight", "", ""},
			tensors: tensors(st(x+".qweight", i32, 32, 8), st(x+".qzeros", i32, 2, 1), st(x+".scales", f16, 2, 8), st(x+".g_idx", i32, 256)),
		},
		{
			name: "AWQ", config: q(`{"quant_method":"awq","bits":4,"group_size":64}`), label: "awq 4-bit, group 64", main: x + ".qweight",
			want:    &quant{"awq", 4, 64, [2]int{}, []int64{8, 128}, "layers.0.attention.q.weight", "", ""},
			tensors: tensors(st(x+".qweight", i32, 128, 1), st(x+".qzeros", i32, 2, 1), st(x+".scales", f16, 2, 8)),
		},
		{
			name: "bitsandbytes 4-bit", config: q(`{"quant_method":"bitsandbytes","load_in_4bit":true,"bnb_4bit_quant_type":"nf4"}`), label: "bitsandbytes nf4 4-bit", main: x + ".weight", raw: "bitsandbytes 4-bit",
			tensors: tensors(st(x+".weight", u8, 64, 1), st(x+".weight.absmax", u8, 2), st(x+".weight.quant_map", f32, 16), st(x+".weight.nested_absmax", f32, 1),
				st(x+".weight.nested_quant_map", f32, 256), st(x+".weight.quant_state.bitsandbytes__nf4", u8, 80)),
		},
		{
			name: "bitsandbytes 8-bit", config: q(`{"load_in_8bit":true}`), label: "bitsandbytes 8-bit", main: x + ".weight",
			want:    &quant{"bitsandbytes", 8, 0, [2]int{}, []int64{2, 4}, "", "", ""},
			tensors: tensors(st(x+".weight", i8, 2, 4), st(x+".SCB", f32, 2)),
		},
		{
			name: "BitNet", config: q(`{"quant_method":"bitnet"}`), label: "bitnet", main: x + ".weight", raw: "BitNet",
			tensors: tensors(st(x+".weight", u8, 2, 4), st(x+".weight_scale", bf16, 1)),
		},
		{
			name: "a method that nobody knows", config: q(`{"quant_method":"hqq","bits":3}`), label: "hqq 3-bit", main: x + ".W_q", raw: "hqq 3-bit, which is not known",
			tensors: tensors(st(x+".W_q", u8, 2, 4), st("model.norm.weight", f16, 4)), plain: []string{"model.norm.weight"},
		},
		{
			name: "fp8 of a method that nobody knows", config: q(`{"quant_method":"finegrained_fp8"}`), label: "finegrained_fp8", main: x + ".weight", raw: "has finegrained_fp8",
			tensors: tensors(st(x+".weight", f8, 2, 3), st(x+".weight_scale", f32, 2, 1)),
		},
		{
			name: "fp8 by FBGEMM", config: q(`{"quant_method":"fbgemm_fp8"}`), label: "fbgemm_fp8", main: x + ".weight",
			tensors: tensors(st(x+".weight", f8, 2, 3), st(x+".weight_scale", f32, 2, 1)),
			want:    &quant{"fp8", 8, 0, [2]int{1, 3}, []int64{2, 3}, "", "layers.0.attention.q.scale", ""},
		},
		{
			name: "fp8 by Quark", config: q(`{"quant_method":"quark"}`), label: "quark", main: x + ".weight",
			tensors: tensors(st(x+".weight", f8, 2, 3), st(x+".weight_scale", f32)),
			want:    &quant{"fp8", 8, 0, [2]int{}, []int64{2, 3}, "", "layers.0.attention.q.scale", ""},
		},
		{
			name: "MXFP4 by compressed-tensors", config: q(`{"quant_method":"compressed-tensors","format":"mxfp4-pack-quantized"}`), label: "compressed-tensors mxfp4-pack-quantized", main: x + ".weight_packed",
			tensors: tensors(st(x+".weight_packed", u8, 2, 32), st(x+".weight_scale", u8, 2, 2)),
			want:    &quant{"mxfp4", 4, 32, [2]int{}, []int64{2, 64}, "layers.0.attention.q.weight", "layers.0.attention.q.scale", ""},
		},
		{
			name: "FP4 by DeepSeek", config: q(`{"quant_method":"fp8","weight_block_size":[128,128]}`), label: "fp8, blocks of 128 x 128", main: x + ".weight",
			tensors: tensors(st(x+".weight", i8, 2, 32), st(x+".scale", tensorfs.F8_E8M0, 2, 2)),
			want:    &quant{"mxfp4", 4, 32, [2]int{}, []int64{2, 64}, "", "layers.0.attention.q.scale", ""},
		},
		{
			name: "fp8 by DeepSeek", config: q(`{"quant_method":"fp8","weight_block_size":[128,128]}`), label: "fp8, blocks of 128 x 128", main: x + ".weight",
			tensors: tensors(st(x+".weight", f8, 200, 64), st(x+".scale", tensorfs.F8_E8M0, 2, 1)),
			want:    &quant{"fp8", 8, 0, [2]int{128, 128}, []int64{200, 64}, "", "layers.0.attention.q.scale", ""},
		},
		{
			name: "MXFP8 by compressed-tensors", config: q(`{"quant_method":"compressed-tensors","format":"mxfp8-quantized"}`), label: "compressed-tensors mxfp8-quantized", main: x + ".weight",
			tensors: tensors(st(x+".weight", f8, 2, 64), st(x+".weight_scale", u8, 2, 2)),
			want:    &quant{"mxfp8-quantized", 8, 32, [2]int{}, []int64{2, 64}, "", "", ""},
		},
		{
			name: "integers of two widths", config: q(`{"quant_method":"compressed-tensors","format":"mixed-precision","config_groups":{"a":{"format":"pack-quantized","weights":{"num_bits":4,"group_size":64}},"b":{"format":"pack-quantized","weights":{"num_bits":8,"group_size":64}}}}`),
			label: "compressed-tensors mixed-precision", main: x + ".weight_packed",
			tensors: tensors(st(x+".weight_packed", i32, 2, 32), st(x+".weight_scale", bf16, 2, 2)),
			want:    &quant{"pack-quantized", 8, 64, [2]int{}, []int64{2, 128}, "layers.0.attention.q.weight", "", ""},
		},
		{
			name: "rotated weights", config: q(`{"quant_method":"compressed-tensors","format":"int-quantized","transform_config":{"config_groups":{"R1":{}}}}`), main: x + ".weight", raw: "transform_config names config_groups",
			tensors: tensors(st(x+".weight", i8, 2, 32), st(x+".weight_scale", bf16, 2, 1)),
		},
		{
			name: "sparse weights", config: q(`{"quant_method":"compressed-tensors","format":"int-quantized","sparsity_config":{"format":"sparse-24-bitmask"}}`), main: x + ".weight", raw: "sparsity_config is sparse-24-bitmask",
			tensors: tensors(st(x+".weight", i8, 2, 32), st(x+".weight_scale", bf16, 2, 1)),
		},
		{
			name: "codes of Marlin", config: q(`{"quant_method":"compressed-tensors","format":"marlin-24"}`), main: x + ".weight_packed", raw: `format is "marlin-24"`,
			tensors: tensors(st(x+".weight_packed", i32, 2, 32), st(x+".weight_scale", bf16, 2, 2)),
		},
		{
			name: "GPTQ of planes", config: q(`{"quant_method":"gptq","bits":3,"checkpoint_format":"gptq_p"}`), main: x + ".qweight", raw: "checkpoint_format is gptq_p",
			tensors: tensors(st(x+".qweight", i32, 12, 32), st(x+".qzeros", i32, 1, 3), st(x+".scales", f16, 1, 32)),
		},
		{
			name: "GPTQ of 5 bits", config: q(`{"quant_method":"gptq","bits":5}`), main: x + ".qweight", raw: "bits is 5",
			tensors: tensors(st(x+".qweight", i32, 20, 32), st(x+".qzeros", i32, 1, 5), st(x+".scales", f16, 1, 32)),
		},
		{
			name: "GPTQ of other bits", config: q(`{"quant_method":"gptq","bits":8}`), main: x + ".qweight", raw: "bits is 8, but its shapes fit 4",
			tensors: tensors(st(x+".qweight", i32, 16, 32), st(x+".qzeros", i32, 1, 4), st(x+".scales", f16, 1, 32)),
		},
		{
			name: "GPTQ of its own bits", config: q(`{"quant_method":"gptq","bits":4,"group_size":32,"dynamic":{"lm_head":{"bits":8,"group_size":64}}}`), main: "lm_head.qweight",
			tensors: tensors(st("lm_head.qweight", i32, 32, 16), st("lm_head.qzeros", i32, 2, 4), st("lm_head.scales", f16, 2, 16)), label: "gptq 4-bit, group 32",
			want: &quant{"gptq", 8, 64, [2]int{}, []int64{16, 128}, "output.weight", "", ""},
		},
		{
			name: "GPTQ of other groups", config: q(`{"quant_method":"gptq","bits":4,"group_size":64}`), main: x + ".qweight", raw: `q_proj.scales" has shape [4 32], and its module needs [2 32]`,
			tensors: tensors(st(x+".qweight", i32, 16, 32), st(x+".qzeros", i32, 4, 4), st(x+".scales", f16, 4, 32)),
		},
		{
			name: "AWQ of another layout", config: q(`{"quant_method":"awq","bits":4,"version":"gemv"}`), main: x + ".qweight", raw: `version is "gemv"`,
			tensors: tensors(st(x+".qweight", i32, 128, 1), st(x+".qzeros", i32, 2, 1), st(x+".scales", f16, 2, 8)),
		},
		{
			name: "names of another method", config: q(`{"quant_method":"awq","bits":4}`), main: x + ".qweight", raw: "looks like GPTQ, but config.json has awq",
			tensors: tensors(st(x+".qweight", i32, 32, 8), st(x+".qzeros", i32, 2, 1), st(x+".scales", f16, 2, 8), st(x+".g_idx", i32, 256)),
		},
		{
			name: "fp8 without settings", config: `{}`, main: x + ".weight", raw: "no config.json describes the quantisation",
			tensors: tensors(st(x+".weight", f8, 2, 3), st(x+".weight_scale", f32)),
		},
		{
			name: "fp8 with a scale of unknown name", config: `{}`, main: x + ".weight", raw: `q_proj.scale_weight\" looks like its scale`,
			tensors: tensors(st(x+".weight", f8, 2, 3), st(x+".scale_weight", f32)), plain: []string{x + ".scale_weight"},
		},
		{
			name: "fp8 whose scale is missing", config: q(`{"quant_method":"fp8"}`), main: x + ".weight", raw: `no scale for these 8-bit floats was found: \"` + x + `.weight_scale_inv\" is missing`,
			tensors: tensors(st(x+".weight", f8, 2, 3)),
		},
		{
			name: "GPTQ whose scales are missing", config: q(`{"quant_method":"gptq","bits":4}`), main: x + ".qweight", raw: `quantised with GPTQ, but \"` + x + `.scales\" is missing`,
			tensors: tensors(st(x+".qweight", i32, 32, 8), st(x+".qzeros", i32, 2, 1), st(x+".g_idx", i32, 256)),
		},
		{
			name: "GPTQ whose zero points are missing", config: q(`{"quant_method":"gptq","bits":4}`), main: x + ".qweight", raw: `quantised with GPTQ, but \"` + x + `.qzeros\" is missing`,
			tensors: tensors(st(x+".qweight", i32, 32, 8), st(x+".scales", f16, 2, 8)),
		},
		{
			name: "GPTQ alone", config: q(`{"quant_method":"gptq","bits":4}`), main: x + ".qweight", raw: `but \"` + x + `.qzeros\" and \"` + x + `.scales\" is missing`,
			tensors: tensors(st(x+".qweight", i32, 32, 8)),
		},
		{
			name: "AWQ whose scales are missing", config: q(`{"quant_method":"awq","bits":4}`), main: x + ".qweight", raw: `quantised with AWQ, but \"` + x + `.scales\" is missing`,
			tensors: tensors(st(x+".qweight", i32, 128, 1), st(x+".qzeros", i32, 2, 1)),
		},
		{
			name: "packed integers whose scales are missing", config: q(`{"quant_method":"compressed-tensors","format":"pack-quantized"}`), main: x + ".weight_packed",
			raw:     `quantised with compressed-tensors packed integers, but \"` + x + `.weight_scale\" is missing`,
			tensors: tensors(st(x+".weight_packed", i32, 8, 4), st(x+".weight_shape", i32, 2)),
		},
		{
			name: "integers whose scales are missing", config: q(`{"quant_method":"compressed-tensors","format":"int-quantized"}`), main: x + ".weight",
			raw:     `quantised with compressed-tensors integers, but \"` + x + `.weight_scale\" is missing`,
			tensors: tensors(st(x+".weight", i8, 8, 4)),
		},
		{
			name: "NVFP4 whose second scale is missing", config: q(`{"quant_method":"modelopt","quant_algo":"NVFP4"}`), main: x + ".weight",
			raw:     `quantised with ModelOpt NVFP4, but \"` + x + `.weight_scale_2\" is missing`,
			tensors: tensors(st(x+".weight", u8, 8, 4), st(x+".weight_scale", f8, 8, 1)),
		},
		{
			name: "8 bits by bitsandbytes without SCB", config: q(`{"quant_method":"bitsandbytes","load_in_8bit":true}`), main: x + ".weight",
			raw:     `quantised with bitsandbytes 8-bit, but \"` + x + `.SCB\" is missing`,
			tensors: tensors(st(x+".weight", i8, 8, 4)),
		},
		{
			name: "plain fp8", config: `{}`, main: x + ".weight",
			tensors: tensors(st(x+".weight", f8, 2, 3), st("other.scale", f32)), plain: []string{x + ".weight", "other.scale"},
		},
		{
			name: "settings below text_config", config: `{"text_config":{"quantization_config":{"quant_method":"fp8"}}}`, label: "fp8", main: x + ".weight",
			tensors: tensors(st(x+".weight", f8, 2, 3), st(x+".weight_scale_inv", f32)),
			want:    &quant{"fp8", 8, 0, [2]int{}, []int64{2, 3}, "", "layers.0.attention.q.scale_inv", ""},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := map[string][]byte{"config.json": []byte(c.config), "model.safetensors": testmodel.Safetensors(c.tensors, nil)}
			for name, text := range c.extra {
				files[name] = []byte(text)
			}
			m := open(t, writeDir(t, files))
			all := bySource(m)
			codes := all[c.main]
			if got := values(codes.Quant); !reflect.DeepEqual(got, c.want) {
				t.Errorf("Quant %+v, want %+v (%s)", got, c.want, codes.Opaque)
			}
			for source, p := range all {
				isPlain := false
				for _, s := range c.plain {
					isPlain = isPlain || s == source
				}
				switch {
				case isPlain:
					if p.Opaque != "" || p.Owner != "" || p.Quant != nil {
						t.Errorf("%s is plain, and has Opaque %q, owner %q, Quant %+v", source, p.Opaque, p.Owner, p.Quant)
					}
				case c.raw != "":
					if source == x+".input_scale" {
						continue // belongs to some of the schemes
					}
					if !strings.Contains(p.Opaque, strings.ReplaceAll(c.raw, `\"`, `"`)) || !strings.HasSuffix(p.Opaque, "; see raw/") || strings.Count(p.Opaque, ";") != 1 || p.Owner != "" {
						t.Errorf("%s: owner %q, reason %q does not say %q", source, p.Owner, p.Opaque, c.raw)
					}
				case p != codes:
					isCompanion := slices.ContainsFunc(codes.Quant.Companions, func(o *tensorfs.Tensor) bool { return o.Name == p.Name })
					if p.Owner != codes.Name || p.Name != c.want.scales && !isCompanion {
						t.Errorf("%s: %s with owner %q", source, p.Name, p.Owner)
					}
				}
			}
			label := ""
			for _, e := range m.Metadata {
				if e.Key == "tensorfs.quantization" {
					label = e.Value.(string)
				}
			}
			if label != c.label && c.label != "" {
				t.Errorf("label %q, want %q", label, c.label)
			}
			if m.Format != "huggingface" {
				t.Errorf("format %s", m.Format)
			}
		})
	}
}

// TestMLXSettings goes through the rules for one module of an MLX model:
// exceptions do not inherit, and tensors must confirm the settings.
func TestMLXSettings(t *testing.T) {
	const f16, f32, u32, u8 = tensorfs.F16, tensorfs.F32, tensorfs.U32, tensorfs.U8
	// affine returns a module of K columns in that packing.
	affine := func(bits, group, columns int64) []testmodel.SafeTensor {
		return tensors(st(x+".weight", u32, 2, columns*bits/32), st(x+".scales", f16, 2, columns/group), st(x+".biases", f16, 2, columns/group))
	}
	other := func(bits, group, columns int64) []testmodel.SafeTensor { return affine(bits, group, columns)[:2:2] }
	u8Scales := func(ts []testmodel.SafeTensor) []testmodel.SafeTensor { ts[1].DType = u8; return ts }
	stacked := tensors(st(x+".weight", u32, 3, 2, 16), st(x+".scales", u8, 3, 2, 4))
	top := func(s string) string { return `{"quantization":{` + s + `}}` }
	const module = `,"` + x + `":`
	good := func(mode string, bits, group int, columns int64) *quant {
		q := &quant{mode, bits, group, [2]int{}, []int64{2, columns}, "", "layers.0.attention.q.scales", ""}
		if mode == "affine" {
			q.biases = "layers.0.attention.q.biases"
		}
		return q
	}
	for _, c := range []struct {
		name    string
		config  string
		meta    [][2]string
		tensors []testmodel.SafeTensor
		want    *quant
		raw     string
	}{
		{name: "top level, no mode", config: top(`"bits":4,"group_size":64`), tensors: affine(4, 64, 128), want: good("affine", 4, 64, 128)},
		{name: "only quantization_config", config: `{"quantization_config":{"bits":3,"group_size":32}}`, tensors: affine(3, 32, 96), want: good("affine", 3, 32, 96)},
		{name: "text_config", config: `{"text_config":{"quantization_config":{"bits":5,"group_size":32}}}`, tensors: affine(5, 32, 64), want: good("affine", 5, 32, 64)},
		{name: "header", config: `{}`, meta: [][2]string{{"quantization", `{"bits":2,"group_size":128}`}}, tensors: affine(2, 128, 128), want: good("affine", 2, 128, 128)},
		{name: "floats as integers", config: top(`"bits":6.0,"group_size":32`), tensors: affine(6, 32, 64), want: good("affine", 6, 32, 64)},
		{name: "own entry", config: top(`"bits":4,"group_size":64` + module + `{"bits":8,"group_size":32}`), tensors: affine(8, 32, 64), want: good("affine", 8, 32, 64)},
		{name: "own entry does not inherit the mode", config: top(`"bits":4,"group_size":32,"mode":"mxfp4"` + module + `{"bits":8,"group_size":64}`), tensors: affine(8, 64, 64), want: good("affine", 8, 64, 64)},
		{name: "own entry does not inherit bits", config: top(`"bits":8,"group_size":32` + module + `{"group_size":32}`), tensors: affine(4, 32, 64), want: good("affine", 4, 32, 64)},
		{name: "own entry does not inherit the group", config: top(`"bits":8,"group_size":32` + module + `{"bits":8}`), tensors: affine(8, 64, 64), want: good("affine", 8, 64, 64)},
		{name: "own entry with defaults of its mode", config: top(`"bits":8,"group_size":32` + module + `{"mode":"nvfp4"}`), tensors: u8Scales(other(4, 16, 64)), want: good("nvfp4", 4, 16, 64)},
		{name: "mxfp8", config: top(`"bits":8,"group_size":32,"mode":"mxfp8"`), tensors: u8Scales(other(8, 32, 64)), want: good("mxfp8", 8, 32, 64)},
		{name: "entry true", config: top(`"bits":4,"group_size":64` + module + `true`), tensors: affine(4, 64, 128), want: good("affine", 4, 64, 128)},
		{name: "only entries", config: top(`"mode":"affine"` + module + `{"bits":4,"group_size":64}`), tensors: affine(4, 64, 128), want: good("affine", 4, 64, 128)},
		{name: "stacked mxfp4 with own group and bits", config: top(`"bits":4,"group_size":64` + module + `{"bits":4,"group_size":32,"mode":"mxfp4"}`), tensors: stacked,
			want: &quant{"mxfp4", 4, 32, [2]int{}, []int64{3, 2, 128}, "", "layers.0.attention.q.scales", ""}},
		{name: "stacked mxfp4 has the defaults of affine", config: top(`"bits":4,"group_size":64` + module + `{"mode":"mxfp4"}`), tensors: stacked, raw: "mxfp4 with 4 bits in groups of 64 does not exist"},
		{name: "entry false, with scales", config: top(`"bits":4,"group_size":64` + module + `false`), tensors: affine(4, 64, 128), raw: "marks it as not quantised"},
		{name: "entry of another kind", config: top(`"bits":4,"group_size":64` + module + `"4"`), tensors: affine(4, 64, 128), raw: "is not a setting"},
		{name: "no bits at the top", config: top(`"group_size":64`), tensors: affine(4, 64, 128), raw: "names no bits and group_size"},
		{name: "settings of another module", config: top(`"other":{"bits":4,"group_size":64}`), tensors: affine(4, 64, 128), raw: "names no bits and group_size"},
		{name: "7 bits", config: top(`"bits":7,"group_size":64`), tensors: affine(8, 64, 128), raw: "affine with 7 bits in groups of 64 does not exist"},
		{name: "unknown mode", config: top(`"bits":4,"group_size":64,"mode":"\u001bnf4"`), tensors: affine(4, 64, 128), raw: `the mode "\x1bnf4" is not known`},
		{name: "bits are text", config: top(`"bits":"4","group_size":64`), tensors: affine(4, 64, 128), raw: "bits is not an integer"},
		{name: "bits of absurd size", config: top(`"bits":1e300,"group_size":64`), tensors: affine(4, 64, 128), raw: "bits is not an integer"},
		{name: "wrong bits", config: top(`"bits":8,"group_size":64`), tensors: affine(4, 64, 128), raw: "are not affine with 8 bits in groups of 64"},
		{name: "no biases", config: top(`"bits":4,"group_size":64`), tensors: other(4, 64, 128), raw: "affine needs"},
		{name: "biases of mxfp4", config: top(`"bits":4,"group_size":32,"mode":"mxfp4"`), tensors: u8Scales(affine(4, 32, 64)), raw: "takes no biases"},
		{name: "mxfp4 with F16 scales", config: top(`"bits":4,"group_size":32,"mode":"mxfp4"`), tensors: other(4, 32, 64), raw: "are U8, not F16"},
		{name: "affine with U8 scales", config: top(`"bits":4,"group_size":64`), tensors: u8Scales(affine(4, 64, 128)), raw: "are F16, BF16 or F32, not U8"},
		{name: "biases of another type", config: top(`"bits":4,"group_size":64`), raw: "biases are F32",
			tensors: tensors(affine(4, 64, 128)[0], affine(4, 64, 128)[1], st(x+".biases", f32, 2, 2))},
		{name: "biases of another shape", config: top(`"bits":4,"group_size":64`), raw: "biases are F16 of shape [4]",
			tensors: tensors(affine(4, 64, 128)[0], affine(4, 64, 128)[1], st(x+".biases", f16, 4))},
		{name: "other rows", config: top(`"bits":4,"group_size":64`), raw: "do not belong together",
			tensors: tensors(st(x+".weight", u32, 2, 16), st(x+".scales", f16, 1, 2), st(x+".biases", f16, 1, 2))},
		{name: "scalars", config: top(`"bits":4,"group_size":64`), raw: "do not belong together",
			tensors: tensors(st(x+".weight", u32), st(x+".scales", f16), st(x+".biases", f16))},
		{name: "no config", config: `{}`, tensors: affine(4, 64, 128), raw: "looks like MLX, but no config.json"},
		{name: "config of another method", config: `{"quantization_config":{"quant_method":"gptq","bits":4,"group_size":64}}`, tensors: affine(4, 64, 128), raw: "has gptq"},
		{name: "no scales", config: top(`"bits":4,"group_size":64`), tensors: affine(4, 64, 128)[:1], raw: `q_proj.scales" is missing`},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := open(t, writeDir(t, map[string][]byte{"config.json": []byte(c.config), "model.safetensors": testmodel.Safetensors(c.tensors, c.meta)}))
			all := bySource(m)
			codes := all[x+".weight"]
			if got := values(codes.Quant); !reflect.DeepEqual(got, c.want) {
				t.Errorf("Quant %+v, want %+v (%s)", got, c.want, codes.Opaque)
			}
			for source, p := range all {
				switch {
				case c.raw != "" && (!strings.Contains(p.Opaque, c.raw) || p.Owner != ""):
					t.Errorf("%s: owner %q, reason %q does not say %q", source, p.Owner, p.Opaque, c.raw)
				case c.want != nil && p != codes && p.Owner != codes.Name:
					t.Errorf("%s has the owner %q", source, p.Owner)
				}
			}
		})
	}
}

// TestBareFile holds that a file without config.json makes no numbers of
// anything quantised, and derives what shapes tell.
func TestBareFile(t *testing.T) {
	dir := writeDir(t, map[string][]byte{"some.safetensors": testmodel.Safetensors(tensors(
		st("model.embed_tokens.weight", tensorfs.BF16, 7, 4),
		st(x+".weight", tensorfs.U32, 2, 16), st(x+".scales", tensorfs.F16, 2, 2), st(x+".biases", tensorfs.F16, 2, 2),
	), [][2]string{{"format", "mlx"}})})
	m, err := hf.OpenFile(filepath.Join(dir, "some.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if m.Format != "safetensors" || m.Architecture != "unknown" || m.Layout != "hf" || len(m.Sources) != 1 || m.Sources[0].Name != "some.safetensors" || m.Sources[0].Path != filepath.Join(dir, "some.safetensors") {
		t.Errorf("%+v", m)
	}
	for _, name := range []string{"layers.0.attention.q.weight", "layers.0.attention.q.scales", "layers.0.attention.q.biases"} {
		if p := m.Tensor(name); p.Quant != nil || !strings.Contains(p.Opaque, "no config.json") {
			t.Errorf("%+v", p)
		}
	}
	fields := make(map[string]any)
	for _, f := range m.Config {
		fields[f.Name] = f.Value
	}
	if fields["dim"] != int64(4) || fields["vocab_size"] != int64(7) || fields["n_layers"] != int64(1) {
		t.Errorf("config %v", fields)
	}
}
