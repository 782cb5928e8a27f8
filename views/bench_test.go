package views

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/views/kernel"
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

// BenchmarkEncode reads the same numbers as f16/ and as another type in turn, and reports
//
//	Gnum/s    numbers per nanosecond
//	x:f16     speed as a share of that of f16/
func BenchmarkEncode(b *testing.B) {
	data := func(p []byte) tensorfs.Data { return mapped(b, "file", p) }
	shape := []int64{4096, 4096}
	plain := func(d tensorfs.DType) tensorfs.Tensor {
		p, _ := floats(1, d, 1<<20)
		return tensorfs.Tensor{DType: d, Shape: shape, Data: data(bytes.Repeat(p, 16))}
	}
	mode := func(name string) tensorfs.Tensor {
		x := mx(data, 3, name, []int64{64, 4096}, nil).t
		x.Data, x.Shape = data(bytes.Repeat(content(b, x.Data), 64)), []int64{4096, x.Shape[1]}
		s := content(b, x.Quant.Scales.Data)
		for i := range s {
			if name == "nvfp4" {
				s[i] &= 0x7F // one that ggml has
			}
		}
		x.Quant.Scales = &tensorfs.Tensor{DType: tensorfs.U8, Shape: []int64{4096, 4096 / int64(x.Quant.GroupSize)}, Data: data(bytes.Repeat(s, 64))}
		x.Quant.Shape = shape
		return x
	}
	affine := func(bits, group int, d tensorfs.DType) tensorfs.Tensor {
		return triple(data, bits, group, d, shape, nil)
	}
	blocks := func(d tensorfs.DType) tensorfs.Tensor {
		p, _ := floats(1, tensorfs.F16, 8) // in whose place every block has its scale
		k, _ := kernel.Lookup(d.String())
		b := random(1, 4096*k.Bytes)
		for at := 0; at < len(b); at += k.Bytes {
			for _, f := range k.Fields {
				copy(b[at+f.Offset:][:f.Width*f.Count], p)
			}
		}
		return tensorfs.Tensor{DType: d, Shape: shape, Data: data(bytes.Repeat(b, 4096/k.Elems))}
	}
	wide := []tensorfs.DType{tensorfs.F32, tensorfs.BF16}
	e4m3 := fp8(data, tensorfs.F8_E4M3, tensorfs.F32, [2]int{128, 128}, []int64{128, 4096}, []int64{1, 32}).t
	e4m3.Data, e4m3.Shape = data(bytes.Repeat(content(b, e4m3.Data), 32)), shape
	e4m3.Quant.Scales = &tensorfs.Tensor{DType: tensorfs.F32, Shape: []int64{32, 32}, Data: data(bytes.Repeat(content(b, e4m3.Quant.Scales.Data), 32))}
	e4m3.Quant.Shape = shape
	for _, c := range []struct {
		name string
		x    tensorfs.Tensor
		to   []tensorfs.DType
	}{
		{"F32", plain(tensorfs.F32), []tensorfs.DType{tensorfs.F32, tensorfs.BF16, tensorfs.Q8_0, tensorfs.Q4_0}},
		{"BF16", plain(tensorfs.BF16), []tensorfs.DType{tensorfs.F32, tensorfs.BF16, tensorfs.Q8_0, tensorfs.Q4_0}},
		{"F16", plain(tensorfs.F16), []tensorfs.DType{tensorfs.F32, tensorfs.BF16, tensorfs.Q8_0, tensorfs.Q4_0}},
		{"Q4_K", blocks(tensorfs.Q4_K), wide},
		{"Q6_K", blocks(tensorfs.Q6_K), wide},
		{"Q8_0", blocks(tensorfs.Q8_0), wide},
		{"IQ4_XS", blocks(tensorfs.IQ4_XS), wide},
		{"MXFP4", blocks(tensorfs.MXFP4), wide},
		{"fp8", e4m3, []tensorfs.DType{tensorfs.F32, tensorfs.BF16}},
		{"affine-2-64-BF16", affine(2, 64, tensorfs.BF16), []tensorfs.DType{tensorfs.Q4_1}},
		{"affine-3-64-BF16", affine(3, 64, tensorfs.BF16), []tensorfs.DType{tensorfs.Q4_1}},
		{"affine-4-64-BF16", affine(4, 64, tensorfs.BF16), []tensorfs.DType{tensorfs.Q4_1, tensorfs.F32, tensorfs.BF16}},
		{"affine-4-32-F16", affine(4, 32, tensorfs.F16), []tensorfs.DType{tensorfs.Q4_1}},
		{"affine-4-64-F32", affine(4, 64, tensorfs.F32), []tensorfs.DType{tensorfs.Q4_1}},
		{"affine-5-64-BF16", affine(5, 64, tensorfs.BF16), []tensorfs.DType{tensorfs.Q5_1}},
		{"mxfp4", mode("mxfp4"), []tensorfs.DType{tensorfs.MXFP4, tensorfs.F32, tensorfs.BF16}},
		{"mxfp8", mode("mxfp8"), []tensorfs.DType{tensorfs.BF16}},
		{"nvfp4", mode("nvfp4"), []tensorfs.DType{tensorfs.NVFP4}},
	} {
		h, err := Encode(&c.x, tensorfs.F16)
		if err != nil {
			b.Fatal(err)
		}
		for _, to := range c.to {
			d, err := Encode(&c.x, to)
			if err != nil {
				b.Fatal(err)
			}
			b.Run(fmt.Sprintf("%s/%s", c.name, to), func(b *testing.B) {
				const numbers = 1 << 19 // 1 MiB as halves
				elems, bytes := to.Block()
				one, two := make([]byte, 2*numbers), make([]byte, numbers/elems*bytes)
				var times [2][]time.Duration
				at := int64(0)
				for b.Loop() {
					start := time.Now()
					err := tensorfs.ReadFull(h, one, at*2)
					middle := time.Now()
					if err == nil {
						err = tensorfs.ReadFull(d, two, at/elems*bytes)
					}
					if err != nil {
						b.Fatal(err)
					}
					times[0], times[1] = append(times[0], middle.Sub(start)), append(times[1], time.Since(middle))
					at = (at + numbers) % (4096 * 4096)
				}
				for i := range times {
					slices.Sort(times[i])
				}
				f16, other := float64(times[0][len(times[0])/2]), float64(times[1][len(times[1])/2])
				b.ReportMetric(other, "ns/op")
				b.ReportMetric(numbers/other, "Gnum/s")
				b.ReportMetric(f16/other, "x:f16")
			})
		}
	}
}

// BenchmarkExact looks for the type of a module whose scales are all halves, as
// most are.
func BenchmarkExact(b *testing.B) {
	for _, d := range []tensorfs.DType{tensorfs.BF16, tensorfs.F32} {
		x := triple(func(p []byte) tensorfs.Data { return mapped(b, "file", p) }, 4, 64, d, []int64{4096, 4096}, nil)
		b.Run(d.String(), func(b *testing.B) {
			b.SetBytes(x.Quant.Scales.Data.Size() * 2)
			for b.Loop() {
				if _, exact, err := Exact(&x); err != nil || !exact {
					b.Fatal(err)
				}
			}
		})
	}
}
