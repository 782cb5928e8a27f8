package kernel

import (
	"encoding/binary"
	"math"
)

// The K types: 256 elements, scales of sub-blocks themselves quantised, d and dmin halves.
//
//	Q2_K   scales[16]  qs[64]  d  dmin              16 sub-blocks of 16
//	Q3_K   hmask[32]  qs[64]  scales[12]  d         16 sub-blocks of 16
//	Q4_K   d  dmin  scales[12]  qs[128]             8 sub-blocks of 32
//	Q5_K   d  dmin  scales[12]  qh[32]  qs[128]     8 sub-blocks of 32
//	Q6_K   ql[128]  qh[64]  scales i8[16]  d        16 sub-blocks of 16
//	Q8_K   d f32  qs i8[256]  bsums i16[16]         for dot products; bsums is not needed here
//
// Two-bit arrays: 32 bytes serve 128 elements, bits 0-1 the first 32 of them, bits 2-3 the
// next and so on. Nibble arrays of Q4_K and Q5_K: 32 bytes serve 64 elements, low nibbles
// the first 32, high nibbles the last 32.

// q2_K: the low nibble of a scale multiplies d, the high one dmin.
func q2_K(dst, src []byte, to Float) {
	var v [256]float32
	for ; len(src) > 0; src = src[84:] {
		d, dmin := wide(src[80:]), wide(src[82:])
		for s, scale := range src[:16] {
			dl, ml := d*float32(scale&15), dmin*float32(scale>>4)
			qs := src[16+s/8*32+s%2*16:][:16] // sub-blocks 0 and 1 share the bytes with 2 and 3, 4 and 5, 6 and 7
			for j, b := range qs {
				v[16*s+j] = float32(dl*float32(b>>(s%8/2*2)&3)) - ml
			}
		}
		dst = to.put(dst, v[:])
	}
}

// q3_K: a set bit in hmask is the third bit of a code; without it the code is 4 lower. The 6-bit scales are spread
// over nibbles (bytes 0-7) and two-bit fields (bytes 8-11).
func q3_K(dst, src []byte, to Float) {
	var v [256]float32
	for ; len(src) > 0; src = src[110:] {
		hmask, scales, d := src[:32], src[96:108], wide(src[108:])
		for s := range 16 {
			low, high := scales[s%8]>>(s/8*4)&15, scales[8+s%4]>>(s/4*2)&3
			dl := d * float32(int(low|high<<4)-32)
			qs := src[32+s/8*32+s%2*16:][:16]
			for j, b := range qs {
				third := int(hmask[s%2*16+j]>>(s/2)&1) << 2
				v[16*s+j] = dl * float32(int(b>>(s%8/2*2)&3)+third-4)
			}
		}
		dst = to.put(dst, v[:])
	}
}

// scaleMin unpacks the 6-bit scale and minimum of sub-block t from the 12 bytes b of Q4_K and Q5_K:
//
//	b[0..3]   low 6 bits: scale 0..3; upper 2 bits: bits 4-5 of scale 4..7
//	b[4..7]   low 6 bits: minimum 0..3; upper 2 bits: bits 4-5 of minimum 4..7
//	b[8..11]  low nibble: bits 0-3 of scale 4..7; high nibble: bits 0-3 of minimum 4..7
func scaleMin(b []byte, t int) (scale, minimum float32) {
	if t < 4 {
		return float32(b[t] & 63), float32(b[t+4] & 63)
	}
	return float32(b[t+4]&15 | b[t-4]>>6<<4), float32(b[t+4]>>4 | b[t]>>6<<4)
}

func q4_K(dst, src []byte, to Float) {
	var v [256]float32
	for ; len(src) > 0; src = src[144:] {
		d, dmin := wide(src), wide(src[2:])
		for t := range 8 {
			sc, mn := scaleMin(src[4:16], t)
			dl, ml := d*sc, dmin*mn
			sub := v[32*t:][:32]
			for j, b := range src[16+t/2*32:][:32] {
				sub[j] = float32(dl*float32(b>>(t%2*4)&15)) - ml
			}
		}
		dst = to.put(dst, v[:])
	}
}

// q5_K: bit t of qh[j] is the fifth bit of element j of sub-block t.
func q5_K(dst, src []byte, to Float) {
	var v [256]float32
	for ; len(src) > 0; src = src[176:] {
		d, dmin, qh := wide(src), wide(src[2:]), src[16:48]
		for t := range 8 {
			sc, mn := scaleMin(src[4:16], t)
			dl, ml := d*sc, dmin*mn
			sub := v[32*t:][:32]
			for j, b := range src[48+t/2*32:][:32] {
				sub[j] = float32(dl*float32(b>>(t%2*4)&15|qh[j]>>t&1<<4)) - ml
			}
		}
		dst = to.put(dst, v[:])
	}
}

// q6_K: each half of the block has 64 bytes of ql (elements 0-31 and 32-63 in the low nibbles, 64-95 and 96-127 in
// the high ones) and 32 bytes of qh.
func q6_K(dst, src []byte, to Float) {
	var v [256]float32
	for ; len(src) > 0; src = src[210:] {
		d := wide(src[208:])
		for s, scale := range src[192:208] {
			dl := d * float32(int8(scale))
			h, t, off := s/8, s%8/2, s%2*16 // half, 32-element quarter of it, offset in the quarter
			ql, qh := src[64*h+t%2*32+off:][:16], src[128+32*h+off:][:16]
			for j := range 16 {
				q := ql[j]>>(t/2*4)&15 | qh[j]>>(2*t)&3<<4
				v[16*s+j] = dl * float32(int(q)-32)
			}
		}
		dst = to.put(dst, v[:])
	}
}

func q8_K(dst, src []byte, to Float) {
	var v [256]float32
	for ; len(src) > 0; src = src[292:] {
		d := math.Float32frombits(binary.LittleEndian.Uint32(src))
		for j, b := range src[4:260] {
			v[j] = d * float32(int8(b))
		}
		dst = to.put(dst, v[:])
	}
}
