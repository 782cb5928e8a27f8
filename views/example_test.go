package views_test

import (
	"fmt"
	"log"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/views"
)

// All views of a model whose tensors come from memory: any Data will do.
func Example() {
	tensor := func(name string, d tensorfs.DType, rows, cols int64) tensorfs.Tensor {
		size, _ := d.Size([]int64{rows, cols})
		return tensorfs.Tensor{Name: name, Source: name, DType: d, Shape: []int64{rows, cols}, Data: make(tensorfs.Bytes, size)}
	}
	m, err := tensorfs.NewModel(tensorfs.Model{Tensors: []tensorfs.Tensor{
		tensor("layers.0.ffn.gate.weight", tensorfs.Q4_K, 2, 256),
		tensor("layers.0.ffn.up.weight", tensorfs.Q8_0, 2, 256),
		tensor("positions", tensorfs.I32, 1, 4),
	}})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()

	for _, v := range views.Build(m, views.Options{}) {
		fmt.Println(v.Name)
		for i := range v.Tensors.Len() {
			t := v.Tensors.At(i)
			fmt.Println("   ", t.Name, t.DType, t.Shape, t.Data.Size())
		}
		for i := range v.Absent.Len() {
			fmt.Println("    no", v.Absent.Name(i)+":", v.Absent.Reason(i))
		}
	}
	// Output:
	// raw
	//     layers.0.ffn.gate.weight Q4_K [2 256] 288
	//     layers.0.ffn.up.weight Q8_0 [2 256] 544
	//     positions I32 [1 4] 16
	// packed
	//     layers.0.ffn.gate.weight Q4_K [2 256] 288
	//     layers.0.ffn.up.weight Q8_0 [2 256] 544
	//     no positions: no kernel takes I32; see raw/
	// f16
	//     layers.0.ffn.gate.weight F16 [2 256] 1024
	//     layers.0.ffn.up.weight F16 [2 256] 1024
	//     no positions: I32 holds integers, which are not converted; see raw/
	// bf16
	//     layers.0.ffn.gate.weight BF16 [2 256] 1024
	//     layers.0.ffn.up.weight BF16 [2 256] 1024
	//     no positions: I32 holds integers, which are not converted; see raw/
	// f32
	//     layers.0.ffn.gate.weight F32 [2 256] 2048
	//     layers.0.ffn.up.weight F32 [2 256] 2048
	//     no positions: I32 holds integers, which are not converted; see raw/
	// fused
	//     no layers.0.ffn.gate_up.weight: layers.0.ffn.gate.weight is Q4_K and layers.0.ffn.up.weight is Q8_0: rows of different types cannot be in one matrix; see fused-f16/
	// fused-f16
	//     layers.0.ffn.gate_up.weight F16 [4 256] 2048
	// npy
	//     layers.0.ffn.gate.weight.npy F16 [2 256] 5120
	//     layers.0.ffn.up.weight.npy F16 [2 256] 5120
	//     no positions.npy: I32 holds integers, which are not converted; see raw/
}
