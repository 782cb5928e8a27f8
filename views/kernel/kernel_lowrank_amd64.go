//go:build !purego

package kernel

import "golang.org/x/sys/cpu"

// lowRankKernels are this processor's kernels, the fastest first. A number takes 0.45 ns
// with AVX-512 at a rank of 16, 0.85 with AVX2, and 9 in plain Go.
var lowRankKernels = func() (list []lowRankKernel) {
	if !hasAVX2 {
		return nil
	}
	if cpu.X86.HasAVX512F {
		list = append(list, lowRankKernel{"AVX-512", widenPanelAVX512, lowRankAVX512})
	}
	return append(list, lowRankKernel{"AVX2", widenPanelAVX2, lowRankAVX2})
}()

// nativeSquares adds the squares of whole runs of eight numbers, and returns how many bytes these have.
func nativeSquares(sums *[4]float64, b []byte) int {
	n := len(b) / 32
	if n == 0 || !hasAVX2 {
		return 0
	}
	rowSquaresAVX2(&sums[0], &b[0], n)
	return 32 * n
}

// nativeMultiplyDouble is the same for MultiplyDouble.
func nativeMultiplyDouble(b []byte, factor float64) int {
	n := len(b) / 32
	if n == 0 || !hasAVX2 {
		return 0
	}
	multiplyDoubleAVX2(&b[0], factor, n)
	return 32 * n
}
