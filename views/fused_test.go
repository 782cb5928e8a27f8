package views

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
)

// TestFused has a model a case, and what fused/ and fused-f16/ make of it.
func TestFused(t *testing.T) {
	for _, test := range []struct{ name, model, fused, half string }{
		{
			"one type, fewer heads of k and v", `
			layers.0.attention.q.weight Q4_K 8x256
			layers.0.attention.k.weight Q4_K 2x256
			layers.0.attention.v.weight Q4_K 2x256`, `
			layers.0.attention.qkv.weight Q4_K 12x256 weights:Q4_K@0+1728`, `
			layers.0.attention.qkv.weight F16 12x256`,
		}, {
			"v of another type", `
			layers.0.attention.q.weight Q4_K 2x256
			layers.0.attention.k.weight Q4_K 2x256
			layers.0.attention.v.weight Q6_K 2x256`, `
			layers.0.attention.qk.weight Q4_K 4x256 weights:Q4_K@0+576
			- layers.0.attention.kv.weight layers.0.attention.k.weight is Q4_K and layers.0.attention.v.weight is Q6_K: rows of different types cannot be in one matrix; see fused-f16/
			- layers.0.attention.qkv.weight layers.0.attention.q.weight is Q4_K and layers.0.attention.v.weight is Q6_K: rows of different types cannot be in one matrix; see fused-f16/`, `
			layers.0.attention.qkv.weight F16 6x256`,
		}, {
			"q of another type", `
			layers.0.attention.q.weight Q4_K 2x256
			layers.0.attention.k.weight Q6_K 2x256
			layers.0.attention.v.weight Q6_K 2x256`, `
			layers.0.attention.kv.weight Q6_K 4x256 weights:Q6_K@0+840
			- layers.0.attention.qk.weight layers.0.attention.q.weight is Q4_K and layers.0.attention.k.weight is Q6_K: rows...
			- layers.0.attention.qkv.weight layers.0.attention.q.weight is Q4_K and layers.0.attention.k.weight is Q6_K: rows...`, `
			layers.0.attention.qkv.weight F16 6x256`,
		}, {
			"floats of different types are all F16", `
			layers.3.ffn.gate.weight BF16 3x4
			layers.3.ffn.up.weight F32 3x4
			layers.3.ffn.gate.bias F32 3
			layers.3.ffn.up.bias F16 3`, `
			layers.3.ffn.gate_up.bias F16 6 weights:F16@0+12
			layers.3.ffn.gate_up.weight F16 6x4 weights:F16@0+48`, `
			layers.3.ffn.gate_up.bias F16 6
			layers.3.ffn.gate_up.weight F16 6x4`,
		}, {
			"k has no bias", `
			enc.layers.0.attn.q.weight F16 2x4
			enc.layers.0.attn.k.weight F16 2x4
			enc.layers.0.attn.v.weight F16 2x4
			enc.layers.0.attn.q.bias F32 2
			enc.layers.0.attn.v.bias F32 2`, `
			enc.layers.0.attn.qkv.weight F16 6x4 weights:F16@0+48
			- enc.layers.0.attn.qkv.bias the model has no enc.layers.0.attn.k.bias`, `
			enc.layers.0.attn.qkv.weight F16 6x4
			- enc.layers.0.attn.qkv.bias the model has no enc.layers.0.attn.k.bias`,
		}, {
			"v is missing", `
			layers.0.attention.q.weight F16 2x4
			layers.0.attention.k.weight F16 1x4
			layers.0.attention.q.bias F16 2
			layers.0.attention.k.bias F16 1`, `
			layers.0.attention.qk.weight F16 3x4 weights:F16@0+24
			- layers.0.attention.kv.weight the model has no layers.0.attention.v.weight
			- layers.0.attention.qkv.bias the model has no layers.0.attention.v.bias
			- layers.0.attention.qkv.weight the model has no layers.0.attention.v.weight`, `
			layers.0.attention.qk.weight F16 3x4
			- layers.0.attention.kv.weight the model has no layers.0.attention.v.weight
			- layers.0.attention.qkv.bias the model has no layers.0.attention.v.bias
			- layers.0.attention.qkv.weight the model has no layers.0.attention.v.weight`,
		}, {
			"only v", `
			layers.0.attention.v.weight F16 2x4`, `
			- layers.0.attention.kv.weight the model has no layers.0.attention.k.weight
			- layers.0.attention.qkv.weight the model has no layers.0.attention.q.weight and no layers.0.attention.k.weight`, `
			- layers.0.attention.kv.weight the model has no layers.0.attention.k.weight
			- layers.0.attention.qkv.weight the model has no layers.0.attention.q.weight and no layers.0.attention.k.weight`,
		}, {
			"parts that the views lack", `
			layers.0.ffn.gate.weight I8 2x4
			layers.0.ffn.up.weight F16 2x4
			layers.1.ffn.gate.weight IQ4_K 1x256 foreign
			layers.1.ffn.up.weight IQ4_K 1x256 foreign
			layers.2.ffn.gate.weight F64 2x4
			layers.2.ffn.up.weight F64 2x4`, `
			layers.1.ffn.gate_up.weight IQ4_K 2x256 weights:IQ4_K@0+288
			- layers.0.ffn.gate_up.weight packed/ has no layers.0.ffn.gate.weight
			- layers.2.ffn.gate_up.weight packed/ has no layers.2.ffn.gate.weight and no layers.2.ffn.up.weight`, `
			layers.2.ffn.gate_up.weight F16 4x4
			- layers.0.ffn.gate_up.weight f16/ has no layers.0.ffn.gate.weight
			- layers.1.ffn.gate_up.weight f16/ has no layers.1.ffn.gate.weight and no layers.1.ffn.up.weight`,
		}, {
			"other columns", `
			layers.0.ffn.gate.weight F16 2x4
			layers.0.ffn.up.weight F16 2x8
			layers.1.ffn.gate.weight F16 4
			layers.1.ffn.up.weight F16 2x4
			layers.2.ffn.gate.weight F16 -
			layers.2.ffn.up.weight F16 -
			layers.3.ffn.gate.weight F16 2x2x4
			layers.3.ffn.up.weight F16 2x3x4`, `
			- layers.0.ffn.gate_up.weight layers.0.ffn.gate.weight of shape [2 4] and layers.0.ffn.up.weight of shape [2 8] have no common columns
			- layers.1.ffn.gate_up.weight layers.1.ffn.gate.weight of shape [4] and layers.1.ffn.up.weight of shape [2 4] have no common columns
			- layers.2.ffn.gate_up.weight layers.2.ffn.gate.weight is a single number, which has no rows to join
			- layers.3.ffn.gate_up.weight layers.3.ffn.gate.weight of shape [2 2 4] and layers.3.ffn.up.weight of shape [2 3 4] have no common columns`, `
			- layers.0.ffn.gate_up.weight layers.0.ffn.gate.weight of shape [2 4] and layers.0.ffn.up.weight of shape [2 8] have no common columns
			- layers.1.ffn.gate_up.weight layers.1.ffn.gate.weight of shape [4] and layers.1.ffn.up.weight of shape [2 4] have no common columns
			- layers.2.ffn.gate_up.weight layers.2.ffn.gate.weight is a single number, which has no rows to join
			- layers.3.ffn.gate_up.weight layers.3.ffn.gate.weight of shape [2 2 4] and layers.3.ffn.up.weight of shape [2 3 4] have no common columns`,
		}, {
			"stacked experts", `
			layers.0.ffn.experts.gate.weight Q8_0 3x2x32
			layers.0.ffn.experts.up.weight Q8_0 3x2x32
			layers.0.ffn.experts.gate.bias F32 3x2
			layers.0.ffn.experts.up.bias F32 3x2`, `
			layers.0.ffn.experts.gate_up.bias F16 3x4 weights:F16@0+24
			layers.0.ffn.experts.gate_up.weight Q8_0 3x4x32 weights:Q8_0@0+408`, `
			layers.0.ffn.experts.gate_up.bias F16 3x4
			layers.0.ffn.experts.gate_up.weight F16 3x4x32`,
		}, {
			"stacks that are none", `
			layers.0.ffn.experts.gate.weight F16 6x4
			layers.0.ffn.experts.up.weight F16 6x4
			layers.0.ffn.experts.gate.bias F16 6
			layers.0.ffn.experts.up.bias F16 6
			layers.1.ffn.experts.gate.weight F16 2x3x4
			layers.1.ffn.experts.up.weight F16 3x3x4
			layers.2.ffn.experts.gate.weight F16 0x3x4
			layers.2.ffn.experts.up.weight F16 0x3x4`, `
			layers.2.ffn.experts.gate_up.weight F16 0x6x4 weights:F16@0+0
			- layers.0.ffn.experts.gate_up.bias layers.0.ffn.experts.gate.bias has the shape [6], where a stack of experts has 2 dimensions
			- layers.0.ffn.experts.gate_up.weight layers.0.ffn.experts.gate.weight has the shape [6 4], where a stack of experts has 3 dimensions
			- layers.1.ffn.experts.gate_up.weight layers.1.ffn.experts.gate.weight of shape [2 3 4] and layers.1.ffn.experts.up.weight of shape [3 3 4] have no common columns`, `
			layers.2.ffn.experts.gate_up.weight F16 0x6x4
			- layers.0.ffn.experts.gate_up.bias layers.0.ffn.experts.gate.bias has...
			- layers.0.ffn.experts.gate_up.weight layers.0.ffn.experts.gate.weight has...
			- layers.1.ffn.experts.gate_up.weight layers.1.ffn.experts.gate.weight of...`,
		}, {
			"single experts", `
			layers.11.ffn.experts.7.gate.weight Q4_0 2x32
			layers.11.ffn.experts.7.up.weight Q4_0 2x32
			layers.11.ffn.experts.70.up.weight Q4_0 2x32
			layers.11.ffn.shared.gate.weight Q4_0 1x32
			layers.11.ffn.shared.up.weight Q4_0 3x32`, `
			layers.11.ffn.experts.7.gate_up.weight Q4_0 4x32 weights:Q4_0@0+72
			layers.11.ffn.shared.gate_up.weight Q4_0 4x32 weights:Q4_0@0+72
			- layers.11.ffn.experts.70.gate_up.weight the model has no layers.11.ffn.experts.70.gate.weight`, `
			layers.11.ffn.experts.7.gate_up.weight F16 4x32
			layers.11.ffn.shared.gate_up.weight F16 4x32
			- layers.11.ffn.experts.70.gate_up.weight the model has no layers.11.ffn.experts.70.gate.weight`,
		}, {
			"MLA and cross attention", `
			layers.0.attention.q_a.weight F16 3x4
			layers.0.attention.kv_a.weight F16 2x4
			layers.1.cross_attn.k.weight F16 2x4
			layers.1.cross_attn.v.weight F16 2x4
			layers.1.cross_attn.q.weight F16 2x4
			layers.1.cross_attn.v.bias F16 2`, `
			layers.0.attention.qkv_a.weight F16 5x4 weights:F16@0+40
			layers.1.cross_attn.kv.weight F16 4x4 weights:F16@0+32
			- layers.1.cross_attn.kv.bias the model has no layers.1.cross_attn.k.bias`, `
			layers.0.attention.qkv_a.weight F16 5x4
			layers.1.cross_attn.kv.weight F16 4x4
			- layers.1.cross_attn.kv.bias the model has no layers.1.cross_attn.k.bias`,
		}, {
			"towers and models inside models", `
			vision.layers.0.attention.q.weight F16 1x2
			vision.layers.0.attention.k.weight F16 1x2
			vision.layers.0.attention.v.weight F16 1x2
			vision.layers.0.ffn.gate.weight F16 1x2
			vision.layers.0.ffn.up.weight F16 1x2
			vision.layers.0.ffn.shared.gate.weight F16 1x2
			vision.layers.0.ffn.shared.up.weight F16 1x2
			audio.layers.0.attention.q.weight F16 1x2
			audio.layers.0.attention.k.weight F16 1x2
			audio.layers.0.attention.v.weight F16 1x2
			audio.layers.0.ffn.gate.weight F16 1x2
			audio.layers.0.ffn.up.weight F16 1x2
			enc.layers.0.ffn.gate.weight F16 1x2
			enc.layers.0.ffn.up.weight F16 1x2
			enc.layers.0.attention.q.weight F16 1x2
			enc.layers.0.attention.k.weight F16 1x2
			enc.layers.0.attention.v.weight F16 1x2
			draft.layers.0.ffn.gate.weight F16 1x2
			draft.layers.0.ffn.up.weight F16 1x2
			talker.enc.layers.0.ffn.gate.weight F16 1x2
			talker.enc.layers.0.ffn.up.weight F16 1x2
			strange_enc.layers.0.attn.q.weight F16 1x2
			strange_enc.layers.0.attn.k.weight F16 1x2
			strange_enc.layers.0.attn.v.weight F16 1x2`, `
			audio.layers.0.attention.qkv.weight F16 3x2 weights:F16@0+12
			draft.layers.0.ffn.gate_up.weight F16 2x2 weights:F16@0+8
			enc.layers.0.ffn.gate_up.weight F16 2x2 weights:F16@0+8
			talker.enc.layers.0.ffn.gate_up.weight F16 2x2 weights:F16@0+8
			vision.layers.0.attention.qkv.weight F16 3x2 weights:F16@0+12
			vision.layers.0.ffn.gate_up.weight F16 2x2 weights:F16@0+8`, `
			audio.layers.0.attention.qkv.weight F16 3x2
			draft.layers.0.ffn.gate_up.weight F16 2x2
			enc.layers.0.ffn.gate_up.weight F16 2x2
			talker.enc.layers.0.ffn.gate_up.weight F16 2x2
			vision.layers.0.attention.qkv.weight F16 3x2
			vision.layers.0.ffn.gate_up.weight F16 2x2`,
		}, {
			"names that are not parts", `
			attention.q.weight F16 1x2
			layers.attention.q.weight F16 1x2
			layers.x.attention.q.weight F16 1x2
			layers.0.weight F16 1x2
			layers.0 F16 1x2
			layers.0.attention.q F16 1x2
			layers.0.attention.q.scale F16 1x2
			mylayers.0.attention.q.weight F16 1x2
			layers.0.ffn.experts.x.gate.weight F16 1x2
			layers.0.ffn.experts.1.gate.inner.weight F16 1x2`, ``, ``,
		}, {
			"stored as one", `
			layers.0.attention.qkv.weight Q4_0 6x32
			layers.0.attention.qkv.bias F32 6
			layers.0.ffn.gate_up.weight BF16 4x2
			layers.1.attention.q.weight F16 2x4
			layers.1.attention.kv.weight F16 2x4
			layers.2.attention.kv.weight F16 2x4
			layers.2.attention.kv.bias F16 2
			layers.2.attention.q.weight F16 2x4
			layers.2.attention.k.weight F16 2x4
			layers.2.attention.v.weight F16 2x4
			layers.3.ffn.gate_up.weight F16 1x3
			layers.3.ffn.gate.weight F16 2x4
			layers.3.ffn.up.weight F16 2x4
			layers.4.attention.qkv.weight I8 3x4
			layers.5.ffn.gate_up.weight affine:4:32:BF16 4x32`, `
			layers.0.attention.qkv.bias F16 6 weights:F16@0+12
			layers.0.attention.qkv.weight Q4_0 6x32 weights:Q4_0@0+108
			layers.0.ffn.gate_up.weight F16 4x2 weights:F16@0+16
			layers.1.attention.kv.weight F16 2x4 weights:F16@0+16
			layers.2.attention.kv.bias F16 2 weights:F16@0+4
			layers.2.attention.kv.weight F16 2x4 weights:F16@0+16
			layers.2.attention.qkv.weight F16 6x4 weights:F16@0+48
			layers.3.ffn.gate_up.weight F16 1x3 weights:F16@0+6
			layers.5.ffn.gate_up.weight affine of 4 bits in groups of 32 4x32 weights:U32@0+64 scales:F16@64+8 biases:F16@72+8
			- layers.1.attention.qk.weight the model has no layers.1.attention.k.weight
			- layers.1.attention.qkv.weight the model has no layers.1.attention.k.weight and no layers.1.attention.v.weight
			- layers.4.attention.qkv.weight packed/ has no layers.4.attention.qkv.weight`, `
			layers.0.attention.qkv.bias F16 6
			layers.0.attention.qkv.weight F16 6x32
			layers.0.ffn.gate_up.weight F16 4x2
			layers.1.attention.kv.weight F16 2x4
			layers.2.attention.kv.bias F16 2
			layers.2.attention.kv.weight F16 2x4
			layers.2.attention.qkv.weight F16 6x4
			layers.3.ffn.gate_up.weight F16 1x3
			layers.5.ffn.gate_up.weight F16 4x32
			- layers.1.attention.qk.weight the model has no layers.1.attention.k.weight
			- layers.1.attention.qkv.weight the model has no layers.1.attention.k.weight and no layers.1.attention.v.weight
			- layers.4.attention.qkv.weight f16/ has no layers.4.attention.qkv.weight`,
		}, {
			"types that cannot be joined as they are", `
			layers.0.ffn.gate.weight I2_S 1x128
			layers.0.ffn.up.weight I2_S 1x128
			layers.1.ffn.gate.weight Q4_0_4_4 4x32
			layers.1.ffn.up.weight Q4_0_4_4 8x32
			layers.2.ffn.experts.gate.weight Q4_0_8_8 2x8x32
			layers.2.ffn.experts.up.weight Q4_0_8_8 2x8x32
			layers.3.ffn.gate.weight IQ2_KS 1x256
			layers.3.ffn.up.weight IQ2_KS 2x256
			layers.4.ffn.gate.weight big:Q8_0 1x32
			layers.4.ffn.up.weight big:Q8_0 1x32
			layers.5.ffn.gate.weight big:BF16 1x32
			layers.5.ffn.up.weight big:BF16 1x32`, `
			layers.1.ffn.gate_up.weight Q4_0_4_4 12x32 weights:Q4_0_4_4@0+216
			layers.2.ffn.experts.gate_up.weight Q4_0_8_8 2x16x32 weights:Q4_0_8_8@0+576
			layers.3.ffn.gate_up.weight IQ2_KS 3x256 weights:IQ2_KS@0+216
			layers.5.ffn.gate_up.weight F16 2x32 weights:F16@0+128
			- layers.0.ffn.gate_up.weight I2_S keeps its scale outside the rows, so matrices of it cannot be joined; see fused-f16/
			- layers.4.ffn.gate_up.weight packed/ has no layers.4.ffn.gate.weight and no layers.4.ffn.up.weight`, `
			layers.0.ffn.gate_up.weight F16 2x128
			layers.1.ffn.gate_up.weight F16 12x32
			layers.2.ffn.experts.gate_up.weight F16 2x16x32
			layers.4.ffn.gate_up.weight F16 2x32
			layers.5.ffn.gate_up.weight F16 2x32
			- layers.3.ffn.gate_up.weight f16/ has no layers.3.ffn.gate.weight and no layers.3.ffn.up.weight`,
		}, {
			"modules", `
			layers.0.attention.q.weight affine:4:64:BF16 4x64
			layers.0.attention.k.weight affine:4:64:F16 1x64
			layers.0.attention.v.weight affine:4:64:F32 1x64
			layers.1.attention.q.weight affine:4:64:F16 2x64
			layers.1.attention.k.weight affine:4:64:F16 2x64
			layers.1.attention.v.weight affine:6:64:F16 2x64
			layers.2.ffn.gate.weight affine:4:64:F16 2x64
			layers.2.ffn.up.weight affine:4:32:F16 2x64
			layers.3.ffn.gate.weight mxfp4 2x64
			layers.3.ffn.up.weight mxfp4 3x64
			layers.4.ffn.gate.weight mxfp8 2x64
			layers.4.ffn.up.weight mxfp4 2x64
			layers.5.ffn.gate.weight nvfp4 2x32
			layers.5.ffn.up.weight nvfp4 2x32
			layers.6.ffn.gate.weight nvfp4:global 2x32
			layers.6.ffn.up.weight nvfp4:global 2x32
			layers.7.ffn.gate.weight affine:4:64:F16 2x64
			layers.7.ffn.up.weight F16 2x64
			layers.8.ffn.gate.weight F16 2x64
			layers.8.ffn.up.weight affine:4:64:F16 2x64
			layers.9.ffn.gate.weight fp8 2x3
			layers.9.ffn.up.weight fp8 2x3
			layers.a.ffn.gate.weight fp8 2x3
			layers.10.ffn.experts.gate.weight affine:8:32:BF16 3x2x32
			layers.10.ffn.experts.up.weight affine:8:32:BF16 3x2x32
			layers.11.ffn.gate.weight affine:4:32:F16 2x64
			layers.11.ffn.up.weight affine:4:32:F16 2x32`, `
			layers.0.attention.qkv.weight affine of 4 bits in groups of 64 6x64 weights:U32@0+192 scales:F16@192+12 biases:F16@204+12
			layers.1.attention.qk.weight affine of 4 bits in groups of 64 4x64 weights:U32@0+128 scales:F16@128+8 biases:F16@136+8
			layers.10.ffn.experts.gate_up.weight affine of 8 bits in groups of 32 3x4x32 weights:U32@0+384 scales:F16@384+24 biases:F16@408+24
			layers.3.ffn.gate_up.weight mxfp4 of 4 bits in groups of 32 5x64 weights:U32@0+160 scales:U8@160+10
			layers.5.ffn.gate_up.weight nvfp4 of 4 bits in groups of 16 4x32 weights:U32@0+64 scales:U8@64+8
			- layers.1.attention.kv.weight layers.1.attention.k.weight is affine of 4 bits in groups of 64 and layers.1.attention.v.weight is affine of 6 bits in groups of 64: a kernel cannot take both at once; see fused-f16/
			- layers.1.attention.qkv.weight layers.1.attention.q.weight is affine of 4 bits...
			- layers.11.ffn.gate_up.weight layers.11.ffn.gate.weight of shape [2 64] and layers.11.ffn.up.weight of shape [2 32] have no common columns
			- layers.2.ffn.gate_up.weight layers.2.ffn.gate.weight is affine of 4 bits in groups of 64 and layers.2.ffn.up.weight is affine of 4 bits in groups of 32: a...
			- layers.4.ffn.gate_up.weight layers.4.ffn.gate.weight is mxfp8 of 8 bits in groups of 32 and layers.4.ffn.up.weight is mxfp4 of 4 bits in groups of 32: a...
			- layers.6.ffn.gate_up.weight layers.6.ffn.gate.weight has a global scale of its own; see fused-f16/
			- layers.7.ffn.gate_up.weight layers.7.ffn.gate.weight is affine of 4 bits in groups of 64 and layers.7.ffn.up.weight is F16: a kernel...
			- layers.8.ffn.gate_up.weight layers.8.ffn.gate.weight is F16 and layers.8.ffn.up.weight is affine of 4 bits in groups of 64: rows...
			- layers.9.ffn.gate_up.weight packed/ has no layers.9.ffn.gate.weight and no layers.9.ffn.up.weight`, `
			layers.0.attention.qkv.weight F16 6x64
			layers.1.attention.qkv.weight F16 6x64
			layers.10.ffn.experts.gate_up.weight F16 3x4x32
			layers.2.ffn.gate_up.weight F16 4x64
			layers.3.ffn.gate_up.weight F16 5x64
			layers.4.ffn.gate_up.weight F16 4x64
			layers.5.ffn.gate_up.weight F16 4x32
			layers.6.ffn.gate_up.weight F16 4x32
			layers.7.ffn.gate_up.weight F16 4x64
			layers.8.ffn.gate_up.weight F16 4x64
			layers.9.ffn.gate_up.weight F16 4x3
			- layers.11.ffn.gate_up.weight layers.11.ffn.gate.weight of shape [2 64] and layers.11.ffn.up.weight of shape [2 32] have no common columns`,
		}, {
			"shapes too large", `
			layers.0.ffn.gate.weight F16 4611686018427387904x0
			layers.0.ffn.up.weight F16 4611686018427387904x0
			layers.1.ffn.experts.gate.weight F16 1099511627776x4194304x0
			layers.1.ffn.experts.up.weight F16 1099511627776x4194304x0
			layers.2.ffn.gate.weight F16 0x4611686018427387904
			layers.2.ffn.up.weight F16 0x4611686018427387904
			layers.3.ffn.gate.weight F16 4611686018427387904x0x1
			layers.3.ffn.up.weight F16 2305843009213693952x0x1`, `
			layers.2.ffn.gate_up.weight F16 0x4611686018427387904 weights:F16@0+0
			layers.3.ffn.gate_up.weight F16 6917529027641081856x0x1 weights:F16@0+0
			- layers.0.ffn.gate_up.weight the joined matrix would have 2^63 rows or more
			- layers.1.ffn.experts.gate_up.weight the joined matrix would have 2^63 elements or more`, `
			layers.2.ffn.gate_up.weight F16 0x4611686018427387904
			layers.3.ffn.gate_up.weight F16 6917529027641081856x0x1
			- layers.0.ffn.gate_up.weight the joined matrix would have 2^63 rows or more
			- layers.1.ffn.experts.gate_up.weight the joined matrix would have 2^63 elements or more`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := describe(t, test.model)
			for name, want := range map[string]string{"fused": test.fused, "fused-f16": test.half} {
				b := view(t, m, name, Options{})
				checkSummary(t, summary(b), want)
				checkFused(t, m, b)
			}
		})
	}
}

