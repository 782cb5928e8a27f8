//go:build !purego

package kernel

import (
	"math/rand/v2"
	"testing"
)

// Each kernel gives the bits of the specification when it is the first that the processor supports.
func TestLowRankKernels(t *testing.T) {
	all := lowRankKernels
	defer func() { lowRankKernels = all }()
	if len(all) < 2 {
		t.Log("NOT TESTED: the kernel for AVX-512, which this processor does not have")
	}
	for i := range all {
		lowRankKernels = all[i:]
		testLowRank(t)
	}
}

func BenchmarkLowRankKernels(b *testing.B) {
	all := lowRankKernels
	defer func() { lowRankKernels = all }()
	r := rand.New(rand.NewPCG(1, 2))
	const rows, columns, rank = 16, 4096, 16
	m := randomLowRank(r, rows, columns, rank, false)
	dst := floatBytes(randomFloats(r, rows*columns, false))
	for i, k := range all {
		b.Run(k.name, func(b *testing.B) {
			lowRankKernels = all[i:]
			b.SetBytes(int64(len(dst)))
			for b.Loop() {
				m.Add(dst, 0, rows, 0, columns)
			}
		})
	}
}
