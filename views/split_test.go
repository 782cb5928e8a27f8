package views

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"github.com/tensorfs/tensorfs"
)

// splittable are the types that Split knows.
var splittable = map[tensorfs.DType]struct {
	mode        string
	bits, group int
}{
	tensorfs.Q4_0: {"affine", 4, 32}, tensorfs.Q4_1: {"affine", 4, 32}, tensorfs.Q5_0: {"affine", 5, 32}, tensorfs.Q5_1: {"affine", 5, 32},
	tensorfs.Q8_0: {"affine", 8, 32}, tensorfs.MXFP4: {"mxfp4", 4, 32}, tensorfs.NVFP4: {"nvfp4", 4, 16},
}

// blocksWithin returns random blocks whose scales are ordinary numbers.
func blocksWithin(seed uint64, d tensorfs.DType, shape ...int64) []byte {
	size, _ := d.Size(shape)
	b := random(seed, int(size))
	_, width := d.Block()
	for at := int64(0); at < size; at += width {
		block := b[at : at+width]
		switch d {
		case tensorfs.MXFP4:
			block[0] = 100 + block[0]%50
		case tensorfs.NVFP4:
			for i := range 4 {
				block[i] &= 0x3F
			}
		default: // a half, and in some types another, below 2
			block[1] &= 0xBF
			if d == tensorfs.Q4_1 || d == tensorfs.Q5_1 {
				block[3] &= 0xBF
			}
		}
	}
	return b
}

// TestSplit: a module is the same numbers as its blocks, in streams that are read
// at any offset.
func TestSplit(t *testing.T) {
	for d, want := range splittable {
		t.Run(d.String(), func(t *testing.T) {
			shape := []int64{3, 2, 128}
			in := &tensorfs.Tensor{Name: "w", Source: "s", DType: d, Shape: shape, Data: mapped(t, "file", blocksWithin(3, d, shape...))}
			got, ok := Split(in)
			if !ok {
				t.Fatal("it is not split")
			}
			q := got.Quant
			if got.DType != tensorfs.U32 || !slices.Equal(got.Shape, []int64{3, 2, 128 * int64(want.bits) / 32}) || q.Mode != want.mode || q.Bits != want.bits || q.GroupSize != want.group || !slices.Equal(q.Shape, shape) {
				t.Errorf("%+v, %+v", got, q)
			}
			for _, p := range []*tensorfs.Tensor{got, q.Scales, q.Biases} {
				if p == nil {
					continue
				}
				if size, ok := p.DType.Size(p.Shape); !ok || size != p.Data.Size() {
					t.Errorf("%d bytes for %s of shape %v", p.Data.Size(), p.DType, p.Shape)
				}
				checkData(t, p.Data, content(t, p.Data))
			}
			if (q.Biases == nil) != (want.mode != "affine") {
				t.Errorf("biases %v", q.Biases)
			}
			x, err := Encode(in, tensorfs.F32)
			if err != nil {
				t.Fatal(err)
			}
			y, err := Encode(got, tensorfs.F32)
			if err != nil {
				t.Fatal(err)
			}
			a, b := content(t, x), content(t, y)
			for i := 0; i < len(a); i += 4 {
				u, v := math.Float32frombits(binary.LittleEndian.Uint32(a[i:])), math.Float32frombits(binary.LittleEndian.Uint32(b[i:]))
				if u != v {
					t.Fatalf("number %d is %v, want %v", i/4, v, u)
				}
			}
		})
	}
}

// TestSplitRefuses: what MLX does not have is left as it is.
func TestSplitRefuses(t *testing.T) {
	data := func(d tensorfs.DType, shape ...int64) *tensorfs.Tensor {
		size, _ := d.Size(shape)
		return &tensorfs.Tensor{DType: d, Shape: shape, Data: plain(make([]byte, size))}
	}
	big, opaque, owned := data(tensorfs.Q4_0, 2, 32), data(tensorfs.Q4_0, 2, 32), data(tensorfs.Q4_0, 2, 32)
	big.BigEndian, opaque.Opaque, owned.Owner = true, "secret", "other"
	for name, in := range map[string]*tensorfs.Tensor{
		"Q6_K": data(tensorfs.Q6_K, 2, 256), "F16": data(tensorfs.F16, 2, 32), "a row": data(tensorfs.Q4_0, 64), "big-endian": big, "opaque": opaque, "a companion": owned,
	} {
		if got, ok := Split(in); ok {
			t.Errorf("%s: %+v", name, got)
		}
	}
	bytes := data(tensorfs.MXFP4, 2, 32)
	bytes.BigEndian = true
	if _, ok := Split(bytes); !ok {
		t.Error("blocks of bytes alone have no order of bytes")
	}
	if got, ok := Split(data(tensorfs.Q4_0, 0, 32)); !ok || got.Data.Size() != 0 || got.Quant.Scales.Data.Size() != 0 {
		t.Errorf("no rows: %+v", got)
	}
}

// TestCodes: the codes of MXFP4 as gpt-oss has them.
func TestCodes(t *testing.T) {
	in := &tensorfs.Tensor{DType: tensorfs.MXFP4, Shape: []int64{1, 64}, Data: plain(random(4, 34))}
	q, _ := Split(in)
	got, err := Codes(q)
	if err != nil || got.DType != tensorfs.U8 || !slices.Equal(got.Shape, []int64{1, 2, 16}) {
		t.Fatal(got, err)
	}
	b, src := content(t, got.Data), content(t, in.Data)
	for i := range 64 {
		block := src[i/32*17+1:][:16]
		want := block[i%16] >> (i % 32 / 16 * 4) & 15
		if code := b[i/2] >> (i % 2 * 4) & 15; code != want {
			t.Errorf("code %d is %d, want %d", i, code, want)
		}
	}
	for _, bad := range []*tensorfs.Tensor{in, {DType: tensorfs.U32, Shape: []int64{1, 8}, Data: plain(nil), Quant: q.Quant}} {
		if _, err := Codes(bad); err == nil {
			t.Errorf("%+v has codes", bad)
		}
	}
}
