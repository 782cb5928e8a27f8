package packing_test

import (
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/packing"
)

// hostile gives tensors of any type, shape and content.
type hostile struct{ b []byte }

func (h *hostile) byte() (c byte) {
	if len(h.b) > 0 {
		c, h.b = h.b[0], h.b[1:]
	}
	return c
}

func (h *hostile) tensor(name string, types ...tensorfs.DType) *tensorfs.Tensor {
	d := types[int(h.byte())%len(types)]
	shape := make([]int64, h.byte()%4)
	for i := range shape {
		shape[i] = int64(h.byte()) % 70
	}
	size, ok := d.Size(shape)
	if !ok || size > 1<<16 {
		shape, size = nil, d.Bits()/8
	}
	data := make([]byte, size)
	n := copy(data, h.b)
	h.b = h.b[n:]
	return &tensorfs.Tensor{Name: name, Source: name, DType: d, Shape: shape, Data: tensorfs.Bytes(data)}
}

func (h *hostile) maybe(name string, types ...tensorfs.DType) *tensorfs.Tensor {
	if h.byte()%2 == 0 {
		return nil
	}
	return h.tensor(name, types...)
}

// FuzzPackings holds that a module of any tensors is an error or has all of its numbers,
// that these are the same read in two pieces, and that the module of MLX's can be read.
func FuzzPackings(f *testing.F) {
	const i32, f16, f32, u8, i8, f8 = tensorfs.I32, tensorfs.F16, tensorfs.F32, tensorfs.U8, tensorfs.I8, tensorfs.F8_E4M3
	for way := range byte(7) {
		f.Add(way, 4, 32, []byte{0, 2, 4, 8, 0, 2, 1, 1, 1, 0, 2, 1, 8, 0, 0, 9, 9, 9, 9})
		f.Add(way, 3, 0, []byte{0, 2, 3, 32, 0, 2, 1, 3, 1, 0, 2, 1, 32, 1, 0, 1, 32, 200, 1})
	}
	f.Add(byte(0), 4, 8, []byte("\x00\x02\x01\x08\x00\x02\x01\x01\x00\x02\x01\x08\x01\x00\x01\x08\xff\xff\xff\xff"))
	f.Add(byte(0), 4, 1<<62, []byte{0, 2, 4, 8, 0, 2, 1, 1, 0, 2, 1, 8}) // a group beyond all columns
	f.Fuzz(func(t *testing.T, way byte, bits, group int, b []byte) {
		h := &hostile{b}
		var q *tensorfs.Quant
		var err error
		switch way % 7 {
		case 0:
			q, err = packing.GPTQ(packing.GPTQConfig{Bits: bits, Group: group, V2: way > 100}, h.tensor("codes", i32), h.tensor("zeros", i32), h.tensor("scales", f16, f32), h.maybe("g_idx", i32))
		case 1:
			q, err = packing.AWQ(group, h.tensor("codes", i32), h.maybe("zeros", i32), h.tensor("scales", f16, tensorfs.BF16))
		case 2:
			q, err = packing.CompressedPack(packing.CompressedConfig{Bits: bits, Group: group, Dense: way > 100}, h.tensor("codes", i32), h.tensor("scales", tensorfs.BF16, f32),
				h.maybe("shape", tensorfs.I64, i32), h.maybe("zeros", i32, i8), h.maybe("g_idx", i32))
		case 3:
			q, err = packing.CompressedInt(packing.CompressedConfig{Group: group}, h.tensor("codes", i8), h.tensor("scales", f16), h.maybe("zeros", i8))
		case 4:
			q, err = packing.NVFP4("m", way > 100, h.tensor("codes", u8), h.tensor("scales", f8), h.tensor("global", f32))
		case 5:
			s := packing.State{Shape: []int64{int64(h.byte()), int64(h.byte())}, Block: group, NestedBlock: bits, NestedOffset: 0.1}
			q, err = packing.BnB4(s, h.tensor("codes", u8), h.tensor("absmax", f32, u8), h.tensor("values", f32), h.maybe("nested", f32), h.maybe("table", f32))
		case 6:
			if q, err = packing.MXFP8(h.tensor("codes", f8), h.tensor("scales", u8)); err != nil {
				q, err = packing.BnB8(h.tensor("codes", i8), h.tensor("SCB", f32))
			}
		}
		if err != nil || q.Numbers == nil {
			return
		}
		n, ok := tensorfs.Elements(q.Shape)
		if !ok || q.Numbers.Size() != 4*n || n > 1<<20 {
			t.Fatalf("%d bytes of shape %v", q.Numbers.Size(), q.Shape)
		}
		all, again := make([]byte, 4*n), make([]byte, 4*n)
		if err := tensorfs.ReadFull(q.Numbers, all, 0); err != nil {
			return
		}
		cut := 4 * n / 3
		if err := tensorfs.ReadFull(q.Numbers, again[:cut], 0); err != nil {
			t.Fatal(err)
		}
		if err := tensorfs.ReadFull(q.Numbers, again[cut:], cut); err != nil || string(all) != string(again) {
			t.Fatalf("other numbers in pieces: %v", err)
		}
		if q.Same == nil {
			return
		}
		x, err := q.Same()
		if err != nil || x == nil {
			return
		}
		for _, p := range []*tensorfs.Tensor{x, x.Quant.Scales, x.Quant.Biases} {
			if size, ok := p.DType.Size(p.Shape); !ok || size != p.Data.Size() {
				t.Fatalf("%d bytes of %s %v", p.Data.Size(), p.DType, p.Shape)
			}
			if err := tensorfs.ReadFull(p.Data, make([]byte, p.Data.Size()), 0); err != nil {
				t.Fatal(err)
			}
		}
	})
}
