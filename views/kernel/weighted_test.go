package kernel

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
)

// TestWeightedSum compares the sums of this machine with their specification, at every length of a
// ragged end, with every kind of number, and with a divisor and without.
func TestWeightedSum(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	special := []uint32{0, 1 << 31, 1, 0x7F7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00001, 0x7F800001, 0x00800000, 0x007FFFFF, 0x7BFF7BFF, 0x7C007E01, 0xFC01FC00}
	fill := func(n int) []byte {
		p := make([]byte, n)
		for i := 0; i+4 <= n; i += 4 {
			x := special[random.IntN(len(special))]
			if random.IntN(4) > 0 {
				x = math.Float32bits(float32(random.NormFloat64()))
			}
			binary.LittleEndian.PutUint32(p[i:], x)
		}
		return p
	}
	for _, dtype := range []string{"F32", "F16", "BF16"} {
		for _, by := range []float32{1, 0.9, -3, float32(math.Inf(1)), 1e-40} {
			for sources := range 5 {
				weights := make([]float32, sources)
				for i := range weights {
					weights[i] = float32(random.NormFloat64())
				}
				s, ok := NewWeightedSum(dtype, weights, by)
				if !ok {
					t.Fatalf("no sums of %s", dtype)
				}
				for n := range 100 {
					in := make([][]byte, sources)
					for i := range in {
						in[i] = fill(n * s.bytes)
					}
					got, want := bytes.Repeat([]byte{0xAA}, n*s.bytes), make([]byte, n*s.bytes)
					for at := 0; at < len(want); at += s.bytes {
						s.put(want[at:][:s.bytes], s.one(in, at))
					}
					if s.Make(got, in); !bytes.Equal(got, want) {
						t.Fatalf("%d sums of %d sources in %s, by %v: got %x, want %x", n, sources, dtype, by, got, want)
					}
				}
			}
		}
	}
	if _, ok := NewWeightedSum("Q8_0", nil, 1); ok {
		t.Error("there are sums of Q8_0")
	}
}

// TestWeightedSumRounds holds the rules that the specification is for: fused steps, one rounding to
// the type, ties to even, and one NaN.
func TestWeightedSumRounds(t *testing.T) {
	for _, x := range []struct {
		dtype   string
		weights []float32
		by      float32
		in      []uint32
		want    uint32
	}{
		{"F32", []float32{0.5, 0.25}, 0.75, []uint32{0x3F800000, 0x40800000}, 0x40000000},   // (0.5 + 1) / 0.75
		{"F32", []float32{1, 1 + 0x1p-12}, 1, []uint32{0xBF801000, 0x3F800800}, 0x33800000}, // -(1+2^-11) + (1+2^-12)^2 = 2^-24, which a product that is rounded loses
		{"F32", []float32{1}, 1, []uint32{0xFFC12345}, 0x7FC00000},                          // NaN
		{"F16", []float32{1}, 1, []uint32{0xFE01}, 0x7E00},                                  //
		{"BF16", []float32{1}, 1, []uint32{0xFFC1}, 0x7FC0},                                 //
		{"BF16", []float32{1, 1}, 1, []uint32{0x3F80, 0x3B80}, 0x3F80},                      // 1 + 2^-8 is half-way
		{"BF16", []float32{1, 1}, 1, []uint32{0x3F81, 0x3B80}, 0x3F82},                      //
		{"F16", []float32{1, 1}, 1, []uint32{0x3C00, 0x1000}, 0x3C00},                       // 1 + 2^-11
		{"F16", []float32{1, 1}, 1, []uint32{0x3C01, 0x1000}, 0x3C02},                       //
		{"F16", []float32{1, 1}, 1, []uint32{0x7BFF, 0x7BFF}, 0x7C00},                       // 131008
		{"F32", []float32{float32(math.Inf(1))}, 1, []uint32{0}, 0x7FC00000},                // inf * 0
		{"BF16", []float32{0.25, 0.25, 0.5}, 1, []uint32{0x3F80, 0x4000, 0x4040}, 0x4010},   // 2.25
	} {
		s, _ := NewWeightedSum(x.dtype, x.weights, x.by)
		const n = 33 // of a whole run and an end
		in := make([][]byte, len(x.in))
		var want []byte
		for range n {
			var b [4]byte
			for i, bits := range x.in {
				binary.LittleEndian.PutUint32(b[:], bits)
				in[i] = append(in[i], b[:s.bytes]...)
			}
			binary.LittleEndian.PutUint32(b[:], x.want)
			want = append(want, b[:s.bytes]...)
		}
		got := make([]byte, len(want))
		if s.Make(got, in); !bytes.Equal(got, want) {
			t.Errorf("%s, weights %v by %v of %x: got %x, want %x", x.dtype, x.weights, x.by, x.in, got, want[:4])
		}
	}
}
