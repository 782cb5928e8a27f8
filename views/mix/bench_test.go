package mix_test

import (
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/testing/testturn"
	"github.com/tensorfs/tensorfs/views"
	"github.com/tensorfs/tensorfs/views/mix"
)

// BenchmarkMerged reads f16/ of merges of BF16 tensors, 1 MiB at a time, and compares it with f16/
// of one of the models, both in memory. For slerp and ties, whole tensors are read first.
func BenchmarkMerged(b *testing.B) {
	const n = 1 << 23
	tensor := func(seed byte) *tensorfs.Tensor {
		data := make([]byte, 2*n)
		for i := range data {
			data[i] = byte(i)*seed | byte(i%2)*0x3c
		}
		return &tensorfs.Tensor{Source: "t", DType: tensorfs.BF16, Shape: []int64{n / 1024, 1024}, Data: tensorfs.Bytes(data)}
	}
	reader := func(t *tensorfs.Tensor, middle bool) func() { // what one reads is not in the processor's cache for the other
		d, err := views.Encode(t, tensorfs.F16)
		if err != nil {
			b.Fatal(err)
		}
		p, at := make([]byte, 1<<20), int64(0)
		if middle {
			at = d.Size() / 2
		}
		return func() {
			if err := tensorfs.ReadFull(d, p, at); err != nil {
				b.Fatal(err)
			}
			at = (at + int64(len(p))) % d.Size()
		}
	}
	in := []mix.Input{{Tensor: tensor(3), Base: true, Weight: 0.2, Density: 0.5}, {Tensor: tensor(5), Weight: 0.3, Density: 0.5}, {Tensor: tensor(7), Weight: 0.4, Density: 0.5}}
	for _, row := range []struct {
		name, method string
		models       int
		aim          float64
	}{{"linear-of-3", "linear", 3, 0.25}, {"slerp", "slerp", 2, 0}, {"task_arithmetic-of-3", "task_arithmetic", 3, 0}, {"ties-of-3", "ties", 3, 0}} {
		b.Run(row.name, func(b *testing.B) {
			t, err := mix.Merge{Method: row.method, Inputs: in[:row.models], T: 0.3, Lambda: 1, Normalize: row.method == "linear"}.Tensor()
			if err != nil {
				b.Fatal(err)
			}
			merge := reader(&t, false)
			merge()
			testturn.Measure(b, 1<<20, "model", row.aim, merge, reader(in[0].Tensor, true))
		})
	}
}
