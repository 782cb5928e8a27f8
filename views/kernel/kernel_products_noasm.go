//go:build !(amd64 || arm64) || purego

package kernel

var (
	lowRankKernels     []lowRankKernel
	nativeWeightedSums map[string]weightedSumFunc
)
