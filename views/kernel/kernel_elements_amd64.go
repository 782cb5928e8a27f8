//go:build !purego

package kernel

var elements = func() (k elementKernels) {
	if !hasAVX2 {
		return k
	}
	return elementKernels{
		add: addAVX2, subtract: subtractAVX2, divideEach: divideEachAVX2,
		multiply: multiplyAVX2, divide: divideAVX2,
		keepLarger: keepLargerAVX2,
		elect:      electAVX2,
		rounds:     map[string]func(dst *byte, runs int){"F32": roundF32AVX2, "F16": roundF16AVX2, "BF16": roundBF16AVX2},
	}
}()

// nativeWeightedSums are by the name of the type.
var nativeWeightedSums = func() map[string]weightedSumFunc {
	if !hasAVX2 {
		return nil
	}
	return map[string]weightedSumFunc{"F32": weightedSumF32AVX2, "F16": weightedSumF16AVX2, "BF16": weightedSumBF16AVX2}
}()
