//go:build !purego

package kernel

import (
	"math"
	"sync"

	"golang.org/x/sys/cpu"
)

//go:generate go -C _asm run . -out ../kernel_amd64.s -stubs ../kernel_amd64_stubs.go -pkg kernel

// blockKernel decodes blocks until it meets one with a scale that is not finite; rest counts that one and the blocks
// after it.
type blockKernel = func(dst, src *byte, blocks int) (rest int)

// groupKernel is the same for groups of 32*chunks elements (nvfp4: pairs of groups, one chunk).
type groupKernel = func(dst, codes, scales, biases *byte, factor float32, groups, chunks int) (rest int)

// hasAVX2 reports whether this processor has what all AVX2 kernels use.
var hasAVX2 = cpu.X86.HasAVX2 && cpu.X86.HasFMA && cpu.X86.HasF16C

// native returns the AVX2 implementation, nil on a processor without it.
func native() *implementation {
	if !hasAVX2 {
		return nil
	}
	impl := avx2Decoders(Half)
	impl.scaled = map[string]scaledFunc{"F8_E4M3": avx2Scaled(Half, "F8_E4M3", 256, scaledE4M3AVX2), "F8_E5M2": avx2Scaled(Half, "F8_E5M2", 1, scaledE5M2AVX2)}
	impl.picks, impl.exact = avx2Picks, exactHalvesAVX2
	impl.encoders = map[encoderKey]func(dst, src []byte){
		{"BF16", "F32"}: avx2ToBF16,
		{"Q8_0", "F32"}: avx2Quantiser("Q8_0", "F32", toQ8_0FromF32AVX2), {"Q4_0", "F32"}: avx2Quantiser("Q4_0", "F32", toQ4_0FromF32AVX2),
		{"Q8_0", "F16"}: avx2Quantiser("Q8_0", "F16", toQ8_0FromF16AVX2), {"Q4_0", "F16"}: avx2Quantiser("Q4_0", "F16", toQ4_0FromF16AVX2),
		{"Q8_0", "BF16"}: avx2Quantiser("Q8_0", "BF16", toQ8_0FromBF16AVX2), {"Q4_0", "BF16"}: avx2Quantiser("Q4_0", "BF16", toQ4_0FromBF16AVX2),
	}
	impl.weighers = map[string]func(dst, src []byte, importance []float32){}
	for name, k := range avx2SuperBlocks() {
		impl.encoders[encoderKey{name, "F32"}], impl.weighers[name] = k.encode, k.weigh
	}
	for name, weigh := range map[string]func(dst, src []byte, importance []float32){"IQ4_NL": avx2IQ4_NL, "IQ4_XS": avx2IQ4_XS} {
		impl.encoders[encoderKey{name, "F32"}], impl.weighers[name] = func(dst, src []byte) { weigh(dst, src, nil) }, weigh
	}
	impl.splits = map[string]func(dst, src []byte){
		"Q4_0": avx2Split(18, q4_0SplitAVX2), "Q4_1": avx2Split(20, q4_1SplitAVX2), "Q5_0": avx2Split(22, q5_0SplitAVX2), "Q5_1": avx2Split(24, q5_1SplitAVX2),
		"MXFP4": avx2Split(17, mxfp4SplitAVX2), "NVFP4": avx2Split(36, nvfp4SplitAVX2),
	}
	impl.repacks = map[groupKey]repackFunc{{"mxfp4", 4, "U8"}: avx2MXFP4, {"mxfp8", 8, "U8"}: avx2MXFP8, {"nvfp4", 4, "U8"}: avx2NVFP4}
	for _, scale := range []string{"F16", "BF16", "F32"} {
		for bits := 2; bits <= 5; bits++ {
			impl.repacks[groupKey{"affine", bits, scale}] = avx2Affine(bits, scale)
		}
	}
	return impl
}

// nativeSingle returns what there is for F32.
func nativeSingle() *implementation {
	if !hasAVX2 {
		return nil
	}
	impl := avx2Decoders(Single)
	impl.scaled = map[string]scaledFunc{"F8_E4M3": avx2Scaled(Single, "F8_E4M3", 256, scaledE4M3SingleAVX2), "F8_E5M2": avx2Scaled(Single, "F8_E5M2", 1, scaledE5M2SingleAVX2)}
	impl.singlePicks = avx2SinglePicks
	return impl
}