// checkFused computes what the groups of a view hold from the raw parts, row by
// row.
func checkFused(t *testing.T, m *tensorfs.Model, b Built) {
	t.Helper()
	of := half
	if b.Name == "fused" {
		of = pack
	}
	for _, x := range list(b.Tensors) {
		sources := strings.Split(x.Source, "+")
		parts := make([]tensorfs.Tensor, len(sources))
		for i, s := range sources {
			var reason string
			if parts[i], reason = of(m.Tensor(strings.TrimPrefix(s, "src:")), Options{}); reason != "" {
				t.Fatalf("%s of %s: %s", x.Name, s, reason)
			}
		}
		experts := int64(1)
		if strings.HasSuffix(x.Name, "experts.gate_up.weight") || strings.HasSuffix(x.Name, "experts.gate_up.bias") {
			experts = x.Shape[0]
		}
		sections := 1
		if b.Name == "fused" {
			sections = len(x.Parts)
		}
		var want []byte
		for s := range sections {
			for e := range experts {
				for _, p := range parts {
					data := content(t, p.Data)
					if p.Parts != nil {
						data = data[p.Parts[s].Offset:][:p.Parts[s].Bytes]
					}
					chunk := int64(len(data)) / experts
					want = append(want, data[e*chunk:(e+1)*chunk]...)
				}
			}
		}
		if got := content(t, x.Data); !bytes.Equal(got, want) {
			t.Errorf("%s: %x, want %x", x.Name, got, want)
		}
	}
}

