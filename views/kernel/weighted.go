package kernel

import "fmt"

// WeightedSum makes weighted sums of numbers of a type, of several sources: of numbers x of all
// sources at one place, in their order, and their weights w
//
//	a = fma(w, x, a), from 0 on     in F32, each step rounded once
//	R(a / By)
//
// where R rounds to the type, to nearest even. Every implementation gives the same bits;
// NaN is the type's quiet NaN without a sign.
type WeightedSum struct {
	Weights []float32
	By      float32

	bytes  int
	number func(src []byte) float32
	put    func(dst []byte, x float32)
	native weightedSumFunc // may be nil
}

// weightedSumFunc makes runs of 32 sums of n sources.
type weightedSumFunc = func(dst *byte, sources *[]byte, weights *float32, n int, by float32, runs int)

// NewWeightedSum returns sums of numbers of F32, F16 or BF16, by the name of the type.
func NewWeightedSum(dtype string, weights []float32, by float32) (s WeightedSum, ok bool) {
	s = WeightedSum{Weights: weights, By: by, native: nativeWeightedSums[dtype]}
	switch dtype {
	case "F32":
		s.bytes, s.number, s.put = 4, getSingle, putQuiet
	case "F16":
		s.bytes, s.number = 2, wide
		s.put = func(dst []byte, x float32) { round(dst, []float32{x}) }
	case "BF16":
		s.bytes, s.number = 2, numberBF16
		s.put = func(dst []byte, x float32) {
			var b [4]byte
			putQuiet(b[:], x)
			toBF16(dst, b[:])
		}
	default:
		return s, false
	}
	return s, true
}

// Make fills dst with the sums of as many bytes of each source.
func (s *WeightedSum) Make(dst []byte, sources [][]byte) {
	if len(sources) != len(s.Weights) || len(dst)%s.bytes != 0 {
		panic(fmt.Sprintf("kernel: %d bytes of %d sources", len(dst), len(sources)))
	}
	for _, src := range sources {
		if len(src) != len(dst) {
			panic(fmt.Sprintf("kernel: %d bytes and %d", len(dst), len(src)))
		}
	}
	at := 0
	if runs := len(dst) / (32 * s.bytes); runs > 0 && len(sources) > 0 && s.native != nil {
		s.native(&dst[0], &sources[0], &s.Weights[0], len(sources), s.By, runs)
		at = runs * 32 * s.bytes
	}
	for ; at < len(dst); at += s.bytes {
		s.put(dst[at:][:s.bytes], s.one(sources, at))
	}
}

// one is the specification of a sum.
func (s *WeightedSum) one(sources [][]byte, at int) (a float32) {
	for i, src := range sources {
		a = fma(s.Weights[i], s.number(src[at:]), a)
	}
	return a / s.By
}
