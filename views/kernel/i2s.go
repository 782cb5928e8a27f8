package kernel

import (
	"encoding/binary"
	"math"
)

// Ternary decodes blocks of 2-bit codes that share one scale d, which BitNet files store elsewhere.
type Ternary struct {
	Elems, Bytes int
	Decode       func(dst, src []byte, d float32) // len(src) = n*Bytes, len(dst) = 2*n*Elems, any n >= 0
}

// I2S returns the decoder of an I2_S layout for rows of the given number of columns. Nothing in a file tells the
// layouts apart:
//
//	layout    block       byte j holds, from the high bits down         codes 0 1 2 3 times d
//	128       128 elems   elements j, j+32, j+64, j+96                  -1  0  1  0
//	64        64 elems    elements j, j+16, j+32, j+48                  -1  0  1  0
//	rows4     4 rows      column j of the four rows                     -1  0  1  0
//	trinity   4 elems     elements 3, 2, 1, 0                            0  1 -1  0
//
// The first three are bitnet.cpp's (on x86, on ARM since November 2025, and a build option); trinity is that
// project's own, without a scale: its d is 1. Code 3 is never written. It is false for an unknown layout and for
// columns that the layout's blocks do not allow: those must not cross the end of a tensor whatever its rows, and
// trinity pads each row to whole bytes.
func I2S(layout string, cols int) (Ternary, bool) {
	if cols <= 0 || cols > math.MaxInt/4 {
		return Ternary{}, false
	}
	switch layout {
	case "128":
		return quarters(32, [4]float32{-1, 0, 1, 0}), true
	case "64":
		return quarters(16, [4]float32{-1, 0, 1, 0}), true
	case "rows4":
		return quarters(cols, [4]float32{-1, 0, 1, 0}), true
	case "trinity":
		return Ternary{Elems: 4, Bytes: 1, Decode: trinity}, cols%4 == 0
	}
	return Ternary{}, false
}

// I2SLayouts are the layouts that I2S knows.
var I2SLayouts = []string{"128", "64", "rows4", "trinity"}

// quarters decodes blocks of n bytes whose bits 7-6 are the first n elements, bits 5-4 the next n and so on.
func quarters(n int, levels [4]float32) Ternary {
	pick := pickHalves
	if accelerated != nil && accelerated.picks != nil {
		pick = accelerated.picks
	}
	return Ternary{Elems: 4 * n, Bytes: n, Decode: func(dst, src []byte, d float32) {
		checkBlocks("I2_S", len(dst), len(src), 8*n, n)
		h := ternaryHalves(d, levels)
		pick(dst, src, n, h)
	}}
}

// pickHalves is the plain pickFunc; it puts four halves at a time together.
func pickHalves(dst, src []byte, n int, h [4]uint16) {
	for ; len(src) > 0; src = src[n:] {
		for shift := 6; shift >= 0; shift -= 2 {
			block, out := src[:n], dst[:2*n]
			for ; len(block) >= 4 && len(out) >= 8; block, out = block[4:], out[8:] {
				four := binary.LittleEndian.Uint32(block) >> shift
				binary.LittleEndian.PutUint64(out, uint64(h[four&3])|uint64(h[four>>8&3])<<16|
					uint64(h[four>>16&3])<<32|uint64(h[four>>24&3])<<48)
			}
			for j, b := range block {
				binary.LittleEndian.PutUint16(out[2*j:], h[b>>shift&3])
			}
			dst = dst[2*n:]
		}
	}
}

// trinity has no implementation but this: nobody is known to write such files.
func trinity(dst, src []byte, d float32) {
	checkBlocks("I2_S trinity", len(dst), len(src), 8, 1)
	h := ternaryHalves(d, [4]float32{0, 1, -1, 0})
	for i, b := range src {
		out := uint64(h[b&3]) | uint64(h[b>>2&3])<<16 | uint64(h[b>>4&3])<<32 | uint64(h[b>>6])<<48
		binary.LittleEndian.PutUint64(dst[8*i:], out)
	}
}

// ternaryHalves rounds the four values that codes can have.
func ternaryHalves(d float32, levels [4]float32) (halves [4]uint16) {
	var v [4]float32
	for c, level := range levels {
		v[c] = d * level
	}
	var b [8]byte
	round(b[:], v[:])
	for c := range halves {
		halves[c] = binary.LittleEndian.Uint16(b[2*c:])
	}
	return halves
}
