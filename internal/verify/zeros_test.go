package verify

import (
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
)

// TestMeaningOfZeros holds what tensors of zeros mean by their names and shapes.
func TestMeaningOfZeros(t *testing.T) {
	const finding, normal = "finding", "normal"
	llama, gemma := &tensorfs.Model{Layout: "hf", Architecture: "llama"}, &tensorfs.Model{Layout: "hf", Architecture: "gemma3"}
	plamo := &tensorfs.Model{Layout: "hf", Architecture: "plamo2"}
	converted := &tensorfs.Model{Layout: "gguf", Architecture: "gemma3"}
	qwen, mlx := &tensorfs.Model{Layout: "hf", Architecture: "qwen35"}, &tensorfs.Model{Layout: "hf", Format: "mlx", Architecture: "qwen35"}
	for _, c := range []struct {
		m     *tensorfs.Model
		name  string
		dtype tensorfs.DType
		shape []int64
		want  string // finding, normal, or a part of the note
	}{
		{llama, "layers.0.attention.q.weight", tensorfs.BF16, []int64{64, 64}, finding},
		{llama, "layers.0.attention.q.weight", tensorfs.IQ2_K, []int64{64, 256}, finding}, // no decoder, and its bytes are 0
		{llama, "some.unknown.matrix", tensorfs.F32, []int64{64, 64}, finding},
		{llama, "layers.0.ffn_norm.weight", tensorfs.F32, []int64{64}, finding},
		{converted, "layers.0.ffn_norm.weight", tensorfs.F32, []int64{64}, finding},
		{gemma, "layers.0.ffn_norm.weight", tensorfs.F32, []int64{64}, "without a number"},
		{plamo, "layers.0.post_attention_norm.weight", tensorfs.F32, []int64{64}, "without a number"}, // which is 0.2
		{qwen, "layers.0.ffn_norm.weight", tensorfs.F32, []int64{64}, "without a number"},
		{mlx, "layers.0.ffn_norm.weight", tensorfs.F32, []int64{64}, finding},
		{gemma, "layers.0.ffn.up.weight", tensorfs.F32, []int64{64, 64}, finding},
		{llama, "layers.0.ffn_norm.bias", tensorfs.F32, []int64{64}, normal},
		{llama, "layers.0.ffn.experts.up.bias", tensorfs.F32, []int64{8, 64}, normal},
		{llama, "layers.0.ffn.router.correction.bias", tensorfs.F32, []int64{64}, normal},
		{llama, "layers.0.attention.q.lora_b", tensorfs.F32, []int64{64, 8}, "adapter"},
		{llama, "layers.0.attention.q.lora_a", tensorfs.F32, []int64{8, 64}, finding},
		{llama, "position_embedding.weight", tensorfs.F32, []int64{512, 64}, "positions"},
		{llama, "token_type_embedding.weight", tensorfs.F32, []int64{2, 64}, "kind of tokens"},
		{llama, "layers.0.attention.sinks.weight", tensorfs.F32, []int64{8}, "sink"},
		{llama, "rope_freqs.weight", tensorfs.F32, []int64{64}, normal},
		{llama, "layers.0.attention.rotary.inv_freq", tensorfs.F32, []int64{64}, normal},
		{llama, "layers.0.attention.scale.weight", tensorfs.F32, []int64{64}, normal},
		{llama, "layers.0.attention.mask", tensorfs.F32, []int64{64, 64}, normal},
		{llama, "layers.0.norm.weight", tensorfs.F32, []int64{1}, normal},
		{llama, "counts.weight", tensorfs.I64, []int64{64, 64}, normal},
	} {
		is, note := meaning(c.m, &tensorfs.Tensor{Name: c.name, DType: c.dtype, Shape: c.shape})
		got := normal
		if is && note == "" {
			got = finding
		} else if is {
			got = note
		}
		if got != c.want && (c.want == finding || c.want == normal || !strings.Contains(got, c.want)) {
			t.Errorf("%s of %s: %s, want %s", c.name, c.m.Architecture, got, c.want)
		}
	}
	companion := &tensorfs.Tensor{Name: "a.scales", DType: tensorfs.F16, Shape: []int64{64, 64}, Owner: "a"}
	if is, _ := meaning(llama, companion); is {
		t.Error("scales are looked at beside the numbers that they make")
	}
}
