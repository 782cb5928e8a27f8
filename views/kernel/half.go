package kernel

import (
	"encoding/binary"
	"math"
)

// Float is a format of decoded numbers; its value is the size of one in bytes.
type Float int

// The formats: IEEE half, and the F32 value that is rounded to it.
const (
	Half   Float = 2
	Single Float = 4
)

// name is the stored type of these numbers, which decodes by copying.
func (to Float) name() string {
	if to == Single {
		return "F32"
	}
	return "F16"
}

// quietNaN is the F32 NaN of every computation.
const quietNaN = 0x7FC0_0000

// put stores computed values and returns the rest of dst. It calls functions directly and not by a value, so that v stays on the stack.
func (to Float) put(dst []byte, v []float32) []byte {
	if to == Half {
		return round(dst, v)
	}
	out := dst[:4*len(v)]
	for i, x := range v {
		b := math.Float32bits(x)
		if x != x {
			b = quietNaN
		}
		binary.LittleEndian.PutUint32(out[4*i:], b)
	}
	return dst[4*len(v):]
}

// quiet makes a signalling NaN quiet.
func quiet(x float32) float32 {
	b := math.Float32bits(x)
	if b&0x7FFF_FFFF > 0x7F80_0000 {
		b |= 1 << 22
	}
	return math.Float32frombits(b)
}

// half rounds the float with the given F32 bits to IEEE half, nearest even. NaN keeps its sign and becomes quiet with
// no payload.
func half(b uint32) uint16 { return uint16(b>>16&0x8000 | magnitude(b&0x7FFF_FFFF)) }

// magnitude is half without the sign. The first case is nearly all there is and costs one predicted branch.
func magnitude(m uint32) uint32 {
	if m-0x3880_0000 < 0x0F00_0000 { // 2^-14 to 65536: correct the bias, round; a carry into the exponent is right
		return (m - 0x3800_0000 + 0xFFF + m>>13&1) >> 13
	}
	if m < 0x3880_0000 { // the last place of 0.5 is 2^-24 like a subnormal half's: the addition rounds
		return math.Float32bits(math.Float32frombits(m)+0.5) - 0x3F00_0000
	}
	if m > 0x7F80_0000 {
		return 0x7E00
	}
	return 0x7C00
}

// round stores computed values as halves and returns the rest of dst. A NaN loses its sign: which one arithmetic gives
// depends on the processor.
func round(dst []byte, v []float32) []byte {
	out := dst[:2*len(v)]
	for i, x := range v {
		b := math.Float32bits(x)
		sign, h := b>>16&0x8000, magnitude(b&0x7FFF_FFFF)
		if h > 0x7C00 {
			sign = 0
		}
		binary.LittleEndian.PutUint16(out[2*i:], uint16(sign|h))
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
