package lora_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/safetensors"
)

// TestRouter: a weight among target_parameters is a matrix like any other, of whatever module.
func TestRouter(t *testing.T) {
	const router = layer + "mlp.gate"
	pair, down := pairOf(router, 4, 16, 2), pairOf(layer+"mlp.experts.1.down_proj", 16, 8, 2)
	base := []safetensors.Stored{tensor(router+".weight", tensorfs.BF16, 4, 16), tensor(layer+"mlp.experts.down_proj", tensorfs.F32, 3, 16, 8)}
	plain, params := model(t, "qwen3moe", base...), model(t, "qwen3moe", base...)
	list := slices.Concat(pair, down)
	apply(t, plain, peft(t, `{"peft_type":"LORA","r":2,"lora_alpha":3}`, list...), 1)
	apply(t, params, peft(t, `{"peft_type":"LORA","r":2,"lora_alpha":3,"target_parameters":["mlp.gate.weight","1.down_proj.weight"]}`, list...), 1)
	want := numbersOf(t, plain)
	for name, got := range numbersOf(t, params) {
		if !slices.Equal(got, want[name]) || params.TensorBySource(name).Change == nil {
			t.Errorf("%s has other numbers", name)
		}
	}
}

// TestSquareParts: if a base stores its experts one by one, the order of rows and columns is known,
// also for square matrices.
func TestSquareParts(t *testing.T) {
	const experts, half, in, rank = 3, 8, 16, 2
	var base []safetensors.Stored
	for e := range experts {
		for _, part := range []string{"gate_proj", "up_proj"} {
			base = append(base, tensor(fmt.Sprintf(layer+"mlp.experts.%d.%s.weight", e, part), tensorfs.F32, half, in))
		}
	}
	m := model(t, "qwen3moe", base...)
	a, b := tensor(pre+layer+"mlp.experts.lora_A.weight", tensorfs.F32, experts*rank, in), tensor(pre+layer+"mlp.experts.lora_B.weight", tensorfs.F32, 2*half, rank*experts)
	want := map[string][]float32{}
	x, y := stored(t, a), stored(t, b)
	for e := range experts {
		left, right := make([]float32, 2*half*rank), x[e*rank*in:]
		for o := range 2 * half {
			for k := range rank {
				left[o*rank+k] = y[(o*rank+k)*experts+e] // the expert counts fastest
			}
		}
		for i, part := range []string{"gate_proj", "up_proj"} {
			name := fmt.Sprintf(layer+"mlp.experts.%d.%s.weight", e, part)
			want[name] = numbers(t, m.TensorBySource(name))
			for o := range half {
				for c := range in {
					want[name][o*in+c] += float32(product(right, left, rank, in, i*half+o, c) * 1.5)
				}
			}
		}
	}
	apply(t, m, peft(t, `{"peft_type":"LORA","r":2,"lora_alpha":3,"target_parameters":["mlp.experts.gate_up_proj"]}`, a, b), 1)
	for name, got := range numbersOf(t, m) {
		if !slices.Equal(got, want[name]) {
			t.Errorf("%s has other numbers", name)
		}
	}
}
