package kernel

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestPowers holds all implementations to plain Go's bits, and plain Go to sums that are added up one by one, for every
// length and place in memory.
func TestPowers(t *testing.T) {
	for n := range 70 {
		for from := range 4 {
			b, _ := floatsOf(uint64(n), n)
			b = append(make([]byte, from, from+len(b)), b...)[from:]
			p, plain := NewPowers(), NewPowers()
			columns := make([]float64, n)
			for i := range columns {
				columns[i] = float64(i)
			}
			plainColumns := slices.Clone(columns)
			for range 2 { // sums go on
				p.Add(b, columns)
				plain.add(b, plainColumns)
			}
			if p != plain || !slices.Equal(columns, plainColumns) {
				t.Fatalf("%d numbers: %v, and in plain Go %v", n, p, plain)
			}
			var sum, square, four float64
			least, most, zeros, any := math.Inf(1), math.Inf(-1), int64(0), uint32(0)
			for i := range n {
				v := float64(numberF32(b[4*i:]))
				sum, square, four = sum+2*v, square+2*v*v, four+2*v*v*v*v
				least, most = min(least, v+0), max(most, v+0)
				any |= binary.LittleEndian.Uint32(b[4*i:])
				if v == 0 {
					zeros += 2
				}
				if want := float64(i) + 2*v*v; math.Abs(columns[i]-want) > 1e-12*want {
					t.Errorf("column %d of %d: %v, want %v", i, n, columns[i], want)
				}
			}
			near := func(what string, got, want, of float64) {
				if math.Abs(got-want) > 1e-12*of {
					t.Errorf("%d numbers: %s is %v, want %v", n, what, got, want)
				}
			}
			near("sum", p.Sum(), sum, math.Sqrt(square*float64(n)))
			near("square", p.Square(), square, square)
			near("four", p.Four(), four, four)
			if float64(p.Least()) != least || float64(p.Most()) != most || p.Zeros() != zeros || p.Any() != any || p.NonFinite() != 0 {
				t.Errorf("%d numbers: %v to %v, %d zeros, bits %x, %d not finite; want %v to %v, %d zeros, bits %x", n,
					p.Least(), p.Most(), p.Zeros(), p.Any(), p.NonFinite(), least, most, zeros, any)
			}
		}
	}
}

// NaN and infinities are counted, and change no sum, at every offset.
func TestPowersNotFinite(t *testing.T) {
	const n = 23
	for _, bits := range []uint32{0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00001, 0x7F800001} {
		for i := range n {
			b, _ := floatsOf(uint64(i), n)
			binary.LittleEndian.PutUint32(b[4*i:], bits)
			p, plain := NewPowers(), NewPowers()
			columns, plainColumns := make([]float64, n), make([]float64, n)
			p.Add(b, columns)
			plain.add(b, plainColumns)
			if p != plain || !slices.Equal(columns, plainColumns) {
				t.Errorf("%#x as number %d: %v, and in plain Go %v", bits, i, p, plain)
			}
			binary.LittleEndian.PutUint32(b[4*i:], 0)
			zero := NewPowers()
			zero.Add(b, make([]float64, n))
			if p.NonFinite() != 1 || p.Sum() != zero.Sum() || p.Square() != zero.Square() || p.Four() != zero.Four() || columns[i] != 0 || p.Zeros() != zero.Zeros()-1 {
				t.Errorf("%#x as number %d: %v", bits, i, p)
			}
		}
	}
	p := NewPowers()
	huge := binary.LittleEndian.AppendUint32(nil, math.Float32bits(math.MaxFloat32))
	for range 8 {
		p.Add(huge, make([]float64, 1))
	}
	if f := p.Four(); f-f != 0 || f == 0 {
		t.Errorf("the sum of large fourth powers is %v", f)
	}
}

