//go:build !purego

package kernel

// native returns NEON, which every arm64 processor has.
func native() *implementation {
	neon := neonDecoders(Half)
	neon.types["F32"] = neonPlain(f32, Half, 4, f32NEON)
	neon.types["BF16"] = neonPlain(bf16, Half, 2, bf16NEON)
	neon.scaled = map[string]scaledFunc{"F8_E4M3": neonE4M3}
	neon.picks = neonPicks
	neon.encoders = map[encoderKey]func(dst, src []byte){{"BF16", "F32"}: neonToBF16}
	return neon
}

// nativeSingle returns what there is for F32.
func nativeSingle() *implementation {
	neon := neonDecoders(Single)
	neon.types["F16"] = neonPlain(f16, Single, 2, f16SingleNEON)
	neon.types["BF16"] = neonPlain(bf16, Single, 2, bf16SingleNEON)
	return neon
}

// neonDecoders returns the implementation of types and groups.
func neonDecoders(to Float) *implementation {
	neon := &implementation{name: "neon", types: map[string]func(dst, src []byte){}, groups: map[groupKey]groupFunc{}}
	for name, k := range map[string][2]blocksNEON{
		"Q4_0": {q4_0NEON, q4_0SingleNEON}, "Q8_0": {q8_0NEON, q8_0SingleNEON},
		"Q4_K": {q4_KNEON, q4_KSingleNEON}, "Q5_K": {q5_KNEON, q5_KSingleNEON}, "Q6_K": {q6_KNEON, q6_KSingleNEON},
		"IQ4_NL": {
			func(dst, src *byte, n int) int { return iq4_NLNEON(dst, src, n, &neonIQ4Levels) },
			func(dst, src *byte, n int) int { return iq4_NLSingleNEON(dst, src, n, &neonIQ4Levels) },
		},
		"MXFP4": {
			func(dst, src *byte, n int) int { mxfp4NEON(dst, src, n, &neonFP4Levels, &neonE8M0Half); return n },
			func(dst, src *byte, n int) int {
				mxfp4SingleNEON(dst, src, n, &neonFP4Levels, &neonE8M0Half)
				return n
			},
		},
	} {
		neon.types[name] = neonBlocks(to, typeOf(name), k[to/Single])
	}
	for _, bits := range []int{2, 3, 4, 5, 6, 8} {
		for kind, scale := range []string{"F16", "BF16", "F32"} {
			neon.groups[groupKey{"affine", bits, scale}] = neonAffine(to, bits, kind, scale)
		}
	}
	neon.groups[groupKey{"mxfp4", 4, "U8"}] = neonMX4
	if to == Single {
		neon.groups[groupKey{"mxfp4", 4, "U8"}] = neonSingleMX4
	}
	return neon
}

// The assembly converts n elements, a multiple of 16.
//
//go:noescape
func f32NEON(dst, src *byte, n int)

//go:noescape
func bf16NEON(dst, src *byte, n int)

//go:noescape
func f16SingleNEON(dst, src *byte, n int)

//go:noescape
func bf16SingleNEON(dst, src *byte, n int)

//go:noescape
func toBF16NEON(dst, src *byte, n int)

// neonPlain converts plain floats of so many bytes with k, and with plain Go the last few.
func neonPlain(plain func(dst, src []byte, to Float), to Float, bytes int, k func(dst, src *byte, n int)) func(dst, src []byte) {
	return func(dst, src []byte) {
		if n := len(src) / bytes &^ 15; n > 0 {
			k(&dst[0], &src[0], n)
			dst, src = dst[int(to)*n:], src[bytes*n:]
		}
		plain(dst, src, to)
	}
}

func neonToBF16(dst, src []byte) {
	if n := len(src) / 4 &^ 15; n > 0 {
		toBF16NEON(&dst[0], &src[0], n)
		dst, src = dst[2*n:], src[4*n:]
	}
	toBF16(dst, src)
}

// The assembly decodes n blocks. It stops before a block with an infinite or NaN scale, where processors disagree
// about the sign of a NaN, and returns how many it has done. Plain Go decodes that block.
//
//go:noescape
func q4_0NEON(dst, src *byte, n int) (done int)

//go:noescape
func q4_0SingleNEON(dst, src *byte, n int) (done int)

//go:noescape
func q8_0NEON(dst, src *byte, n int) (done int)

//go:noescape
func q8_0SingleNEON(dst, src *byte, n int) (done int)

//go:noescape
func q4_KNEON(dst, src *byte, n int) (done int)

//go:noescape
func q4_KSingleNEON(dst, src *byte, n int) (done int)

//go:noescape
func q5_KNEON(dst, src *byte, n int) (done int)

//go:noescape
func q5_KSingleNEON(dst, src *byte, n int) (done int)

//go:noescape
func q6_KNEON(dst, src *byte, n int) (done int)

//go:noescape
func q6_KSingleNEON(dst, src *byte, n int) (done int)

// blocksNEON is such a function.
type blocksNEON = func(dst, src *byte, n int) (done int)

// neonBlocks decodes a type with k, and with plain Go the blocks that it stops at.
func neonBlocks(to Float, t Decoder, k blocksNEON) func(dst, src []byte) {
	out, in := int(to)*t.Elems, t.Bytes
	return func(dst, src []byte) {
		for len(src) > 0 {
			done := k(&dst[0], &src[0], len(src)/in)
			dst, src = dst[done*out:], src[done*in:]
			if len(src) > 0 {
				t.body(dst[:out], src[:in], to)
				dst, src = dst[out:], src[in:]
			}
		}
	}
}

//go:noescape
func iq4_NLNEON(dst, src *byte, n int, levels *[16]int8) (done int)

//go:noescape
func iq4_NLSingleNEON(dst, src *byte, n int, levels *[16]int8) (done int)

// No scale of MXFP4 makes a NaN.
//
//go:noescape
func mxfp4NEON(dst, src *byte, n int, levels *[16]int8, scales *[256]float32)

//go:noescape
func mxfp4SingleNEON(dst, src *byte, n int, levels *[16]int8, scales *[256]float32)

var (
	neonIQ4Levels = int8Levels(&iq4Levels)
	neonFP4Levels = int8Levels(&fp4Levels)
	neonE8M0Half  = func() (t [256]float32) {
		for e := range t {
			t[e] = e8m0[e] / 2
		}
		t[255] = 0x1p127
		return t
	}()
)

func int8Levels(levels *[16]float32) (t [16]int8) {
	for c, x := range levels {
		t[c] = int8(x)
	}
	return t
}