// avx2Decoders returns the implementation of types and groups.
func avx2Decoders(to Float) *implementation {
	impl := &implementation{name: "avx2", types: map[string]func(dst, src []byte){}, groups: map[groupKey]groupFunc{}}
	kernels := blockKernels(to)
	for _, t := range decodersTo(to) {
		if k := kernels[t.Name]; k != nil {
			impl.types[t.Name] = avx2Blocks(t, k)
		} else if t.Name == to.name() {
			impl.types[t.Name] = t.Decode // a copy already
		}
	}
	for key, k := range map[groupKey][2]groupKernel{
		{"affine", 2, "F16"}:  {affine2F16AVX2, affine2F16SingleAVX2},
		{"affine", 2, "BF16"}: {affine2BF16AVX2, affine2BF16SingleAVX2},
		{"affine", 2, "F32"}:  {affine2F32AVX2, affine2F32SingleAVX2},
		{"affine", 3, "F16"}:  {affine3F16AVX2, affine3F16SingleAVX2},
		{"affine", 3, "BF16"}: {affine3BF16AVX2, affine3BF16SingleAVX2},
		{"affine", 3, "F32"}:  {affine3F32AVX2, affine3F32SingleAVX2},
		{"affine", 4, "F16"}:  {affine4F16AVX2, affine4F16SingleAVX2},
		{"affine", 4, "BF16"}: {affine4BF16AVX2, affine4BF16SingleAVX2},
		{"affine", 4, "F32"}:  {affine4F32AVX2, affine4F32SingleAVX2},
		{"affine", 5, "F16"}:  {affine5F16AVX2, affine5F16SingleAVX2},
		{"affine", 5, "BF16"}: {affine5BF16AVX2, affine5BF16SingleAVX2},
		{"affine", 5, "F32"}:  {affine5F32AVX2, affine5F32SingleAVX2},
		{"affine", 6, "F16"}:  {affine6F16AVX2, affine6F16SingleAVX2},
		{"affine", 6, "BF16"}: {affine6BF16AVX2, affine6BF16SingleAVX2},
		{"affine", 6, "F32"}:  {affine6F32AVX2, affine6F32SingleAVX2},
		{"affine", 8, "F16"}:  {affine8F16AVX2, affine8F16SingleAVX2},
		{"affine", 8, "BF16"}: {affine8BF16AVX2, affine8BF16SingleAVX2},
		{"affine", 8, "F32"}:  {affine8F32AVX2, affine8F32SingleAVX2},
		{"mxfp4", 4, "U8"}:    {mxfp4U8AVX2, mxfp4U8SingleAVX2},
		{"mxfp8", 8, "U8"}:    {mxfp8U8AVX2, mxfp8U8SingleAVX2},
		{"nvfp4", 4, "U8"}:    {nvfp4U8AVX2, nvfp4U8SingleAVX2},
	} {
		impl.groups[key] = avx2Groups(to, key, k[to/Single])
	}
	return impl
}

