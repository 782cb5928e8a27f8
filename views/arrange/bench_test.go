package arrange

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/source"
)

// BenchmarkRead reads 64 MiB of a cached file as they are stored and rearranged,
// by 1 MiB and by 128 KiB.
func BenchmarkRead(b *testing.B) {
	const rows, cols = 8192, 4096 // rows of 8 KiB
	path := filepath.Join(b.TempDir(), "weights")
	if err := os.WriteFile(path, make([]byte, 2*rows*cols), 0o600); err != nil {
		b.Fatal(err)
	}
	f, err := source.Map(path, "weights")
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	in := &tensorfs.Tensor{DType: tensorfs.BF16, Shape: []int64{rows, cols}, Data: f.Section(0, 2*rows*cols)}
	small := *in
	small.Shape = []int64{rows * 32, cols / 32} // as scales have
	heads := *in
	heads.Shape = []int64{rows * cols / 512 / 128, 128, 512} // as kv_b has
	for _, c := range []struct {
		name string
		do   func() (*tensorfs.Tensor, error)
	}{
		{"stored", func() (*tensorfs.Tensor, error) { return in, nil }},
		{"permuted", func() (*tensorfs.Tensor, error) { return Permute(in, 64) }},
		{"permuted-small-rows", func() (*tensorfs.Tensor, error) { return Permute(&small, 64) }},
		{"alternating", func() (*tensorfs.Tensor, error) { return EveryOther(in, 0, 1) }},
		{"transposed", func() (*tensorfs.Tensor, error) { return Transpose(in) }},
		{"transposed-heads", func() (*tensorfs.Tensor, error) { return Transpose(&heads) }},
		{"plus-one", func() (*tensorfs.Tensor, error) { return Add(in, 1) }},
	} {
		t, err := c.do()
		if err != nil {
			b.Fatal(err)
		}
		for _, r := range []struct {
			name string
			n    int64
		}{{"1M", 1 << 20}, {"128K", 128 << 10}} {
			b.Run(c.name+"/"+r.name, func(b *testing.B) {
				p := make([]byte, r.n)
				b.SetBytes(r.n)
				b.ReportAllocs()
				at := int64(0)
				for b.Loop() {
					if err := tensorfs.ReadFull(t.Data, p, at); err != nil {
						b.Fatal(err)
					}
					if at += r.n; at+r.n > t.Data.Size() {
						at = 0
					}
				}
			})
		}
	}
}
