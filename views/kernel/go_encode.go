package kernel

import (
	"encoding/binary"
	"math"
)

// Encoders of F32 numbers. Q8_0 and Q4_0 follow ggml's quantize_row_q8_0_ref and
// quantize_row_q4_0_ref (ggml-quants.c), which write the same bytes on every machine for
// finite numbers; the blocks are drawn in go_q32.go.
//
//	Q8_0   amax = largest |x|, d = amax/127, id = 1/d (0 for d = 0), q = x*id rounded, halves away from zero
//	Q4_0   max = first x of the largest |x|, d = max/-8, id = 1/d (0 for d = 0), q = the smaller of 15 and x*id + 8.5 cut off
//
// All are F32 operations, each rounded. A block of zeros has d = -0 in Q4_0. For numbers
// that are not finite, which C leaves open, the result is ggml's on x86: in Q4_0 a NaN is
// not a maximum, in Q8_0 it is until a number follows it, and a product that no integer of
// 32 bits holds becomes code 0.

// toBF16 rounds to nearest even. A NaN keeps its sign and the upper bits of its payload and becomes quiet.
func toBF16(dst, src []byte) {
	for i := range len(src) / 4 {
		b := binary.LittleEndian.Uint32(src[4*i:])
		if b&0x7FFF_FFFF > 0x7F80_0000 {
			b |= 1 << 22
		} else {
			b += 0x7FFF + b>>16&1
		}
		binary.LittleEndian.PutUint16(dst[2*i:], uint16(b>>16))
	}
}

// lowByte cuts off the fraction of x and returns the low byte of the integer, 0 where that does not fit into 32 bits.
func lowByte(x float32) byte {
	if x >= -0x1p31 && x < 0x1p31 {
		return byte(int32(x))
	}
	return 0
}

// inverse returns 1/d, 0 for 0.
func inverse(d float32) float32 {
	if d == 0 {
		return 0
	}
	return 1 / d
}

func toQ8_0(dst, src []byte) {
	for ; len(src) > 0; dst, src = dst[34:], src[128:] {
		block, out := src[:128], dst[:34]
		amax := float32(0)
		for j := 0; j < len(block); j += 4 {
			a := math.Float32frombits(binary.LittleEndian.Uint32(block[j:]) & 0x7FFF_FFFF)
			if !(amax > a) {
				amax = a
			}
		}
		d := amax / 127
		id := inverse(d)
		round(out, []float32{d})
		for j := range 32 {
			x := float32(numberF32(block[4*j:]) * id) // the conversion keeps the sum below from being fused with it
			// Adding the float before a half rounds as roundf does: 0.5 itself would lift the float before it to 1.
			half := math.Float32frombits(0x3EFF_FFFF | math.Float32bits(x)&0x8000_0000)
			out[2+j] = lowByte(x + half)
		}
	}
}

func toQ4_0(dst, src []byte) {
	for ; len(src) > 0; dst, src = dst[18:], src[128:] {
		block, out := src[:128], dst[:18]
		amax, largest := float32(0), float32(0)
		for j := 0; j < len(block); j += 4 {
			x := numberF32(block[j:])
			if a := math.Float32frombits(math.Float32bits(x) & 0x7FFF_FFFF); amax < a {
				amax, largest = a, x
			}
		}
		d := largest / -8
		id := inverse(d)
		round(out, []float32{d})
		for j := range 16 {
			low := lowByte(float32(numberF32(block[4*j:])*id) + 8.5)
			high := lowByte(float32(numberF32(block[64+4*j:])*id) + 8.5)
			out[2+j] = min(low, 15) | min(high, 15)<<4
		}
	}
}