// blockKernels are the kernels of types.
func blockKernels(to Float) map[string]blockKernel {
	signs4, signs8 := signTable(4), signTable(8)
	deltas := []uint64{0, 0x0404_0404_0404_0404} // IQ1_M's groups have one sign of delta each
	delta := func() []uint64 { return deltas }
	iq1 := indexTable(iq1sGrid, "\xFF\x00\x01")
	all := map[string][2]blockKernel{
		"F32": {f32AVX2, nil}, "F16": {nil, f16SingleAVX2}, "BF16": {bf16AVX2, bf16SingleAVX2},
		"F64": {f64AVX2, f64SingleAVX2}, "F8_E4M3": {f8_E4M3AVX2, f8_E4M3SingleAVX2}, "F8_E5M2": {f8_E5M2AVX2, f8_E5M2SingleAVX2},
		"Q4_0": {q4_0AVX2, q4_0SingleAVX2}, "Q4_1": {q4_1AVX2, q4_1SingleAVX2}, "Q5_0": {q5_0AVX2, q5_0SingleAVX2},
		"Q5_1": {q5_1AVX2, q5_1SingleAVX2}, "Q6_0": {q6_0AVX2, q6_0SingleAVX2}, "Q8_0": {q8_0AVX2, q8_0SingleAVX2},
		"Q8_1": {q8_1AVX2, q8_1SingleAVX2}, "Q2_K": {q2_KAVX2, q2_KSingleAVX2}, "Q3_K": {q3_KAVX2, q3_KSingleAVX2},
		"Q4_K": {q4_KAVX2, q4_KSingleAVX2}, "Q5_K": {q5_KAVX2, q5_KSingleAVX2}, "Q6_K": {q6_KAVX2, q6_KSingleAVX2},
		"Q8_K": {q8_KAVX2, q8_KSingleAVX2}, "IQ4_NL": {iq4_NLAVX2, iq4_NLSingleAVX2}, "IQ4_XS": {iq4_XSAVX2, iq4_XSSingleAVX2},
		"MXFP4": {mxfp4AVX2, mxfp4SingleAVX2}, "NVFP4": {nvfp4AVX2, nvfp4SingleAVX2},
		"Q1_0": {q1_0AVX2, q1_0SingleAVX2}, "Q2_0": {q2_0AVX2, q2_0SingleAVX2}, "TQ1_0": {tq1_0AVX2, tq1_0SingleAVX2}, "TQ2_0": {tq2_0AVX2, tq2_0SingleAVX2},
		"IQ1_S":   gridKernels(iq1_SAVX2, iq1_SSingleAVX2, iq1, delta),
		"IQ1_M":   gridKernels(iq1_MAVX2, iq1_MSingleAVX2, iq1, delta),
		"IQ2_XXS": gridKernels(iq2_XXSAVX2, iq2_XXSSingleAVX2, indexTable(iq2xxsGrid, "\x08\x19\x2B"), signs4),
		"IQ2_XS":  gridKernels(iq2_XSAVX2, iq2_XSSingleAVX2, indexTable(iq2xsGrid, "\x08\x19\x2B"), signs4),
		"IQ2_S":   gridKernels(iq2_SAVX2, iq2_SSingleAVX2, indexTable(iq2sGrid, "\x08\x19\x2B"), signs4),
		"IQ3_XXS": gridKernels(iq3_XXSAVX2, iq3_XXSSingleAVX2, indexTable(iq3xxsGrid, "\x04\x0C\x14\x1C\x24\x2C\x34\x3E"), signs8),
		"IQ3_S":   gridKernels(iq3_SAVX2, iq3_SSingleAVX2, indexTable(iq3sGrid, "\x01\x03\x05\x07\x09\x0B\x0D\x0F"), signs8),
	}
	kernels := make(map[string]blockKernel, len(all))
	for name, k := range all {
		kernels[name] = k[to/Single]
	}
	return kernels
}

// indexTable packs a codebook for the kernels, when the first of them needs it: every value as
// its place in levels, eight to a word.
func indexTable(grid, levels string) func() []uint64 {
	return sync.OnceValue(func() []uint64 {
		var index [256]uint64
		for i, level := range []byte(levels) {
			index[level] = uint64(i)
		}
		t := make([]uint64, len(grid)/8)
		for i, level := range []byte(grid) {
			t[i/8] |= index[level] << (i % 8 * 8)
		}
		return t
	})
}

// signTable expands every sign index to eight bytes, with the given bit set for negative elements.
func signTable(bit uint64) func() []uint64 {
	return sync.OnceValue(func() []uint64 {
		t := make([]uint64, len(ksigns))
		for i, signs := range ksigns {
			for j := range 8 {
				t[i] |= uint64(signs>>j&1) * bit << (8 * j)
			}
		}
		return t
	})
}

// gridKernels hands kernels their tables.
func gridKernels(half, single func(dst, src *byte, blocks int, grid, signs *uint64) int, grid, signs func() []uint64) [2]blockKernel {
	return [2]blockKernel{
		func(dst, src *byte, blocks int) int { return half(dst, src, blocks, &grid()[0], &signs()[0]) },
		func(dst, src *byte, blocks int) int { return single(dst, src, blocks, &grid()[0], &signs()[0]) },
	}
}

