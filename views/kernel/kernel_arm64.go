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
		"Q6_K": neonQ6_K,
	}, groups: map[groupKey]groupFunc{}}
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

func neonQ6_K(dst, src []byte) {
	for len(src) > 0 {
		done := q6_KNEON(&dst[0], &src[0], len(src)/210)
		dst, src = goBlock(q6_K, dst[512*done:], src[210*done:], 512, 210)
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

// affineNEON decodes n groups of a multiple of 8 elements. It reads codes 8 bytes at a time, so up to 6 bytes behind
// them. kind says how scales and biases are stored: 0 F16, 1 BF16, 2 F32. It stops as the block decoders do.
//
//go:noescape
func affineNEON(dst, codes, scales, biases *byte, n, group, bits, kind int, unpack *affineUnpack) (done int)

// affineUnpack takes 8 codes out of 8 bytes: windows gathers the two bytes that code i lies in into 16-bit lane i,
// shifts moves it down (a negative shift is one to the right), mask cuts what is above.
type affineUnpack struct {
	windows [16]byte
	shifts  [8]int16
	mask    [8]uint16
}

func makeAffineUnpack(bits int) *affineUnpack {
	u := &affineUnpack{}
	for i := range 8 {
		at := i * bits
		u.windows[2*i], u.windows[2*i+1] = byte(at/8), byte(at/8+1) // byte 8 does not exist: TBL gives 0
		if at/8 == 7 {
			u.windows[2*i+1] = 0xFF
		}
		u.shifts[i] = int16(-(at % 8))
		u.mask[i] = 1<<bits - 1
	}
	return u
}

func neonAffine(bits, kind int, scale string) groupFunc {
	unpack, size := makeAffineUnpack(bits), scaleBytes[scale]
	plain := goGroups[groupKey{"affine", bits, scale}]
	return func(dst, codes, scales, biases []byte, factor float32, group int) {
		bytes := group * bits / 8
		// All groups but the last: what is read behind one belongs to the next.
		n := len(scales)/size - 1
		for n > 0 {
			done := affineNEON(&dst[0], &codes[0], &scales[0], &biases[0], n, group, bits, kind, unpack)
			n -= done
			dst, codes, scales, biases = dst[2*group*done:], codes[bytes*done:], scales[size*done:], biases[size*done:]
			if n > 0 {
				plain(dst[:2*group], codes[:bytes], scales[:size], biases[:size], factor, group)
				n--
				dst, codes, scales, biases = dst[2*group:], codes[bytes:], scales[size:], biases[size:]
			}
		}
		if n < 0 {
			return
		}
		// The last one: its last 32 codes from a copy with room behind it.
		var last [32 + 8]byte
		head := bytes - 4*bits
		copy(last[:], codes[head:])
		done := 1
		if head > 0 {
			done = affineNEON(&dst[0], &codes[0], &scales[0], &biases[0], 1, group-32, bits, kind, unpack)
		}
		if done == 1 {
			done = affineNEON(&dst[2*(group-32)], &last[0], &scales[0], &biases[0], 1, 32, bits, kind, unpack)
		}
		if done == 0 {
			plain(dst, codes, scales, biases, factor, group)
		}
	}
}
