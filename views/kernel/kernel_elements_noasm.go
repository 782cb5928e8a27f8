//go:build !(amd64 || arm64) || purego

package kernel

var (
	elements           elementKernels
	lowRankKernels     []lowRankKernel
	nativeWeightedSums map[string]weightedSumFunc
)
