package measure

import (
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
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