// TestFusedIsPackedWhole holds the second rule of a fused module: it is the
// packed form of the joined matrix.
func TestFusedIsPackedWhole(t *testing.T) {
	m := describe(t, `
		layers.0.ffn.gate.weight affine:4:64:BF16 2x128
		layers.0.ffn.up.weight affine:4:64:BF16 3x128`)
	gate, up := m.Tensor("layers.0.ffn.gate.weight"), m.Tensor("layers.0.ffn.up.weight")
	stack := func(a, b *tensorfs.Tensor) *tensorfs.Tensor {
		s := *a
		s.Data = plain(slices.Concat(content(t, a.Data), content(t, b.Data)))
		s.Shape = []int64{a.Shape[0] + b.Shape[0], a.Shape[1]}
		return &s
	}
	whole := stack(gate, up)
	q := *gate.Quant
	q.Shape, q.Scales, q.Biases = []int64{5, 128}, stack(q.Scales, up.Quant.Scales), stack(q.Biases, up.Quant.Biases)
	whole.Quant = &q
	want, reason := pack(whole, Options{})
	if reason != "" {
		t.Fatal(reason)
	}
	got := view(t, m, "fused", Options{}).Tensors.At(0)
	if fmt.Sprint(got.Shape, got.Parts) != fmt.Sprint(want.Shape, want.Parts) || !bytes.Equal(content(t, got.Data), content(t, want.Data)) {
		t.Errorf("%v %+v, want %v %+v", got.Shape, got.Parts, want.Shape, want.Parts)
	}
}

