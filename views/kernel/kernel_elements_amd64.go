//go:build !purego

package kernel

// The native forms take whole runs of eight numbers, and return how many bytes these have.

// runs is how many of them there are.
func runs(dst []byte) int {
	if accelerated == nil {
		return 0
	}
	return len(dst) / 32
}

func nativeAdd(dst, src []byte) int {
	n := runs(dst)
	if n > 0 {
		addAVX2(&dst[0], &src[0], n)
	}
	return 32 * n
}

func nativeSubtract(dst, src []byte) int {
	n := runs(dst)
	if n > 0 {
		subtractAVX2(&dst[0], &src[0], n)
	}
	return 32 * n
}

func nativeMultiply(dst []byte, by float32) int {
	n := runs(dst)
	if n > 0 {
		multiplyAVX2(&dst[0], by, n)
	}
	return 32 * n
}

func nativeDivide(dst []byte, by float32) int {
	n := runs(dst)
	if n > 0 {
		divideAVX2(&dst[0], by, n)
	}
	return 32 * n
}

func nativeDivideEach(dst, by []byte) int {
	n := runs(dst)
	if n > 0 {
		divideEachAVX2(&dst[0], &by[0], n)
	}
	return 32 * n
}

func nativeKeepLarger(dst []byte, bits int32) int {
	n := runs(dst)
	if n > 0 {
		keepLargerAVX2(&dst[0], bits, n)
	}
	return 32 * n
}

func nativeElect(sums, weights, src, signs []byte, weight float32) int {
	n := runs(sums)
	if n > 0 {
		electAVX2(&sums[0], &weights[0], &src[0], &signs[0], weight, n)
	}
	return 32 * n
}

func nativeRoundF32(dst []byte) int {
	n := runs(dst)
	if n > 0 {
		roundF32AVX2(&dst[0], n)
	}
	return 32 * n
}

func nativeRoundF16(dst []byte) int {
	n := runs(dst)
	if n > 0 {
		roundF16AVX2(&dst[0], n)
	}
	return 32 * n
}

func nativeRoundBF16(dst []byte) int {
	n := runs(dst)
	if n > 0 {
		roundBF16AVX2(&dst[0], n)
	}
	return 32 * n
}

// nativeWeightedSums are by the name of the type.
var nativeWeightedSums = func() map[string]weightedSumFunc {
	if accelerated == nil {
		return nil
	}
	return map[string]weightedSumFunc{
		"F32": weightedSumF32AVX2, "F16": weightedSumF16AVX2, "BF16": weightedSumBF16AVX2,
	}
}()
