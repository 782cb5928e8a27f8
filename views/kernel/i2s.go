package kernel

import (
	"encoding/binary"
	"math"
)

// Ternary decodes blocks of 2-bit codes that share one scale d, which BitNet files store elsewhere.
type Ternary struct {
	To           Float
	Elems, Bytes int
	Decode       func(dst, src []byte, d float32) // len(src) = n*Bytes, len(dst) = n*Elems numbers, any n >= 0
}

// I2S is [Float.I2S] to IEEE half.
func I2S(layout string, cols int) (Ternary, bool) { return Half.I2S(layout, cols) }

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
func (to Float) I2S(layout string, cols int) (Ternary, bool) {
	if cols <= 0 || cols > math.MaxInt/4 {
		return Ternary{}, false
	}
	switch layout {
	case "128":
		return to.quarters(32, [4]float32{-1, 0, 1, 0}), true
	case "64":
		return to.quarters(16, [4]float32{-1, 0, 1, 0}), true
	case "rows4":
		return to.quarters(cols, [4]float32{-1, 0, 1, 0}), true
	case "trinity":
		return Ternary{To: to, Elems: 4, Bytes: 1, Decode: to.trinity()}, cols%4 == 0
	}
	return Ternary{}, false
}

// I2SLayouts are the layouts that I2S knows.
var I2SLayouts = []string{"128", "64", "rows4", "trinity"}

// quarters decodes blocks of n bytes whose bits 7-6 are the first n elements, bits 5-4 the next n and so on.
func (to Float) quarters(n int, levels [4]float32) Ternary {
	pick, pickSingle := pickHalves, pickSingles
	if fast := accelerated(); fast != nil && fast.picks != nil {
		pick = fast.picks
	}
	if fast := acceleratedSingle(); fast != nil && fast.singlePicks != nil {
		pickSingle = fast.singlePicks
	}
	return Ternary{To: to, Elems: 4 * n, Bytes: n, Decode: func(dst, src []byte, d float32) {
		checkBlocks("I2_S", len(dst), len(src), int(to)*4*n, n)
		if to == Single {
			pickSingle(dst, src, n, ternarySingles(d, levels))
		} else {
			pick(dst, src, n, ternaryHalves(d, levels))
		}
	}}
}

// pickSingles is pickHalves for F32.
func pickSingles(dst, src []byte, n int, f [4]uint32) {
	for ; len(src) > 0; src = src[n:] {
		for shift := 6; shift >= 0; shift -= 2 {
			for j, b := range src[:n] {
				binary.LittleEndian.PutUint32(dst[4*j:], f[b>>shift&3])
			}
			dst = dst[4*n:]
		}
	}
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

// trinity has no implementation but this: no program is known to write such files.
func (to Float) trinity() func(dst, src []byte, d float32) {
	levels := [4]float32{0, 1, -1, 0}
	return func(dst, src []byte, d float32) {
		checkBlocks("I2_S trinity", len(dst), len(src), 4*int(to), 1)
		if to == Single {
			f := ternarySingles(d, levels)
			for i, b := range src {
				for j := range 4 {
					binary.LittleEndian.PutUint32(dst[16*i+4*j:], f[b>>(2*j)&3])
				}
			}
			return
		}
		h := ternaryHalves(d, levels)
		for i, b := range src {
			out := uint64(h[b&3]) | uint64(h[b>>2&3])<<16 | uint64(h[b>>4&3])<<32 | uint64(h[b>>6])<<48
			binary.LittleEndian.PutUint64(dst[8*i:], out)
		}
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

// ternarySingles returns the four values as F32.
func ternarySingles(d float32, levels [4]float32) (singles [4]uint32) {
	var v [4]float32
	for c, level := range levels {
		v[c] = d * level
	}
	var b [16]byte
	Single.put(b[:], v[:])
	for c := range singles {
		singles[c] = binary.LittleEndian.Uint32(b[4*c:])
	}
	return singles
}