// avx2Blocks decodes with k, and with plain Go what k leaves: blocks with a scale that is infinite or NaN, and of the
// types whose block is one element (k's is 32) the last few.
func avx2Blocks(t Decoder, k blockKernel) func(dst, src []byte) {
	perCall := 1
	if t.Elems == 1 {
		perCall = 32
	}
	in, out := perCall*t.Bytes, int(t.To)*perCall*t.Elems
	return func(dst, src []byte) {
		for len(src) >= in {
			n := len(src) / in
			_ = dst[n*out-1]
			done := n - k(&dst[0], &src[0], n)
			dst, src = dst[done*out:], src[done*in:]
			if done < n {
				t.Decode(dst[:out], src[:in])
				dst, src = dst[out:], src[in:]
			}
		}
		if len(src) > 0 {
			t.Decode(dst, src)
		}
	}
}

// avx2Groups is avx2Blocks for groups. An infinite factor would make NaN of zeros, so it is left to plain Go.
func avx2Groups(to Float, key groupKey, k groupKernel) groupFunc {
	plain, size := goGroups()[key], scaleBytes(key.scale)
	if to == Single {
		plain = goSingles()[key]
	}
	return func(dst, codes, scales, biases []byte, factor float32, group int) {
		chunks := group / 32
		in, out, scale, bias := group*key.bits/8, int(to)*group, size, size
		if key.mode == "nvfp4" {
			chunks, in, out, scale = 1, 16, int(to)*32, 2
			if f := float64(factor); math.IsInf(f, 0) || math.IsNaN(f) {
				plain(dst, codes, scales, biases, factor, group)
				return
			}
		}
		if key.mode != "affine" {
			bias = 0
		}
		for len(codes) >= in {
			n := len(codes) / in
			_, _ = dst[n*out-1], scales[n*scale-1]
			b := &scales[0] // any address if there are no biases
			if bias > 0 {
				_ = biases[n*bias-1]
				b = &biases[0]
			}
			done := n - k(&dst[0], &codes[0], &scales[0], b, factor, n, chunks)
			dst, codes, scales, biases = dst[done*out:], codes[done*in:], scales[done*scale:], biases[done*bias:]
			if done < n {
				plain(dst[:out], codes[:in], scales[:scale], biases[:bias], factor, group)
				dst, codes, scales, biases = dst[out:], codes[in:], scales[scale:], biases[bias:]
			}
		}
		if len(codes) > 0 {
			plain(dst, codes, scales, biases, factor, group)
		}
	}
}

// avx2Scaled decodes runs of 32 with k, which wants the scale times factor. A scale that can make NaN of a number, or
// that factor makes infinite, is left to plain Go.
func avx2Scaled(to Float, name string, factor float32, k func(dst, src *byte, blocks int, scale float32) int) scaledFunc {
	body := typeOf(name).scaled
	plain := func(dst, src []byte, scale float32) { body(dst, src, scale, to) }
	return func(dst, src []byte, scale float32) {
		times := scale * factor
		if n := len(src) / 32; n > 0 && times != 0 && times-times == 0 {
			_ = dst[32*int(to)*n-1]
			k(&dst[0], &src[0], n, times)
			dst, src = dst[32*int(to)*n:], src[32*n:]
		}
		if len(src) > 0 {
			plain(dst, src, scale)
		}
	}
}

func avx2Picks(dst, src []byte, n int, h [4]uint16) {
	blocks := len(src) / n
	if blocks == 0 || n < 32 && n != 16 {
		pickHalves(dst, src, n, h)
		return
	}
	_, _ = dst[8*blocks*n-1], src[blocks*n-1]
	halves := uint64(h[0]) | uint64(h[1])<<16 | uint64(h[2])<<32 | uint64(h[3])<<48
	if n == 16 {
		picks16AVX2(&dst[0], &src[0], blocks, halves)
	} else {
		picksAVX2(&dst[0], &src[0], blocks, n, halves)
	}
}

func avx2SinglePicks(dst, src []byte, n int, f [4]uint32) {
	blocks := len(src) / n
	if blocks == 0 || n < 32 && n != 16 {
		pickSingles(dst, src, n, f)
		return
	}
	_, _ = dst[16*blocks*n-1], src[blocks*n-1]
	if n == 16 {
		picks16SingleAVX2(&dst[0], &src[0], blocks, &f)
	} else {
		picksSingleAVX2(&dst[0], &src[0], blocks, n, &f)
	}
}
