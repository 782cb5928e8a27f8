package kernel

import (
	"encoding/binary"
	"math"
)

// half rounds the float with the given F32 bits to IEEE half, nearest even. NaN keeps its sign and becomes quiet with
// no payload.
//
// With f = 1.m * 2^E, the float 2^(E+13) + f has its last place at 2^(E-10), which is half's last place for exponent E:
// the addition itself rounds, and the difference of the bit patterns is f / 2^(E-10), from 1024 to 2048. Below half's
// smallest exponent E stays -14, which makes the difference the subnormal's mantissa.
func half(b uint32) uint16 {
	mag := b & 0x7FFF_FFFF
	m := min(mag, 0x4780_0000)           // 65536, which comes out as infinity
	e := max(m&0x7F80_0000, 0x3880_0000) // E, at least -14
	anchor := e + 13<<23                 // 2^(E+13)
	h := e>>13 - 113<<10 - anchor        // exponent E+14: the mantissa's 1024 adds the missing one
	h += math.Float32bits(math.Float32frombits(m) + math.Float32frombits(anchor))
	if mag > 0x7F80_0000 {
		h = 0x7E00
	}
	return uint16(b>>16&0x8000 | h)
}

// round stores computed values as halves and returns dst behind them. A NaN loses its sign: which one arithmetic gives
// depends on the processor.
func round(dst []byte, v []float32) []byte {
	out := dst[:2*len(v)]
	for i, x := range v {
		b := math.Float32bits(x)
		if x != x {
			b = 0x7FC0_0000
		}
		binary.LittleEndian.PutUint16(out[2*i:], half(b))
	}
	return dst[2*len(v):]
}

// widen returns a half as F32, which holds every half. Shifting puts exponent and mantissa into place, multiplying by
// 2^112 corrects the bias and normalises subnormals.
func widen(h uint16) float32 {
	f := math.Float32bits(math.Float32frombits(uint32(h)&0x7FFF<<13) * 0x1p112)
	if h&0x7C00 == 0x7C00 {
		f |= 0x7F80_0000
	}
	return math.Float32frombits(f | uint32(h)&0x8000<<16)
}

// wide returns the half at the start of b as F32.
func wide(b []byte) float32 { return widen(binary.LittleEndian.Uint16(b)) }

// flip returns x, negated if bit j of signs is set.
func flip(x float32, signs byte, j int) float32 {
	return math.Float32frombits(math.Float32bits(x) ^ uint32(signs>>(j&7)&1)<<31)
}
