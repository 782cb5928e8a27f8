package lora_test

import (
	"fmt"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/views"
)

// BenchmarkRead reads f16/ in pieces of 1 MiB, of a base alone and with an adapter.
func BenchmarkRead(b *testing.B) {
	for _, base := range []tensorfs.DType{tensorfs.BF16, tensorfs.Q8_0, tensorfs.Q4_K} {
		for _, rank := range []int64{0, 8, 16, 64} {
			b.Run(fmt.Sprintf("%s/r%d", base, rank), func(b *testing.B) {
				m := model(b, "llama", tensor(q, base, 4096, 4096))
				if rank > 0 {
					a := peft(b, fmt.Sprintf(`{"peft_type":"LORA","r":%d,"lora_alpha":16}`, rank), tensor(pre+"model.layers.0.self_attn.q_proj.lora_A.weight", tensorfs.F32, rank, 4096), tensor(pre+"model.layers.0.self_attn.q_proj.lora_B.weight", tensorfs.F32, 4096, rank))
					apply(b, m, a, 1)
				}
				d, err := views.Encode(&m.Tensors[0], tensorfs.F16)
				must(b, err)
				buf := make([]byte, 1<<20)
				b.SetBytes(int64(len(buf)))
				b.ReportAllocs()
				at := int64(0)
				for b.Loop() {
					must(b, tensorfs.ReadFull(d, buf, at))
					at = (at + int64(len(buf))) % d.Size()
				}
			})
		}
	}
}
