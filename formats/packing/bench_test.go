package packing_test

import (
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/packing"
)

// BenchmarkNumbers reads a matrix of each packing as F32, 1 MiB at a time, beside a copy
// of as many bytes. Bytes are those of the F32.
func BenchmarkNumbers(b *testing.B) {
	const n, k, g = 4096, 4096, 128
	zero := func(d tensorfs.DType, shape ...int64) *tensorfs.Tensor {
		size, _ := d.Size(shape)
		data := make([]byte, size)
		for i := range data {
			data[i] = byte(i*7 + i>>8)
		}
		return &tensorfs.Tensor{Name: "t", Source: "t", DType: d, Shape: shape, Data: tensorfs.Bytes(data)}
	}
	order := zero(tensorfs.I32, k)
	groups := make([]byte, 4*k)
	for i := range k {
		groups[4*i] = byte(i * 5 % (k / g))
	}
	order.Data = tensorfs.Bytes(groups)
	gptq := func(bits int64, order *tensorfs.Tensor) func() (*tensorfs.Quant, error) {
		return func() (*tensorfs.Quant, error) {
			return packing.GPTQ(packing.GPTQConfig{Bits: int(bits), Group: g}, zero(tensorfs.I32, k*bits/32, n), zero(tensorfs.I32, k/g, n*bits/32), zero(tensorfs.F16, k/g, n), order)
		}
	}
	for _, c := range []struct {
		name string
		make func() (*tensorfs.Quant, error)
	}{
		{"copy", func() (*tensorfs.Quant, error) { return &tensorfs.Quant{Numbers: zero(tensorfs.F32, n, k).Data}, nil }},
		{"gptq 4", gptq(4, nil)}, {"gptq 4, act-order", gptq(4, order)}, {"gptq 3", gptq(3, nil)}, {"gptq 8", gptq(8, nil)},
		{"awq", func() (*tensorfs.Quant, error) {
			return packing.AWQ(g, zero(tensorfs.I32, k, n/8), zero(tensorfs.I32, k/g, n/8), zero(tensorfs.F16, k/g, n))
		}},
		{"pack-quantized 4", func() (*tensorfs.Quant, error) {
			return packing.CompressedPack(packing.CompressedConfig{Bits: 4, Group: g}, zero(tensorfs.I32, n, k/8), zero(tensorfs.BF16, n, k/g), nil, nil, nil)
		}},
		{"int-quantized", func() (*tensorfs.Quant, error) {
			return packing.CompressedInt(packing.CompressedConfig{}, zero(tensorfs.I8, n, k), zero(tensorfs.BF16, n, 1), nil)
		}},
		{"nvfp4", func() (*tensorfs.Quant, error) {
			return packing.NVFP4("nvfp4", false, zero(tensorfs.U8, n, k/2), zero(tensorfs.F8_E4M3, n, k/16), zero(tensorfs.F32, 1))
		}},
		{"mxfp8", func() (*tensorfs.Quant, error) {
			return packing.MXFP8(zero(tensorfs.F8_E4M3, n, k), zero(tensorfs.U8, n, k/32))
		}},
		{"nf4, nested", func() (*tensorfs.Quant, error) {
			return packing.BnB4(packing.State{Shape: []int64{n, k}, Block: 64, NestedBlock: 256}, zero(tensorfs.U8, n*k/2, 1), zero(tensorfs.U8, n*k/64), zero(tensorfs.F32, 16), zero(tensorfs.F32, n*k/64/256), zero(tensorfs.F32, 256))
		}},
		{"int8 of bitsandbytes", func() (*tensorfs.Quant, error) { return packing.BnB8(zero(tensorfs.I8, n, k), zero(tensorfs.F32, n)) }},
	} {
		q, err := c.make()
		if err != nil {
			b.Fatal(c.name, err)
		}
		b.Run(c.name, func(b *testing.B) {
			p := make([]byte, 1<<20)
			b.SetBytes(int64(len(p)))
			b.ReportAllocs()
			at := int64(0)
			for b.Loop() {
				if err := tensorfs.ReadFull(q.Numbers, p, at); err != nil {
					b.Fatal(err)
				}
				at = (at + int64(len(p))) % q.Numbers.Size()
			}
		})
	}
}