// lossBlocks are blocks that quantisers find hard: see the comments.
func lossBlocks() (b []byte) {
	r := rand.New(rand.NewPCG(8, 9))
	block := func(f func(i int) float32) {
		for i := range 32 {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f(i)))
		}
	}
	normal := func(i int) float32 { return float32(r.NormFloat64()) }
	block(normal)
	block(func(int) float32 { return 0 })
	block(func(int) float32 { return float32(math.Copysign(0, -1)) })
	block(func(i int) float32 { return float32(1 - 2*(i&1)) }) // the largest of both signs
	block(func(i int) float32 { return float32(2*(i&1) - 1) })
	for _, e := range []int{-149, -126, -110, -97, -96, -95, -30, -24, 15, 17, 18, 19, 100, 127} { // scales that halves lack
		block(func(i int) float32 { return float32(math.Ldexp(r.Float64()-0.5, e)) })
	}
	for i := range 32 { // only the largest, at every offset
		for _, sign := range []float32{1, -1} {
			block(func(j int) float32 {
				if j == i {
					return 3 * sign
				}
				return normal(j) / 8
			})
		}
	}
	for k := range 256 { // halves of codes, which are rounded
		block(func(i int) float32 { return []float32{127, 8}[k&1] * float32(k*32+i-4096) / 4096 })
	}
	block(func(i int) float32 { return []float32{1, float32(math.NaN())}[i/31] })
	block(func(i int) float32 { return []float32{1, float32(math.Inf(-1))}[i/31] })
	block(normal)
	return b
}

// TestLosses holds that all implementations give plain Go's bits, for one row and for several, and that plain Go
// measures the difference between what an Encoder wrote and a Decoder reads.
func TestLosses(t *testing.T) {
	all := lossBlocks()
	same := func(a, b *[4]float64) bool {
		for i := range a {
			if a[i] != b[i] && (a[i] == a[i] || b[i] == b[i]) {
				return false
			}
		}
		return true
	}
	for at := 0; at < len(all); at += 128 {
		for n := 128; n <= 384 && at+n <= len(all); n += 128 {
			for from := range 4 {
				b := append(make([]byte, from, from+n), all[at:at+n]...)[from:]
				var l, plain Losses
				l.Add(b)
				for i := 0; i < n; i += 128 {
					plain.add(b[i:][:128])
				}
				if !same(&l.q4, &plain.q4) || !same(&l.q8, &plain.q8) {
					t.Fatalf("%d bytes from block %d: %v, and in plain Go %v", n, at/128, l, plain)
				}
				for _, q := range []struct {
					name string
					got  float64
				}{{"Q4_0", l.Q4()}, {"Q8_0", l.Q8()}} {
					e, _ := LookupEncoder(q.name)
					d, _ := Single.Lookup(q.name)
					codes, back := make([]byte, n/128*e.Bytes), make([]byte, n)
					e.Encode(codes, b)
					d.Decode(back, codes)
					want := 0.0
					for i := 0; i < n; i += 4 {
						v := float64(numberF32(b[i:])) - float64(numberF32(back[i:]))
						want += v * v
					}
					if finite := want-want == 0; finite != (q.got-q.got == 0) || finite && math.Abs(q.got-want) > 1e-6*want {
						t.Errorf("%s changes %d bytes from block %d by %v, want %v", q.name, n, at/128, q.got, want)
					}
				}
			}
		}
	}
}

func BenchmarkPowers(b *testing.B) {
	x, _ := floatsOf(1, 1024)
	normal := floatBytes(randomFloats(rand.New(rand.NewPCG(1, 2)), 1024, false))
	columns := make([]float64, 1024)
	for _, k := range []struct {
		name string
		run  func()
	}{
		{"powers/best", func() { p := NewPowers(); p.Add(x, columns) }},
		{"powers/go", func() { p := NewPowers(); p.add(x, columns) }},
		{"losses/best", func() { var l Losses; l.Add(normal) }},
		{"losses/go", func() {
			var l Losses
			for i := 0; i < len(normal); i += 128 {
				l.add(normal[i:][:128])
			}
		}},
	} {
		b.Run(k.name, func(b *testing.B) {
			b.SetBytes(int64(len(x)))
			b.ReportAllocs()
			for b.Loop() {
				k.run()
			}
		})
	}
}
