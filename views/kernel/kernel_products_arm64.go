//go:build !purego

package kernel

// lowRankKernels has the one of NEON.
var lowRankKernels = []lowRankKernel{{"NEON", widenPanelNEON, lowRankNEON}}

// nativeWeightedSums are by the name of the type.
var nativeWeightedSums = map[string]weightedSumFunc{"F32": weightedSumF32NEON, "F16": weightedSumF16NEON, "BF16": weightedSumBF16NEON}

//go:noescape
func widenPanelNEON(dst *float64, src *float32, rank int)

//go:noescape
func lowRankNEON(dst *byte, left, right *float64, rank, pitch, groups int, factor float32)

//go:noescape
func weightedSumF32NEON(dst *byte, sources *[]byte, weights *float32, n int, by float32, runs int)

//go:noescape
func weightedSumF16NEON(dst *byte, sources *[]byte, weights *float32, n int, by float32, runs int)

//go:noescape
func weightedSumBF16NEON(dst *byte, sources *[]byte, weights *float32, n int, by float32, runs int)
