//go:build !purego

package kernel

import (
	"slices"
	"sync"

	"golang.org/x/sys/cpu"
)

// wideRows has memory for rows of Left as F64.
var wideRows = sync.Pool{New: func() any { return new([]float64) }}

// lowRankKernel adds to runs of columns of so many rows at a time, which share what is read of the wide matrix.
type lowRankKernel struct {
	rows, columns int
	add           func(dst *byte, left *float64, right *float32, rank, stride, pitch, runs int, factor float32)
}

// lowRankKernels are those of this processor, each for rows and columns that are left by the one before. A number takes
// 0.6 ns with the first at a rank of 16 and 0.9 with the second, where plain Go takes 9.
var lowRankKernels = func() (list []lowRankKernel) {
	if accelerated == nil {
		return nil
	}
	if cpu.X86.HasAVX512F {
		list = append(list, lowRankKernel{8, 16, lowRank8AVX512})
	}
	return append(list, lowRankKernel{4, 8, lowRank4AVX2}, lowRankKernel{1, 8, lowRank1AVX2})
}()

// nativeLowRank adds to whole runs of eight columns of all rows, and returns how many columns these are.
func nativeLowRank(dst []byte, left, right []float32, rank, stride, rows, n int, factor float32) int {
	if n < 8 || len(lowRankKernels) == 0 {
		return 0
	}
	p := wideRows.Get().(*[]float64)
	defer wideRows.Put(p)
	for o := 0; o < rows; {
		take, from := 0, 0 // rows at a time, and columns that are done
		for i := range lowRankKernels {
			k := &lowRankKernels[i]
			runs := (n - from) / k.columns
			if runs == 0 || k.rows > rows-o || take > 0 && k.rows > take {
				continue
			}
			if take == 0 {
				take = k.rows
			}
			for at := 0; at < take; at += k.rows {
				wide := interleaved(p, left[(o+at)*rank:][:k.rows*rank], k.rows, rank)
				k.add(&dst[4*((o+at)*n+from)], &wide[0], &right[from], rank, 4*stride, 4*n, runs, factor)
			}
			from += runs * k.columns
		}
		o += take
	}
	return n / 8 * 8
}

// interleaved returns rows as F64, the first numbers of all before the second ones.
func interleaved(p *[]float64, left []float32, rows, rank int) []float64 {
	*p = slices.Grow((*p)[:0], rows*rank)[:rows*rank]
	for r := range rows {
		for k, l := range left[r*rank:][:rank] {
			(*p)[rows*k+r] = float64(l)
		}
	}
	return *p
}

// nativeSquares adds the squares of whole runs of eight numbers, and returns how many bytes these have.
func nativeSquares(sums *[4]float64, b []byte) int {
	n := len(b) / 32
	if n == 0 || accelerated == nil {
		return 0
	}
	rowSquaresAVX2(&sums[0], &b[0], n)
	return 32 * n
}

// nativeMultiplyDouble is the same for MultiplyDouble.
func nativeMultiplyDouble(b []byte, factor float64) int {
	n := len(b) / 32
	if n == 0 || accelerated == nil {
		return 0
	}
	multiplyDoubleAVX2(&b[0], factor, n)
	return 32 * n
}
