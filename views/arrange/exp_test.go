package arrange

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
)

func vector(t tensorfs.DType, b []byte) *tensorfs.Tensor {
	_, width := t.Block()
	return &tensorfs.Tensor{Name: "v", Source: "v", DType: t, Shape: []int64{int64(len(b)) / width}, Data: tensorfs.Bytes(b)}
}

func bytesOfAll(t *testing.T, x *tensorfs.Tensor) []byte {
	t.Helper()
	b := make([]byte, x.Data.Size())
	if err := tensorfs.ReadFull(x.Data, b, 0); err != nil {
		t.Fatal(err)
	}
	return b
}

// TestExp: numbers that were BF16 come back with their bits, all of them; others within
// the last digits as F32.
func TestExp(t *testing.T) {
	var b16, b32 []byte
	for bits := range uint16(0x4260) { // up to 56, and -56: the exponents of what is normal in F32
		if bits < 0x3D00 {
			continue // tiny numbers have one logarithm with others
		}
		b16 = binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(b16, bits), bits|0x8000)
		b32 = binary.LittleEndian.AppendUint32(b32, uint32(bits)<<16|0x1234)
	}
	for i, x := range []*tensorfs.Tensor{vector(tensorfs.BF16, b16), vector(tensorfs.F32, b32)} {
		made, err := NegativeExp(x)
		if err != nil {
			t.Fatal(err)
		}
		back, err := LogOfNegative(made)
		if err != nil {
			t.Fatal(err)
		}
		if back.DType != x.DType {
			t.Errorf("%s comes back as %s", x.DType, back.DType)
		}
		want, got := bytesOfAll(t, x), bytesOfAll(t, back)
		if i == 0 && string(want) != string(got) {
			t.Error("other bits")
		}
		for at := 0; i == 1 && at < len(want); at += 4 {
			a, b := float64(number32(want[at:])), float64(number32(got[at:]))
			if math.Abs(a-b) > 2e-6*max(1, math.Abs(a)) {
				t.Fatalf("%v is %v", a, b)
			}
		}
	}
	for _, x := range []float32{0, 1, float32(math.Inf(-1)), float32(math.NaN())} {
		v := vector(tensorfs.F32, binary.LittleEndian.AppendUint32(nil, math.Float32bits(x)))
		if _, err := LogOfNegative(v); err == nil || !strings.Contains(err.Error(), "logarithm") {
			t.Errorf("%v: %v", x, err)
		}
	}
	if _, err := LogOfNegative(vector(tensorfs.BF16, b16)); err == nil {
		t.Error("a logarithm of BF16")
	}
}

// TestCentred holds that the numbers of what is centred add up to nothing, in the type
// that they have, and that what has no numbers to add is refused.
func TestCentred(t *testing.T) {
	f32 := func(x ...float32) tensorfs.Data {
		b := []byte{}
		for _, v := range x {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
		}
		return tensorfs.Bytes(b)
	}
	got, err := Centred(&tensorfs.Tensor{DType: tensorfs.F32, Shape: []int64{4}, Data: f32(1, 2, 3, 6)})
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 16)
	if err := tensorfs.ReadFull(got.Data, b, 0); err != nil {
		t.Fatal(err)
	}
	for i, want := range []float32{-2, -1, 0, 3} {
		if x := math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:])); x != want {
			t.Errorf("number %d is %v, want %v", i, x, want)
		}
	}
	for _, x := range []*tensorfs.Tensor{
		{DType: tensorfs.F32, Shape: []int64{0}, Data: f32()},
		{DType: tensorfs.Q8_0, Shape: []int64{32}, Data: tensorfs.Bytes(make([]byte, 34))},
		{DType: tensorfs.F32, Shape: []int64{1}, Data: f32(1), BigEndian: true},
	} {
		if _, err := Centred(x); err == nil {
			t.Errorf("%s of shape %v was centred", x.DType, x.Shape)
		}
	}
}
