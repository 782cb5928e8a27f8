//go:build !purego

package kernel

import "math"

// affineNEON decodes n groups of a multiple of 8 elements. It reads codes 8 bytes at a
// time, so it reads up to 6 bytes after them. kind selects the type of scales and biases: 0
// F16, 1 BF16, 2 F32. It stops as the block decoders do.
//
//go:noescape
func affineNEON(dst, codes, scales, biases *byte, n, group, bits, kind int, unpack *affineUnpack) (done int)

//go:noescape
func affineSingleNEON(dst, codes, scales, biases *byte, n, group, bits, kind int, unpack *affineUnpack) (done int)

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

func neonAffine(to Float, bits, kind int, scale string) groupFunc {
	unpack, size, width := makeAffineUnpack(bits), scaleBytes(scale), int(to)
	plain := goGroups()[groupKey{"affine", bits, scale}]
	if to == Single {
		plain = goSingles()[groupKey{"affine", bits, scale}]
	}
	return func(dst, codes, scales, biases []byte, factor float32, group int) {
		bytes := group * bits / 8
		// All groups but the last: what is read after one belongs to the next.
		n := len(scales)/size - 1
		for n > 0 {
			done := affineTo(to, &dst[0], &codes[0], &scales[0], &biases[0], n, group, bits, kind, unpack)
			n -= done
			dst, codes, scales, biases = dst[width*group*done:], codes[bytes*done:], scales[size*done:], biases[size*done:]
			if n > 0 {
				plain(dst[:width*group], codes[:bytes], scales[:size], biases[:size], factor, group)
				n--
				dst, codes, scales, biases = dst[width*group:], codes[bytes:], scales[size:], biases[size:]
			}
		}
		if n < 0 {
			return
		}
		// The last one: its last 32 codes from a copy with room after it.
		var last [32 + 8]byte
		head := bytes - 4*bits
		copy(last[:], codes[head:])
		done := 1
		if head > 0 {
			done = affineTo(to, &dst[0], &codes[0], &scales[0], &biases[0], 1, group-32, bits, kind, unpack)
		}
		if done == 1 {
			done = affineTo(to, &dst[width*(group-32)], &last[0], &scales[0], &biases[0], 1, 32, bits, kind, unpack)
		}
		if done == 0 {
			plain(dst, codes, scales, biases, factor, group)
		}
	}
}

// affineTo chooses the kernel. Calls by name let copies of codes stay on the stack.
func affineTo(to Float, dst, codes, scales, biases *byte, n, group, bits, kind int, unpack *affineUnpack) (done int) {
	if to == Single {
		return affineSingleNEON(dst, codes, scales, biases, n, group, bits, kind, unpack)
	}
	return affineNEON(dst, codes, scales, biases, n, group, bits, kind, unpack)
}

// mx4NEON decodes n groups. An infinite scale times zero is a NaN without a sign on arm64.
//
//go:noescape
func mx4NEON(dst, codes, scales *byte, n int, elements *[2][16]byte, exponents *[256]float32)

//go:noescape
func mx4SingleNEON(dst, codes, scales *byte, n int, elements *[2][16]byte, exponents *[256]float32)

// neonE2M1 are the lower and the upper bytes of the elements as BF16.
var neonE2M1 = func() (t [2][16]byte) {
	for c, x := range e2m1 {
		t[0][c], t[1][c] = byte(math.Float32bits(x)>>16), byte(math.Float32bits(x)>>24)
	}
	return t
}()

func neonMX4(dst, codes, scales, _ []byte, _ float32, _ int) {
	if len(scales) > 0 {
		mx4NEON(&dst[0], &codes[0], &scales[0], len(scales), &neonE2M1, &e8m0)
	}
}

func neonSingleMX4(dst, codes, scales, _ []byte, _ float32, _ int) {
	if len(scales) > 0 {
		mx4SingleNEON(&dst[0], &codes[0], &scales[0], len(scales), &neonE2M1, &e8m0)
	}
}

// e4m3NEON decodes n codes, a multiple of 16. scale is 256 times the scale, and finite.
//
//go:noescape
func e4m3NEON(dst, src *byte, n int, scale float32)

var plainE4M3 = typeOf("F8_E4M3").Scaled

func neonE4M3(dst, src []byte, scale float32) {
	if n := len(src) &^ 15; n > 0 && math.Abs(float64(scale)) < 0x1p119 { // false for NaN, too
		e4m3NEON(&dst[0], &src[0], n, 256*scale)
		dst, src = dst[2*n:], src[n:]
	}
	plainE4M3(dst, src, scale)
}

// picksNEON is a pickFunc for n a multiple of 16, with the four halves in one number.
//
//go:noescape
func picksNEON(dst, src *byte, blocks, n int, h uint64)

func neonPicks(dst, src []byte, n int, h [4]uint16) {
	if n%16 != 0 || len(src) == 0 {
		pickHalves(dst, src, n, h)
		return
	}
	picksNEON(&dst[0], &src[0], len(src)/n, n, uint64(h[0])|uint64(h[1])<<16|uint64(h[2])<<32|uint64(h[3])<<48)
}
