package kernel

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// plainLowRank is LowRank.Add by the specification only.
func plainLowRank(m *LowRank, dst []byte, row, rows, column, n int) {
	for o := range rows {
		m.addRow(dst[4*o*n:][:4*n], row+o, column)
	}
}

func randomLowRank(r *rand.Rand, rows, columns, rank int, special bool) *LowRank {
	return &LowRank{randomFloats(r, rows*rank, special), AppendPanels(nil, randomFloats(r, rank*columns, special), rank, columns), rank, float32(r.NormFloat64())}
}

func randomFloats(r *rand.Rand, n int, special bool) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(r.NormFloat64())
		if special && r.IntN(5) == 0 {
			out[i] = math.Float32frombits(r.Uint32())
		}
	}
	return out
}

func floatBytes(v []float32) (b []byte) {
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

// The kernels of a processor give the bits of the specification for every rank, offset and number
// of rows and columns, also for NaN and infinities.
func TestLowRank(t *testing.T) { testLowRank(t) }

func testLowRank(t *testing.T) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	for _, special := range []bool{false, true} {
		for _, rank := range []int{1, 2, 3, 8, 16, 65} {
			for _, shape := range [][2]int{{1, 7}, {1, 8}, {3, 9}, {4, 16}, {5, 33}, {9, 130}, {21, 43}, {6, 70}} {
				rows, columns := shape[0], shape[1]
				m := randomLowRank(r, rows, columns, rank, special)
				base := floatBytes(randomFloats(r, rows*columns, special))
				for _, column := range []int{0, 1, 6, 31, 32, 33, 64} {
					if column >= columns {
						continue
					}
					for row := range rows {
						n, count := columns-column, rows-row
						var got []byte
						for o := range count {
							got = append(got, base[4*((row+o)*columns+column):][:4*n]...)
						}
						want := bytes.Clone(got)
						m.Add(got, row, count, column, n)
						plainLowRank(m, want, row, count, column, n)
						if !bytes.Equal(got, want) {
							t.Fatalf("rank %d of %dx%d, from %d, %d: other bits than the specification", rank, rows, columns, row, column)
						}
					}
				}
			}
		}
	}
}

// The specification is the exact sum of the products, rounded to F64 on the way only where
// that changes no F32.
func TestLowRankIsExact(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	const rank, columns = 16, 64
	right := randomFloats(r, rank*columns, false)
	m := &LowRank{randomFloats(r, rank, false), AppendPanels(nil, right, rank, columns), rank, 1.25}
	base := randomFloats(r, columns, false)
	dst := floatBytes(base)
	m.Add(dst, 0, 1, 0, columns)
	for i := range columns {
		sum := new(big.Float).SetPrec(2000)
		for k := range rank {
			p := new(big.Float).SetPrec(2000).SetFloat64(float64(m.Left[k]))
			sum.Add(sum, p.Mul(p, new(big.Float).SetFloat64(float64(right[k*columns+i]))))
		}
		d, _ := sum.Float32()
		want := base[i] + float32(d*m.Factor)
		if got := math.Float32frombits(binary.LittleEndian.Uint32(dst[4*i:])); got != want {
			t.Errorf("column %d: %v, want %v", i, got, want)
		}
	}
}

// Lengths and products of rows have the bits of the specification for every number of columns, also
// for NaN and infinities.
func TestRowLengths(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for n := range 70 {
		for _, special := range []bool{false, true} {
			row := floatBytes(randomFloats(r, n, special))
			var sums [4]float64
			addFours(&sums, row)
			want := math.Sqrt((sums[0] + sums[1]) + (sums[2] + sums[3]))
			if got := Norm(row); got != want && !(got != got && want != want) {
				t.Errorf("the length of %d numbers is %v, want %v", n, got, want)
			}
			factor, plain := r.NormFloat64(), bytes.Clone(row)
			MultiplyDouble(row, factor)
			multiplyDouble(plain, factor)
			if !bytes.Equal(row, plain) {
				t.Errorf("%d numbers times %v: other bits than the specification", n, factor)
			}
		}
	}
}

func TestNorm(t *testing.T) {
	if n := Norm(floatBytes([]float32{1, 2, 2, 0, 4})); n != 5 {
		t.Errorf("the length of 1, 2, 2, 0, 4 is %v", n)
	}
	b := floatBytes([]float32{1, float32(math.NaN()), -3})
	MultiplyDouble(b, 2)
	if want := floatBytes([]float32{2, math.Float32frombits(quietNaN), -6}); !bytes.Equal(b, want) {
		t.Errorf("% x, want % x", b, want)
	}
	sums := []float64{1, 2}
	AddSquares(sums, floatBytes([]float32{3, -4}))
	if sums[0] != 10 || sums[1] != 18 {
		t.Errorf("sums of squares: %v", sums)
	}
}

func BenchmarkLowRank(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, rank := range []int{8, 16, 64} {
		const rows, columns = 16, 4096
		m := randomLowRank(r, rows, columns, rank, false)
		dst := floatBytes(randomFloats(r, rows*columns, false))
		for name, add := range map[string]func(){
			"native": func() { m.Add(dst, 0, rows, 0, columns) },
			"go":     func() { plainLowRank(m, dst, 0, rows, 0, columns) },
		} {
			b.Run(fmt.Sprintf("r%d/%s", rank, name), func(b *testing.B) {
				b.SetBytes(int64(len(dst)))
				b.ReportAllocs()
				for b.Loop() {
					add()
				}
			})
		}
	}
}
