package views

import (
	"fmt"
	"testing"

	"github.com/tensorfs/tensorfs"
)

// BenchmarkRead reads f16/ of mapped tensors through the code of this package, in
// the sizes of a small read, an ordinary user's and root's.
func BenchmarkRead(b *testing.B) {
	data := func(p []byte) tensorfs.Data { return mapped(b, "file", p) }
	blocks := func(d tensorfs.DType) conversion {
		size, _ := d.Size([]int64{4096, 1024})
		return conversion{d.String(), tensorfs.Tensor{DType: d, Shape: []int64{4096, 1024}, Data: data(random(1, int(size)))}, Options{}, nil}
	}
	for _, c := range []conversion{
		blocks(tensorfs.BF16), blocks(tensorfs.Q8_0), blocks(tensorfs.Q4_K),
		affine(data, 2, 4, 64, tensorfs.BF16, []int64{4096, 1024}),
		mx(data, 3, "mxfp4", []int64{4096, 1024}, nil),
	} {
		h, reason := half(&c.t, c.opts)
		if reason != "" {
			b.Fatal(reason)
		}
		for _, n := range []int64{4 << 10, 128 << 10, 1 << 20} {
			b.Run(fmt.Sprintf("%s/%dK", c.name, n>>10), func(b *testing.B) {
				p := make([]byte, n)
				b.SetBytes(n)
				b.ReportAllocs()
				off := int64(0)
				for b.Loop() {
					if err := tensorfs.ReadFull(h.Data, p, off); err != nil {
						b.Fatal(err)
					}
					if off += n; off+n > h.Data.Size() {
						off = 0
					}
				}
			})
		}
	}
}
