package kernel

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestFused compares fma with exact arithmetic, on sums that are near half-way between two
// F32 above all.
func TestFused(t *testing.T) {
	exact := func(x, y, z float32) float32 {
		wide := func(v float32) *big.Float { return new(big.Float).SetPrec(400).SetFloat64(float64(v)) }
		p := wide(x)
		p.Mul(p, wide(y)).Add(p, wide(z))
		f, _ := p.Float32()
		return f
	}
	random := rand.New(rand.NewPCG(1, 2))
	number := func(low, high int) float32 {
		x := math.Ldexp(1+random.Float64(), low+random.IntN(high-low))
		if random.IntN(2) == 0 {
			x = -x
		}
		return float32(x)
	}
	double := 0
	for i := range 2_000_000 {
		x, y, z := number(-20, 20), number(-20, 20), number(-60, 60)
		switch i % 4 {
		case 1: // half-way between two F32, but for a rest far below
			a := float64(1+random.IntN(300)) * 0x1p-23
			x, y = float32(math.Ldexp(1+a, -12)), float32(math.Ldexp(1-a, -12))
			z = float32(1 + float64(random.IntN(1<<23))*0x1p-23)
			if random.IntN(2) == 0 {
				z = -z
			}
		case 2: // below the normal range
			x, y, z = number(-75, -65), number(-75, -62), number(-149, -120)
		case 3:
			x, y, z = number(-1, 1), number(-26, -22), number(-1, 1)
		}
		got, want := fma(x, y, z), exact(x, y, z)
		if got != want {
			t.Fatalf("fma(%b, %b, %b) = %b, want %b", x, y, z, got, want)
		}
		if float32(float64(x)*float64(y)+float64(z)) != want {
			double++
		}
	}
	if double == 0 {
		t.Error("no sum was one that two roundings make wrong")
	}
}

// TestElements compares the arithmetic of this machine with plain Go, at every length of a
// ragged end and with every kind of number.
func TestElements(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	bits := []uint32{0, 1 << 31, 1, 0x7F7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00001, 0x7F800001, 0x3F808000, 0x3F818000, 0x3F807FFF,
		0x387FC000, 0x33000000, 0x33000001, 0x33800000, 0x477FE000, 0x477FF000, 0x477FEFFF, 0x00800000, 0x007FFFFF, 0x7F7F8000}
	fill := func(n int) []byte {
		p := make([]byte, 4*n)
		for i := range n {
			x := bits[random.IntN(len(bits))]
			if random.IntN(2) == 0 {
				x = math.Float32bits(float32(math.Ldexp(random.Float64()*2-1, random.IntN(60)-30)))
			}
			binary.LittleEndian.PutUint32(p[4*i:], x)
		}
		return p
	}
	by := float32(0.3)
	ops := map[string]struct {
		run func(dst, src []byte)
		one func(d, s float32) float32
	}{
		"add":      {Add, func(d, s float32) float32 { return d + s }},
		"subtract": {Subtract, func(d, s float32) float32 { return d - s }},
		"multiply": {func(d, _ []byte) { Multiply(d, by) }, func(d, _ float32) float32 { return d * by }},
		"divide":   {func(d, _ []byte) { Divide(d, by) }, func(d, _ float32) float32 { return d / by }},
		"divide each": {DivideEach, func(d, s float32) float32 {
			if s == 0 {
				return d
			}
			return d / s
		}},
		"keep larger": {func(d, _ []byte) { KeepLarger(d, 0x3F7FFFFF) }, func(d, _ float32) float32 {
			if d != d || math.Abs(float64(d)) >= 1 {
				return d
			}
			return 0
		}},
		"keep all": {func(d, _ []byte) { KeepLarger(d, -1) }, func(d, _ float32) float32 { return d }},
		"elect": {func(d, s []byte) { Elect(d, bytes.Clone(d), s, bytes.Repeat([]byte{0, 0, 0x80, 0xBF}, len(d)/4), 1) }, func(d, s float32) float32 {
			if !(s < 0) {
				s = 0
			}
			return d + s
		}},
		"F16":  {func(d, _ []byte) { Roundings["F16"](d) }, func(d, _ float32) float32 { return roundF16(d) }},
		"BF16": {func(d, _ []byte) { Roundings["BF16"](d) }, func(d, _ float32) float32 { return roundBF16(d) }},
		"F32":  {func(d, _ []byte) { Roundings["F32"](d) }, func(d, _ float32) float32 { return d }},
	}
	for name, op := range ops {
		for n := range 200 {
			dst, src := fill(n), fill(n)
			want := slices.Clone(dst)
			for i := 0; i < len(want); i += 4 {
				d := getSingle(want[i:])
				if y := op.one(d, getSingle(src[i:])); d != d || y != y {
					binary.LittleEndian.PutUint32(want[i:], 0x7FC0_0000)
				} else {
					putSingle(want[i:], y)
				}
			}
			op.run(dst, src)
			Roundings["F32"](dst)
			if !bytes.Equal(dst, want) {
				t.Fatalf("%s of %d numbers: got %x, want %x", name, n, dst, want)
			}
		}
	}
}

// TestElect compares what is added, and the weights, with the specification, for signs of every kind.
func TestElect(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	values := []float32{0, float32(math.Copysign(0, -1)), 1, -1, 2.5, -2.5, 1e-45, -1e-45, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN())}
	fill := func(n int) (p []byte) {
		for range n {
			p = binary.LittleEndian.AppendUint32(p, math.Float32bits(values[random.IntN(len(values))]))
		}
		return p
	}
	for n := range 200 {
		src, signs, sums, weights := fill(n), fill(n), make([]byte, 4*n), make([]byte, 4*n)
		Elect(sums, weights, src, signs, 0.5)
		Elect(sums, weights, src, signs, -0.25)
		for i := 0; i < 4*n; i += 4 {
			x, sign, sum, weight := getSingle(src[i:]), float32(-1), float32(0), float32(0)
			if getSingle(signs[i:]) >= 0 {
				sign = 1
			}
			if x*sign > 0 {
				sum, weight = x+x, 0.25
			}
			if getSingle(sums[i:]) != sum || getSingle(weights[i:]) != weight {
				t.Fatalf("%v with %v: sum %v and weight %v, want %v and %v", x, getSingle(signs[i:]), getSingle(sums[i:]), getSingle(weights[i:]), sum, weight)
			}
		}
	}
}
