package kernel

import (
	"encoding/binary"
	"math"
)

// LowRank is a matrix that is a product of a tall and a wide one, times a factor:
//
//	Factor * Left @ Right     Left [rows, Rank], row-major; Right [Rank, columns], as AppendPanels has it
//
// Its addition to F32 numbers is the same on every processor: products of two F32 are exact
// as F64, and their sum begins with 0 and goes up from the first, so that fusing changes
// nothing; the sum is rounded to F32, then its product with the factor, and then the sum of
// both. NaN is 0x7FC00000.
type LowRank struct {
	Left, Right []float32
	Rank        int
	Factor      float32
}

// panel is how many columns are added to at a time. Sums of four rows of a panel stay in registers, and the panel of the
// wide matrix in the processor's first cache, for all rows that are asked for.
const panel = 32

// PanelSize is how many numbers AppendPanels appends.
func PanelSize(rank, columns int) int { return rank * ((columns + panel - 1) / panel) * panel }

// AppendPanels appends a wide matrix, row-major, in an order in which it is read from its beginning to its end, 32 columns
// after the other; the last ones are filled up with zeros.
//
//	| k=0: columns 0-31 | k=1: columns 0-31 | .. | k=0: columns 32-63 | ..
func AppendPanels(dst, right []float32, rank, columns int) []float32 {
	for c := 0; c < columns; c += panel {
		end := min(c+panel, columns)
		for k := range rank {
			dst = append(dst, right[k*columns+c:k*columns+end]...)
			dst = append(dst, make([]float32, panel-(end-c))...)
		}
	}
	return dst
}

// Add adds the columns from one on of rows from one on to numbers: dst is rows of n F32,
// little-endian, row after row.
func (m *LowRank) Add(dst []byte, row, rows, column, n int) {
	if m.Rank == 0 || rows == 0 || n == 0 {
		return
	}
	dst = dst[:4*rows*n] // kernels do not look
	if len(lowRankKernels) > 0 {
		m.native(&lowRankKernels[0], dst, row, rows, column, n)
		return
	}
	for o := range rows {
		m.addRow(dst[4*o*n:][:4*n], row+o, column)
	}
}

// addRow is the specification of Add, for a row.
func (m *LowRank) addRow(dst []byte, row, column int) {
	var sums [panel]float64
	left := m.Left[row*m.Rank:][:m.Rank]
	for len(dst) > 0 {
		at := column % panel
		sum := sums[:min(panel-at, len(dst)/4)]
		clear(sum)
		right := m.Right[(column-at)*m.Rank:][:m.Rank*panel]
		for k, l := range left {
			r := right[k*panel+at:][:len(sum)]
			l := float64(l)
			for i := range sum {
				sum[i] += l * float64(r[i])
			}
		}
		for i, s := range sum {
			d := float32(float32(s) * m.Factor)
			v := math.Float32frombits(binary.LittleEndian.Uint32(dst[4*i:])) + d
			putQuiet(dst[4*i:], v)
		}
		dst, column = dst[4*len(sum):], column+len(sum)
	}
}

// Norm returns the square root of the sum of the squares of F32 numbers, as F64: squares of
// every fourth number are added up, the first with the second of these sums, the third with
// the fourth, and then both.
func Norm(src []byte) float64 {
	var sums [4]float64
	addFours(&sums, src[nativeSquares(&sums, src):])
	return math.Sqrt((sums[0] + sums[1]) + (sums[2] + sums[3]))
}

func addFours(sums *[4]float64, src []byte) {
	for i := 0; len(src) >= 4; i, src = i+1, src[4:] {
		v := float64(math.Float32frombits(binary.LittleEndian.Uint32(src)))
		sums[i&3] += v * v // exact, so fusing changes nothing
	}
}

// MultiplyDouble multiplies F32 numbers by a factor of F64, and rounds each product once.
func MultiplyDouble(dst []byte, factor float64) {
	multiplyDouble(dst[nativeMultiplyDouble(dst, factor):], factor)
}

// multiplyDouble is the specification of MultiplyDouble.
func multiplyDouble(dst []byte, factor float64) {
	for ; len(dst) >= 4; dst = dst[4:] {
		v := float32(float64(math.Float32frombits(binary.LittleEndian.Uint32(dst))) * factor)
		putQuiet(dst, v)
	}
}

// AddSquares adds the squares of F32 numbers to sums of each.
func AddSquares(sums []float64, src []byte) {
	for i := range sums {
		v := float64(math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:])))
		sums[i] += v * v
	}
}

// MultiplyEach multiplies F32 numbers by a factor of each, and rounds each product once.
func MultiplyEach(dst []byte, factors []float64) {
	for i, f := range factors {
		multiplyDouble(dst[4*i:][:4], f)
	}
}
