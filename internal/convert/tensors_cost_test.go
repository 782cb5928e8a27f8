package convert

import (
	"fmt"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/convert/internal/settings"
	"github.com/tensorfs/tensorfs/internal/convert/preset"
	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
)

// mixtral returns a model with many experts in every layer, of bytes or of plain
// numbers, without a file.
func mixtral(t testing.TB, layers, experts int, dtype tensorfs.DType) (*tensorfs.Model, settings.Fields) {
	t.Helper()
	var m tensorfs.Model
	add := func(name string, dtype tensorfs.DType, shape ...int64) {
		size, _ := dtype.Size(shape)
		x := tensorfs.Tensor{Name: name, Source: name, DType: dtype, Shape: shape, Data: make(tensorfs.Bytes, size)}
		if dtype == tensorfs.F8_E4M3 {
			x.Quant = &tensorfs.Quant{Mode: "fp8", Bits: 8, Shape: shape, Scales: &tensorfs.Tensor{DType: tensorfs.F32, Shape: []int64{1}, Data: make(tensorfs.Bytes, 4)}}
		}
		m.Tensors = append(m.Tensors, x)
	}
	add("token_embedding.weight", tensorfs.BF16, 4, 4)
	add("output_norm.weight", tensorfs.BF16, 4)
	for l := range layers {
		at := fmt.Sprintf("layers.%d.", l)
		add(at+"attention_norm.weight", tensorfs.BF16, 4)
		add(at+"ffn_norm.weight", tensorfs.BF16, 4)
		add(at+"ffn.router.weight", tensorfs.BF16, int64(experts), 4)
		for _, p := range []string{"q", "k", "v", "output"} {
			add(at+"attention."+p+".weight", tensorfs.BF16, 4, 4)
		}
		for e := range experts {
			for _, p := range []string{"gate", "up", "down"} {
				add(fmt.Sprintf("%sffn.experts.%d.%s.weight", at, e, p), dtype, 4, 4)
			}
		}
	}
	made, err := tensorfs.NewModel(m)
	if err != nil {
		t.Fatal(err)
	}
	config := parsed(t, fmt.Sprintf(`{"num_hidden_layers": %d, "num_attention_heads": 1}`, layers))
	made.Config = []tensorfs.Field{{Name: "dim", Value: int64(4)}, {Name: "n_heads", Value: int64(1)}, {Name: "n_experts", Value: int64(experts)}}
	return made, config
}

// TestManyTensors holds that memory and work grow only with the number of tensors, up to the
// largest models.
func TestManyTensors(t *testing.T) {
	for _, c := range []struct {
		dtype tensorfs.DType
		each  int // bytes
	}{{tensorfs.BF16, 400}, {tensorfs.F8_E4M3, 2000}} {
		m, cfg := mixtral(t, 60, 256, c.dtype)
		n := len(m.Tensors)
		if n < 46000 {
			t.Fatal(n)
		}
		got := testlimit.Allocated(func() {
			if list, _, err := tensors(m, cfg, Options{}, 0, preset.Model{Architecture: "llama"}); err != nil || len(list) != 2+60*10 {
				t.Fatal(len(list), err)
			}
		})
		if got > uint64(n*c.each) {
			t.Errorf("%d tensors of %s take %d bytes each", n, c.dtype, got/uint64(n))
		}
	}
	testlimit.Growth(t, 60, func(n int) {
		m, cfg := mixtral(t, n, 64, tensorfs.BF16)
		if _, _, err := tensors(m, cfg, Options{}, 0, preset.Model{Architecture: "llama"}); err != nil {
			t.Fatal(err)
		}
	})
}
