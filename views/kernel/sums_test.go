package kernel

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
)

// floatsOf returns n random numbers of about that size as F32, some of them 0, and with two runs of repeated
// numbers.
func floatsOf(seed uint64, n int) (x, y []byte) {
	r := rand.New(rand.NewPCG(seed, 7))
	for i := range n {
		v := float32(r.NormFloat64() * math.Pow(2, float64(r.IntN(40)-20)))
		w := float32(float64(v) * (1 + r.NormFloat64()/100))
		switch i % 7 {
		case 1:
			w = v
		case 2:
			v = float32(math.Copysign(0, r.NormFloat64()))
		case 3:
			w = 0
		}
		x = binary.LittleEndian.AppendUint32(x, math.Float32bits(v))
		y = binary.LittleEndian.AppendUint32(y, math.Float32bits(w))
	}
	return x, y
}

// TestSums holds all implementations to plain Go's bits, and plain Go to sums that are added up one by one.
func TestSums(t *testing.T) {
	for n := range 70 {
		x, y := floatsOf(uint64(n), n)
		shift := 0.25 * float64(n)
		m, plain := NewMoments(shift), NewMoments(shift)
		m.Add(x)
		plain.add(x)
		var d, plainD Distances
		d.Add(x, y)
		plainD.add(x, y)
		type sums struct {
			sum, squares float64
			least, most  float32
			zeros        int64
		}
		of := func(m *Moments) sums { return sums{m.Sum(), m.Squares(), m.Least(), m.Most(), m.Zeros()} }
		if of(&m) != of(&plain) {
			t.Errorf("%d numbers: %v, and in plain Go %v", n, of(&m), of(&plain))
		}
		if nx, ny := plainD.Norms(); d.most != plainD.most || d.sum != plainD.sum || d.squares != plainD.squares || d.x != plainD.x || d.y != plainD.y ||
			d.dot != plainD.dot || d.equal != plainD.equal || d.Largest() != plainD.Largest() || nx < 0 || ny < 0 {
			t.Errorf("%d pairs: %v, and in plain Go %v", n, d, plainD)
		}
		want, wantD := sums{least: float32(math.Inf(1)), most: float32(math.Inf(-1))}, map[string]float64{}
		for i := 0; i < len(x); i += 4 {
			v, w := numberF32(x[i:]), numberF32(y[i:])
			a, b := float64(v), float64(w)
			want.sum += a - shift
			want.squares += (a - shift) * (a - shift)
			want.least, want.most = min(want.least, v+0), max(want.most, v+0)
			if v == 0 {
				want.zeros++
			}
			wantD["most"] = max(wantD["most"], math.Abs(a-b))
			wantD["largest"] = max(wantD["largest"], math.Abs(a), math.Abs(b))
			wantD["sum"] += math.Abs(a - b)
			wantD["squares"] += (a - b) * (a - b)
			wantD["x"] += a * a
			wantD["y"] += b * b
			wantD["dot"] += a * b
			if v == w {
				wantD["equal"]++
			}
		}
		got := of(&m)
		near := func(a, b float64) bool { return math.Abs(a-b) <= 1e-12*max(math.Abs(a), math.Abs(b), want.squares) }
		if !near(got.sum, want.sum) || !near(got.squares, want.squares) || got.least != want.least || got.most != want.most || got.zeros != want.zeros {
			t.Errorf("%d numbers: %v, want %v", n, got, want)
		}
		nx, ny := d.Norms()
		for name, g := range map[string]float64{"most": d.Most(), "largest": float64(d.Largest()), "sum": d.Sum(), "squares": d.Squares(), "x": nx, "y": ny,
			"dot": d.Dot(), "equal": float64(d.Equal())} {
			if !near(g, wantD[name]) {
				t.Errorf("%d pairs: %s is %v, want %v", n, name, g, wantD[name])
			}
		}
	}
}

// TestSumsNotFinite holds that one number that is not finite is always noticed.
func TestSumsNotFinite(t *testing.T) {
	const n = 23
	for _, bits := range []uint32{0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00001, 0x7F800001} {
		for i := range n {
			x, y := floatsOf(uint64(i), n)
			same, _ := floatsOf(uint64(i), n)
			binary.LittleEndian.PutUint32(same[4*i:], bits)
			m := NewMoments(1)
			m.Add(same)
			if s := m.Sum(); s-s == 0 {
				t.Errorf("%#x as number %d: the sum is %v", bits, i, s)
			}
			for k, p := range [][2][]byte{{same, y}, {x, same}, {same, same}} {
				var d Distances
				if d.Add(p[0], p[1]); d.Finite() {
					t.Errorf("%#x as number %d of %d: finite", bits, i, k)
				}
			}
		}
	}
	m := NewMoments(0)
	huge := binary.LittleEndian.AppendUint32(nil, math.Float32bits(math.MaxFloat32))
	for range 100 {
		m.Add(huge)
	}
	if s := m.Sum(); s != 100*float64(float32(math.MaxFloat32)) {
		t.Errorf("the sum of large numbers is %v", s)
	}
}

func BenchmarkSums(b *testing.B) {
	x, y := floatsOf(1, 1024)
	for _, k := range []struct {
		name  string
		bytes int
		run   func()
	}{
		{"moments/best", len(x), func() { m := NewMoments(1); m.Add(x) }},
		{"moments/go", len(x), func() { m := NewMoments(1); m.add(x) }},
		{"distances/best", 2 * len(x), func() { var d Distances; d.Add(x, y) }},
		{"distances/go", 2 * len(x), func() { var d Distances; d.add(x, y) }},
	} {
		b.Run(k.name, func(b *testing.B) {
			b.SetBytes(int64(k.bytes))
			b.ReportAllocs()
			for b.Loop() {
				k.run()
			}
		})
	}
}
