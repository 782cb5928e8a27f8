package packing_test

import (
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/packing"
)

// example is a module of a packing.
type example struct {
	name string
	make func() (*tensorfs.Quant, error)
}

// examples are modules of n rows and k columns of every packing, in groups of g columns. tensor
// makes their tensors.
func examples(n, k, g int64, tensor func(d tensorfs.DType, shape ...int64) *tensorfs.Tensor, order *tensorfs.Tensor) []example {
	gptq := func(bits int64, order *tensorfs.Tensor) func() (*tensorfs.Quant, error) {
		return func() (*tensorfs.Quant, error) {
			return packing.GPTQ(packing.GPTQConfig{Bits: int(bits), Group: int(g)}, tensor(tensorfs.I32, k*bits/32, n), tensor(tensorfs.I32, k/g, n*bits/32), tensor(tensorfs.F16, k/g, n), order)
		}
	}
	return []example{
		{"gptq 4", gptq(4, nil)}, {"gptq 4, act-order", gptq(4, order)}, {"gptq 3", gptq(3, nil)}, {"gptq 8", gptq(8, nil)},
		{"awq", func() (*tensorfs.Quant, error) {
			return packing.AWQ(int(g), tensor(tensorfs.I32, k, n/8), tensor(tensorfs.I32, k/g, n/8), tensor(tensorfs.F16, k/g, n))
		}},
		{"pack-quantized 4", func() (*tensorfs.Quant, error) {
			return packing.CompressedPack(packing.CompressedConfig{Bits: 4, Group: int(g)}, tensor(tensorfs.I32, n, k/8), tensor(tensorfs.BF16, n, k/g), nil, nil, nil)
		}},
		{"int-quantized", func() (*tensorfs.Quant, error) {
			return packing.CompressedInt(packing.CompressedConfig{}, tensor(tensorfs.I8, n, k), tensor(tensorfs.BF16, n, 1), nil)
		}},
		{"nvfp4", func() (*tensorfs.Quant, error) {
			return packing.NVFP4("nvfp4", false, tensor(tensorfs.U8, n, k/2), tensor(tensorfs.F8_E4M3, n, k/16), tensor(tensorfs.F32, 1))
		}},
		{"mxfp8", func() (*tensorfs.Quant, error) {
			return packing.MXFP8(tensor(tensorfs.F8_E4M3, n, k), tensor(tensorfs.U8, n, k/32))
		}},
		{"nf4, nested", func() (*tensorfs.Quant, error) {
			return packing.BnB4(packing.State{Shape: []int64{n, k}, Block: 64, NestedBlock: 256}, tensor(tensorfs.U8, n*k/2, 1), tensor(tensorfs.U8, n*k/64), tensor(tensorfs.F32, 16), tensor(tensorfs.F32, n*k/64/256), tensor(tensorfs.F32, 256))
		}},
		{"int8 of bitsandbytes", func() (*tensorfs.Quant, error) {
			return packing.BnB8(tensor(tensorfs.I8, n, k), tensor(tensorfs.F32, n))
		}},
	}
}

// filled returns a tensor of some bytes.
func filled(d tensorfs.DType, shape ...int64) *tensorfs.Tensor {
	size, _ := d.Size(shape)
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(i*7 + i>>8)
	}
	return &tensorfs.Tensor{Name: "t", Source: "t", DType: d, Shape: shape, Data: tensorfs.Bytes(data)}
}

// mixed returns the groups of k columns that are not in their order.
func mixed(k, g int64) *tensorfs.Tensor {
	order := filled(tensorfs.I32, k)
	groups := make([]byte, 4*k)
	for i := range k {
		groups[4*i] = byte(i * 5 % (k / g))
	}
	order.Data = tensorfs.Bytes(groups)
	return order
}

// BenchmarkNumbers reads a matrix of each packing as F32, 1 MiB at a time, beside a copy of as many
// bytes. It counts the bytes of the F32.
func BenchmarkNumbers(b *testing.B) {
	const n, k, g = 4096, 4096, 128
	for _, c := range append(examples(n, k, g, filled, mixed(k, g)),
		example{"copy", func() (*tensorfs.Quant, error) { return &tensorfs.Quant{Numbers: filled(tensorfs.F32, n, k).Data}, nil }}) {
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
