//go:build !purego

package kernel

// native returns NEON, which every arm64 processor has.
func native() *implementation {
	neon := &implementation{name: "neon", types: map[string]func(dst, src []byte){
		"F32":  neonF32,
		"BF16": neonBF16,
		"Q4_0": neonQ4_0,
		"Q8_0": neonQ8_0,
		"Q4_K": neonQ4_K,
		"Q5_K": neonQ5_K,
		"Q6_K": neonQ6_K,

		"IQ4_NL": neonIQ4_NL,
		"MXFP4":  neonMXFP4,
	}, groups: map[groupKey]groupFunc{
		{"mxfp4", 4, "U8"}: neonMX4,
	}, scaled: map[string]scaledFunc{
		"F8_E4M3": neonE4M3,
	}, picks: neonPicks}
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
	f32(dst, src)
}

func neonBF16(dst, src []byte) {
	if n := len(src) / 2 &^ 15; n > 0 {
		bf16NEON(&dst[0], &src[0], n)
		dst, src = dst[2*n:], src[2*n:]
	}
	bf16(dst, src)
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

func neonQ4_0(dst, src []byte) {
	for len(src) > 0 {
		done := q4_0NEON(&dst[0], &src[0], len(src)/18)
		dst, src = goBlock(q4_0, dst[64*done:], src[18*done:], 64, 18)
	}
}

func neonQ8_0(dst, src []byte) {
	for len(src) > 0 {
		done := q8_0NEON(&dst[0], &src[0], len(src)/34)
		dst, src = goBlock(q8_0, dst[64*done:], src[34*done:], 64, 34)
	}
}

func neonQ4_K(dst, src []byte) {
	for len(src) > 0 {
		done := q4_KNEON(&dst[0], &src[0], len(src)/144)
		dst, src = goBlock(q4_K, dst[512*done:], src[144*done:], 512, 144)
	}
}

func neonQ5_K(dst, src []byte) {
	for len(src) > 0 {
		done := q5_KNEON(&dst[0], &src[0], len(src)/176)
		dst, src = goBlock(q5_K, dst[512*done:], src[176*done:], 512, 176)
	}
}

func neonQ6_K(dst, src []byte) {
	for len(src) > 0 {
		done := q6_KNEON(&dst[0], &src[0], len(src)/210)
		dst, src = goBlock(q6_K, dst[512*done:], src[210*done:], 512, 210)
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

func neonIQ4_NL(dst, src []byte) {
	for len(src) > 0 {
		done := iq4_NLNEON(&dst[0], &src[0], len(src)/18, &neonIQ4Levels)
		dst, src = goBlock(iq4_NL, dst[64*done:], src[18*done:], 64, 18)
	}
}

func neonMXFP4(dst, src []byte) {
	if len(src) > 0 {
		mxfp4NEON(&dst[0], &src[0], len(src)/17, &neonFP4Levels, &neonE8M0Half)
	}
}

// goBlock decodes the block that assembly stopped at, if there is one, and returns what is behind it.
func goBlock(decode func(dst, src []byte), dst, src []byte, out, in int) ([]byte, []byte) {
	if len(src) == 0 {
		return dst, src
	}
	decode(dst[:out], src[:in])
	return dst[out:], src[in:]
}
