//go:build !purego

package kernel

// native returns NEON, which every arm64 processor has.
func native() *implementation {
	neon := &implementation{name: "neon", types: map[string]func(dst, src []byte){
		"F32":   neonF32,
		"BF16":  neonBF16,
		"MXFP4": neonMXFP4,
	}, groups: map[groupKey]groupFunc{
		{"mxfp4", 4, "U8"}: neonMX4,
	}, scaled: map[string]scaledFunc{
		"F8_E4M3": neonE4M3,
	}, picks: neonPicks}
	for name, k := range map[string]blocksNEON{
		"Q4_0": q4_0NEON, "Q8_0": q8_0NEON, "Q4_K": q4_KNEON, "Q5_K": q5_KNEON, "Q6_K": q6_KNEON,
		"IQ4_NL": func(dst, src *byte, n int) int { return iq4_NLNEON(dst, src, n, &neonIQ4Levels) },
	} {
		neon.types[name] = neonBlocks(typeOf(name), k)
	}
	for _, bits := range []int{2, 3, 4, 5, 6, 8} {
		for kind, scale := range []string{"F16", "BF16", "F32"} {
			neon.groups[groupKey{"affine", bits, scale}] = neonAffine(bits, kind, scale)
		}
	}
	return neon
}

// The assembly converts n elements, a multiple of 16.
//
//go:noescape
func f32NEON(dst, src *byte, n int)

//go:noescape
func bf16NEON(dst, src *byte, n int)

func neonF32(dst, src []byte) {
	if n := len(src) / 4 &^ 15; n > 0 {
		f32NEON(&dst[0], &src[0], n)
		dst, src = dst[2*n:], src[4*n:]
	}
	f32(dst, src, Half)
}

func neonBF16(dst, src []byte) {
	if n := len(src) / 2 &^ 15; n > 0 {
		bf16NEON(&dst[0], &src[0], n)
		dst, src = dst[2*n:], src[2*n:]
	}
	bf16(dst, src, Half)
}

// The assembly decodes n blocks. It stops before a block with an infinite or NaN scale, where processors disagree
// about the sign of a NaN, and returns how many it has done. Plain Go decodes that block.
//
//go:noescape
func q4_0NEON(dst, src *byte, n int) (done int)

//go:noescape
func q8_0NEON(dst, src *byte, n int) (done int)

//go:noescape
func q4_KNEON(dst, src *byte, n int) (done int)

//go:noescape
func q5_KNEON(dst, src *byte, n int) (done int)

//go:noescape
func q6_KNEON(dst, src *byte, n int) (done int)

// blocksNEON is such a function.
type blocksNEON = func(dst, src *byte, n int) (done int)

// neonBlocks decodes a type with k, and with plain Go the blocks that it stops at.
func neonBlocks(t Decoder, k blocksNEON) func(dst, src []byte) {
	out, in := 2*t.Elems, t.Bytes
	return func(dst, src []byte) {
		for len(src) > 0 {
			done := k(&dst[0], &src[0], len(src)/in)
			dst, src = dst[done*out:], src[done*in:]
			if len(src) > 0 {
				t.Decode(dst[:out], src[:in])
				dst, src = dst[out:], src[in:]
			}
		}
	}
}

//go:noescape
func iq4_NLNEON(dst, src *byte, n int, levels *[16]int8) (done int)

// No scale of MXFP4 makes a NaN.
//
//go:noescape
func mxfp4NEON(dst, src *byte, n int, levels *[16]int8, scales *[256]float32)

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

func neonMXFP4(dst, src []byte) {
	if len(src) > 0 {
		mxfp4NEON(&dst[0], &src[0], len(src)/17, &neonFP4Levels, &neonE8M0Half)
	}
}

// nativeSingle returns what there is for F32.
func nativeSingle() *implementation { return nil }
