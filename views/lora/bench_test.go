package lora_test

import (
	"fmt"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/safetensors"
	"github.com/tensorfs/tensorfs/internal/testing/testturn"
	"github.com/tensorfs/tensorfs/views"
)

// BenchmarkAdapted reads f16/ of a base with an adapter, 1 MiB at a time, and compares it with f16/
// of only the base, both in memory.
func BenchmarkAdapted(b *testing.B) {
	const name = "model.layers.0.self_attn.q_proj"
	for _, base := range []tensorfs.DType{tensorfs.BF16, tensorfs.Q8_0, tensorfs.Q4_K} {
		for _, row := range []struct {
			kind string
			rank int64
			aim  float64
		}{{"lora", 8, 0}, {"lora", 16, 1. / 3}, {"lora", 64, 0}, {"dora", 16, 0}} {
			b.Run(fmt.Sprintf("%s/%s-r%d", base, row.kind, row.rank), func(b *testing.B) {
				m := model(b, "llama", tensor(q, base, 4096, 4096))
				config := fmt.Sprintf(`{"peft_type":"LORA","r":%d,"lora_alpha":16,"use_dora":%v}`, row.rank, row.kind == "dora")
				list := []safetensors.Stored{tensor(pre+name+".lora_A.weight", tensorfs.F32, row.rank, 4096), tensor(pre+name+".lora_B.weight", tensorfs.F32, 4096, row.rank)}
				if row.kind == "dora" {
					list = append(list, tensor(pre+name+".lora_magnitude_vector", tensorfs.F32, 4096))
				}
				a := peft(b, config, list...)
				alone := reader(b, &m.Tensors[0], true)
				apply(b, m, a, 1)
				testturn.Measure(b, 1<<20, "base", row.aim, reader(b, &m.Tensors[0], false), alone)
			})
		}
	}
}

// reader reads a tensor as F16, 1 MiB at a time, from its beginning or from its middle on: what
// one reader has brought into the processor's cache is not there for another.
func reader(b *testing.B, t *tensorfs.Tensor, middle bool) func() {
	d, err := views.Encode(t, tensorfs.F16)
	must(b, err)
	buf, at := make([]byte, 1<<20), int64(0)
	if middle {
		at = d.Size() / 2
	}
	return func() {
		must(b, tensorfs.ReadFull(d, buf, at))
		at = (at + int64(len(buf))) % d.Size()
	}
}
