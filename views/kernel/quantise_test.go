package kernel

import (
	"encoding/binary"
	"flag"
	"math"
	"math/rand/v2"
	"testing"
)

var superBlocks = flag.Int("superblocks", 1500, "how many times 256 numbers of every kind of distribution, all kinds together, are quantised by all implementations")

// distributions fill numbers that quantising is hard for, around a scale.
var distributions = []func(r *rand.Rand, x []float32, scale float64){
	func(r *rand.Rand, x []float32, scale float64) { // normal
		for i := range x {
			x[i] = float32(scale * r.NormFloat64())
		}
	},
	func(r *rand.Rand, x []float32, scale float64) { // normal as BF16
		for i := range x {
			x[i] = math.Float32frombits(math.Float32bits(float32(scale*r.NormFloat64())) &^ 0xFFFF)
		}
	},
	func(r *rand.Rand, x []float32, scale float64) { // heavy tails
		for i := range x {
			x[i] = float32(scale * r.NormFloat64() / (1e-4 + math.Abs(r.NormFloat64())))
		}
	},
	func(r *rand.Rand, x []float32, scale float64) { // one sign
		for i := range x {
			x[i] = float32(scale * math.Abs(r.NormFloat64()))
		}
	},
	func(r *rand.Rand, x []float32, scale float64) { // a narrow band off zero
		scale *= float64(2*r.IntN(2) - 1)
		width := math.Ldexp(1, -r.IntN(26))
		for i := range x {
			x[i] = float32(scale * (1 + r.Float64()*width))
		}
	},
	func(r *rand.Rand, x []float32, scale float64) { // a narrow band, and a few numbers far from it
		scale *= float64(2*r.IntN(2) - 1)
		width := math.Ldexp(1, -r.IntN(26))
		for i := range x {
			if x[i] = float32(scale * (1 + r.Float64()*width)); r.IntN(24) == 0 {
				x[i] *= float32(math.Ldexp(1, r.IntN(30)))
			}
		}
	},
	func(r *rand.Rand, x []float32, scale float64) { // one sign, all magnitudes
		scale *= float64(2*r.IntN(2) - 1)
		for i := range x {
			x[i] = float32(scale * math.Exp2(-40*r.Float64()))
		}
	},
	func(r *rand.Rand, x []float32, scale float64) { // constant, mostly
		v := float32(scale * r.NormFloat64())
		for i := range x {
			if x[i] = v; r.IntN(300) == 0 {
				x[i] = -v
			}
		}
	},
	func(r *rand.Rand, x []float32, _ float64) { // zeros of both signs
		for i := range x {
			x[i] = math.Float32frombits(r.Uint32() & (1 << 31))
		}
	},
	func(r *rand.Rand, x []float32, scale float64) { // few magnitudes, so ties
		for i := range x {
			x[i] = float32(scale) * float32(r.IntN(9)-4) / 2
		}
	},
	func(r *rand.Rand, x []float32, scale float64) { // on the grid of a type
		most := 1 << r.IntN(8)
		for i := range x {
			x[i] = float32(scale) * float32(r.IntN(2*most+1)-most)
		}
	},
	func(r *rand.Rand, x []float32, scale float64) { // sparse
		for i := range x {
			if x[i] = 0; r.IntN(20) == 0 {
				x[i] = float32(scale * r.NormFloat64())
			}
		}
	},
	func(r *rand.Rand, x []float32, scale float64) { // parts of other magnitudes
		for i := range x {
			if i%16 == 0 {
				scale *= math.Ldexp(1, r.IntN(9)-4)
			}
			x[i] = float32(scale * r.NormFloat64())
		}
	},
	func(r *rand.Rand, x []float32, _ float64) { // subnormal numbers
		for i := range x {
			x[i] = math.Float32frombits(r.Uint32() & 0x807F_FFFF >> r.IntN(2))
		}
	},
	func(r *rand.Rand, x []float32, scale float64) { // some that are not finite
		for i := range x {
			if x[i] = float32(scale * r.NormFloat64()); r.IntN(200) == 0 {
				x[i] = math.Float32frombits([]uint32{0x7F80_0000, 0xFF80_0000, 0x7FC0_0000, 0xFFC0_0000}[r.IntN(4)])
			}
		}
	},
	func(r *rand.Rand, x []float32, _ float64) { // any finite bits
		for i := range x {
			for x[i] = math.Float32frombits(r.Uint32()); x[i]-x[i] != 0; {
				x[i] = math.Float32frombits(r.Uint32())
			}
		}
	},
}