// TestGroups holds the table to its own rules.
func TestGroups(t *testing.T) {
	seen := map[string]*group{}
	for i := range groups {
		g := &groups[i]
		key := g.tower + "." + g.out
		if seen[key] != nil || len(g.parts) < 2 || slices.Contains(g.parts, g.out) {
			t.Errorf("%+v", g)
		}
		seen[key] = g
		if g.fallback != "" && seen[g.tower+"."+g.fallback] == nil {
			t.Errorf("%s falls back for %s, which is not above it", g.out, g.fallback)
		}
		for _, stem := range append([]string{g.out}, g.parts...) {
			if strings.Contains(stem, "{e}") != strings.Contains(g.out, "{e}") {
				t.Errorf("%s and %s are not both of one expert", g.out, stem)
			}
			for _, param := range []string{"weight", "bias"} {
				for _, prefix := range []string{"", "draft."} {
					want := place{prefix: prefix + g.tower + ".12", param: param}
					if strings.Contains(stem, "{e}") {
						want.expert = "345"
					}
					name := want.name(stem)
					tower, at, gotStem, ok := locate(name)
					if !ok || tower != g.tower || at != want || gotStem != stem {
						t.Errorf("locate(%s) = %s, %+v, %s, %v", name, tower, at, gotStem, ok)
					}
				}
			}
		}
	}
}

