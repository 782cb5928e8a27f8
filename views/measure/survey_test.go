package measure

import (
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/tensorfs/tensorfs"
)

func floats(values []float32) tensorfs.Data {
	b := make([]byte, 0, 4*len(values))
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return tensorfs.Bytes(b)
}

// TestSurvey compares with plain sums over all numbers at once.
func TestSurvey(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, shape := range [][2]int64{{3, 7}, {70, 33}, {5, 64}, {2000, 1100}, {1, 500}, {900, 1}, {0, 0}} {
		rows, cols := shape[0], shape[1]
		values := make([]float32, rows*cols)
		for i := range values {
			values[i] = float32(random.NormFloat64())
			if cols > 5 && int64(i)%cols == 5 {
				values[i] *= 20
			}
		}
		if len(values) > 100 {
			values[3], values[4], values[9] = 0, float32(math.NaN()), float32(math.Inf(1))
		}
		list := []Surveyed{{Numbers{DType: tensorfs.F32, Data: floats(values)}, rows, cols}}
		got, err := Survey(context.Background(), list, nil)
		if err != nil {
			t.Fatal(err)
		}
		p := got[0]
		var sum, square, four, n float64
		var bins [61]int64
		columns := make([]float64, cols)
		for i, v := range values {
			x := float64(v)
			if x-x != 0 {
				continue
			}
			n++
			sum, square, four = sum+x, square+x*x, four+x*x*x*x
			columns[int64(i)%cols] += x * x
		}
		rms := math.Sqrt(square / n)
		for _, v := range values {
			if at := float64(v)/rms*61/12 + 30.5; at >= 0 && at < 61 {
				bins[int(at)]++
			}
		}
		near := func(what string, got, want float64) {
			if n > 0 && math.Abs(got-want) > 1e-9*(1+math.Abs(want)) {
				t.Errorf("%v: %s is %g, want %g", shape, what, got, want)
			}
		}
		near("mean", p.Mean, sum/n)
		near("rms", p.RMS, rms)
		near("kurtosis", p.Kurtosis, four*n/(square*square))
		if p.Count != rows*cols || p.Count-p.NonFinite != int64(n) || p.Bins != bins && n > 0 {
			t.Errorf("%v: %+v", shape, p)
		}
		if rows > 1 && cols > 1 {
			if len(p.Columns) == 0 || cols > 5 && p.Columns[0].Index != 5 {
				t.Errorf("%v: columns %v", shape, p.Columns)
			}
			slices.Sort(columns)
		}
		if whole := cols%32 == 0 && p.NonFinite == 0 && n > 0; whole == math.IsNaN(p.Q4) || whole && (p.Q4 < 0.01 || p.Q4 > 0.5 || p.Q8 > p.Q4/4) {
			t.Errorf("%v: Q4_0 changes %g, Q8_0 %g", shape, p.Q4, p.Q8)
		}
	}
}

// reads is Data that counts what is read of it.
type reads struct {
	tensorfs.Data
	n *atomic.Int64
}

func (r reads) ReadAt(b []byte, off int64) (int, error) {
	r.n.Add(int64(len(b)))
	return r.Data.ReadAt(b, off)
}

// TestSurveyReads: numbers that are no more exact than F16 or BF16 are read once, others twice,
// and the bins are the same.
func TestSurveyReads(t *testing.T) {
	const rows, cols = 1100, 1024 // two stretches
	for _, test := range []struct {
		name  string
		times int64
		n     int
		of    func(i int, v float32) float32
	}{
		{"BF16", 1, rows, func(_ int, v float32) float32 { return math.Float32frombits(math.Float32bits(v) &^ finerBF16) }},
		{"F16", 1, rows, func(_ int, v float32) float32 { return math.Float32frombits(math.Float32bits(v) &^ finer) }},
		{"BF16, then F16", 1, rows, func(i int, v float32) float32 {
			if i < rows*cols/4 {
				return float32(int(v))
			}
			return math.Float32frombits(math.Float32bits(v) &^ finer)
		}},
		{"F32", 2, rows, func(_ int, v float32) float32 { return v }},
		{"one F32", 2, rows, func(i int, v float32) float32 {
			if i == rows*cols-1 {
				return 1.0000001
			}
			return float32(int(v))
		}},
		{"with infinities", 1, rows, func(i int, v float32) float32 {
			if i%5000 == 7 {
				v = float32(math.Inf(i%2*2 - 1))
			}
			return math.Float32frombits(math.Float32bits(v) &^ finer)
		}},
		{"few", 2, 8, func(_ int, v float32) float32 { return float32(int(v)) }},
	} {
		random := rand.New(rand.NewPCG(11, 12))
		values := make([]float32, test.n*cols)
		var square, n float64
		for i := range values {
			values[i] = test.of(i, float32(random.NormFloat64()))
			if v := float64(values[i]); v-v == 0 {
				square, n = square+v*v, n+1
			}
		}
		var read atomic.Int64
		var told atomic.Int64
		data := reads{floats(values), &read}
		got, err := Survey(context.Background(), []Surveyed{{Numbers{DType: tensorfs.F32, Data: data}, int64(test.n), cols}}, func(n int64) { told.Add(n) })
		if err != nil {
			t.Fatal(err)
		}
		var want [61]int64
		for _, v := range values {
			if at := float64(v)/math.Sqrt(square/n)*61/12 + 30.5; at >= 0 && at < 61 {
				want[int(at)]++
			}
		}
		if got[0].Bins != want || math.Abs(got[0].RMS-math.Sqrt(square/n)) > 1e-12 {
			t.Errorf("%s: bins %v of RMS %v, want %v of %v", test.name, got[0].Bins, got[0].RMS, want, math.Sqrt(square/n))
		}
		if size := data.Size(); read.Load() != test.times*size || told.Load() != 2*size {
			t.Errorf("%s: %d bytes of %d were read, and %d told", test.name, read.Load(), size, told.Load())
		}
	}
}

// TestSurveyLosses: the loss of quantising covers only whole blocks with finite scales.
func TestSurveyLosses(t *testing.T) {
	large := func(i int) float32 { return 1e9 * float32(i+1) }
	for name, of := range map[string]func(i int) float32{
		"ones":  func(i int) float32 { return 1 },
		"large": large, // d is no finite half
		"NaN":   func(i int) float32 { return []float32{1, float32(math.NaN())}[i/64%2] },
	} {
		values := make([]float32, 64*96)
		for i := range values {
			values[i] = of(i)
		}
		got, err := Survey(context.Background(), []Surveyed{{Numbers{DType: tensorfs.F32, Data: floats(values)}, 64, 96}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if p := got[0]; math.IsNaN(p.Q4) == (name == "ones") || math.IsNaN(p.Q8) == (name == "ones") {
			t.Errorf("%s: Q4_0 changes %v, Q8_0 %v", name, p.Q4, p.Q8)
		}
	}
}
