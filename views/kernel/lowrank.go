package kernel

import (
	"encoding/binary"
	"math"
)

// LowRank is a matrix that is a product of a tall and a wide one, times a factor:
//
//	s * Left @ Right     Left [rows, Rank], Right [Rank, Stride], row-major
//
// What it adds to F32 numbers is the same on every processor: products of two F32 are exact
// as F64, and their sum begins with 0 and goes up from the first, so that fusing changes
// nothing; the sum is rounded to F32, then its product with the factor, and then the sum of
// that and the number. What is not a number is 0x7FC00000.
type LowRank struct {
	Left, Right []float32
	Rank        int
	Stride      int // columns of Right
	Factor      float32
}

// Add adds the columns from one on of rows from one on to numbers: dst is rows of n F32,
// little-endian, row after row.
func (m *LowRank) Add(dst []byte, row, rows, column, n int) {
	if m.Rank == 0 || rows == 0 || n == 0 {
		return
	}
	left, right := m.Left[row*m.Rank:][:rows*m.Rank], m.Right[column:][:(m.Rank-1)*m.Stride+n]
	done := nativeLowRank(dst, left, right, m.Rank, m.Stride, rows, n, m.Factor)
	if done < n { // the columns that are left
		for o := range rows {
			addRow(dst[4*(o*n+done):][:4*(n-done)], left[o*m.Rank:][:m.Rank], right[done:], m.Stride, m.Factor)
		}
	}
}

// addRow is the specification of LowRank.Add, for a row.
func addRow(dst []byte, left, right []float32, stride int, factor float32) {
	const most = 64 // columns at a time
	var sums [most]float64
	for at := 0; len(dst) > 0; at += most {
		sum := sums[:min(most, len(dst)/4)]
		clear(sum)
		for k, l := range left {
			r := right[k*stride+at:][:len(sum)]
			l := float64(l)
			for i := range sum {
				sum[i] += l * float64(r[i])
			}
		}
		for i, s := range sum {
			d := float32(float32(s) * factor)
			v := math.Float32frombits(binary.LittleEndian.Uint32(dst[4*i:])) + d
			if v != v {
				binary.LittleEndian.PutUint32(dst[4*i:], singleNaN)
				continue
			}
			binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(v))
		}
		dst = dst[4*len(sum):]
	}
}

// singleNaN is what every F32 becomes that is not a number.
const singleNaN = 0x7FC00000

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
		if v != v {
			binary.LittleEndian.PutUint32(dst, singleNaN)
			continue
		}
		binary.LittleEndian.PutUint32(dst, math.Float32bits(v))
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