// TestFusedExtents holds that joined parts stored unchanged in the file say
// where.
func TestFusedExtents(t *testing.T) {
	m := describe(t, `
		layers.0.ffn.gate.weight Q8_0 2x32
		layers.0.ffn.up.weight Q8_0 1x32
		layers.1.ffn.experts.gate.weight F16 2x1x4
		layers.1.ffn.experts.up.weight F16 2x1x4
		layers.2.ffn.gate.weight affine:4:64:F16 2x64
		layers.2.ffn.up.weight affine:4:64:F16 2x64
		layers.3.ffn.gate.weight affine:4:64:BF16 2x64
		layers.3.ffn.up.weight affine:4:64:BF16 2x64`)
	want := []string{
		"[{f1 9 68} {f2 9 34}]",
		"[{f3 9 8} {f4 9 8} {f3 17 8} {f4 17 8}]",
		"[{f7 9 64} {f10 9 64} {f5 9 4} {f8 9 4} {f6 9 4} {f9 9 4}]", // codes, scales, biases
		"[]", // scales are converted
	}
	for i, x := range list(view(t, m, "fused", Options{}).Tensors) {
		if got := fmt.Sprint(tensorfs.Extents(x.Data)); got != want[i] {
			t.Errorf("%s is at %s, want %s", x.Name, got, want[i])
		}
	}
}