// randomScale is a scale as weights have, or any F32, or almost zero.
func randomScale(r *rand.Rand) float64 {
	switch r.IntN(5) {
	case 0:
		return math.Ldexp(1+r.Float64(), r.IntN(250)-125)
	case 1:
		return 1e-15 * (0.5 + r.Float64())
	case 2:
		return math.Ldexp(1, r.IntN(40)-30)
	}
	return 0.02
}

// randomImportance fills in how much columns count: evenly or not, some not at all, or all hardly.
func randomImportance(r *rand.Rand, w []float32) {
	scale, kind := math.Ldexp(1, r.IntN(80)-50), r.IntN(4)
	if kind == 3 {
		scale = 0
	}
	for i := range w {
		switch w[i] = float32(scale); kind {
		case 0, 1:
			w[i] *= float32(r.ExpFloat64())
		}
		if kind == 1 && r.IntN(8) == 0 {
			w[i] = 0
		}
	}
}

// TestQuantisersAgree quantises random numbers by all implementations, which have to give the bytes of plain Go.
func TestQuantisersAgree(t *testing.T) {
	if accelerated() == nil {
		t.Skip("plain Go is all there is")
	}
	const at = 5 * 256 // numbers at a time: rows of five super-blocks
	for _, e := range encoderTypes {
		encode, weigh := accelerated().encoders[encoderKey{e.Name, "F32"}], accelerated().weighers[e.Name]
		if encode == nil && weigh == nil {
			continue
		}
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(51, uint64(e.Bytes)))
			x, importance := make([]float32, at), make([]float32, at)
			src := make([]byte, 4*at)
			want, got := make([]byte, at/e.Elems*e.Bytes), make([]byte, at/e.Elems*e.Bytes)
			compare := func(kind int, weighted string) {
				t.Helper()
				if i := firstDifference(got, want); i >= 0 {
					i /= e.Bytes
					t.Fatalf("distribution %d%s, block %d of %v is\n% x, want\n% x", kind, weighted, i, x[i*e.Elems:][:e.Elems], got[i*e.Bytes:][:e.Bytes], want[i*e.Bytes:][:e.Bytes])
				}
			}
			for done := 0; done < *superBlocks; done += at / 256 {
				kind := done / (at / 256) % (len(distributions) + 1)
				for b := 0; b < at; b += 256 {
					of := kind
					if kind == len(distributions) { // neighbours of other kinds
						of = r.IntN(len(distributions))
					}
					distributions[of](r, x[b:][:256], randomScale(r))
				}
				for i, v := range x {
					binary.LittleEndian.PutUint32(src[4*i:], math.Float32bits(v))
				}
				if encode != nil {
					n := r.IntN(at/e.Elems + 1) // any number of blocks
					if r.IntN(2) == 0 {
						n = at / e.Elems
					}
					clear(want)
					clear(got)
					e.Encode(want[:n*e.Bytes], src[:4*n*e.Elems])
					encode(got[:n*e.Bytes], src[:4*n*e.Elems])
					compare(kind, "")
				}
				if weigh != nil {
					randomImportance(r, importance)
					row := importance[:[]int{at, at / 5}[r.IntN(2)]]
					e.Weigh(want, src, row)
					weigh(got, src, row)
					compare(kind, " weighed")
				}
			}
		})
	}
}

// BenchmarkQuantise measures quantisers on normal numbers, without and with an importance matrix; MB/s count the
// numbers as BF16.
func BenchmarkQuantise(b *testing.B) {
	r := rand.New(rand.NewPCG(53, 54))
	const n = 64 * 256
	x, importance := make([]float32, n), make([]float32, n)
	distributions[1](r, x, 0.02)
	for i := range importance {
		importance[i] = float32(r.ExpFloat64())
	}
	src := singlesOf([][]float32{x})
	for _, e := range encoderTypes {
		dst := make([]byte, n/e.Elems*e.Bytes)
		for _, impl := range implementations() {
			if encode := impl.encoders[encoderKey{e.Name, "F32"}]; encode != nil {
				b.Run(e.Name+"/"+impl.name, func(b *testing.B) {
					b.SetBytes(2 * n)
					for b.Loop() {
						encode(dst, src)
					}
				})
			}
			if weigh := impl.weighers[e.Name]; weigh != nil {
				b.Run(e.Name+"/weighed/"+impl.name, func(b *testing.B) {
					b.SetBytes(2 * n)
					for b.Loop() {
						weigh(dst, src, importance)
					}
				})
			}
		}
	}
}