// TestAlternating holds that a stored tensor whose name promises another order
// of rows is shown as it is and not as a fused one.
func TestAlternating(t *testing.T) {
	m := describe(t, `
		layers.0.attention.qkv.weight F16 6x4
		layers.0.attention.qkv.bias F16 6
		layers.1.attention.qkv.weight F16 6x4`)
	m.Tensor("layers.0.attention.qkv.weight").Apart = "the model interleaves the rows of its parts"
	for name, want := range map[string]string{
		"packed": `
			layers.0.attention.qkv.bias F16 6 weights:F16@0+12
			layers.0.attention.qkv.weight F16 6x4 weights:F16@0+48
			layers.1.attention.qkv.weight F16 6x4 weights:F16@0+48`,
		"fused": `
			layers.0.attention.qkv.bias F16 6 weights:F16@0+12
			layers.1.attention.qkv.weight F16 6x4 weights:F16@0+48
			- layers.0.attention.qkv.weight the model interleaves the rows of its parts; see packed/`,
		"fused-f16": `
			layers.0.attention.qkv.bias F16 6
			layers.1.attention.qkv.weight F16 6x4
			- layers.0.attention.qkv.weight the model interleaves the rows of its parts; see f16/`,
	} {
		checkSummary(t, summary(view(t, m, name, Options{})), want)
	}
}
