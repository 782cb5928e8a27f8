package kernel

import (
	"encoding/binary"
	"math"
)

// The 8-bit floats, bit 7 the sign (E8M0 has none):
//
//	              s eeee mmm   bias   special codes
//	E4M3          1    4   3      7   0x7F and 0xFF NaN, no infinity
//	E4M3FNUZ      1    4   3      8   0x80 NaN, no infinity, no minus zero
//	E5M2          1    5   2     15   as IEEE: it is the upper byte of a half
//	E5M2FNUZ      1    5   2     16   0x80 NaN, no infinity, no minus zero
//	E8M0          0    8   0    127   0xFF NaN, no zero, no subnormals
//
// MLX and ggml differ at the special codes: MLX decodes E4M3 0x7F as 480, and both take E8M0 0xFF as a power of two.
var (
	e4m3     = float8Table(3, 7, 0x7F, 0xFF)
	e5m2     = float8Table(2, 15, 0x7D, 0x7E, 0x7F, 0xFD, 0xFE, 0xFF)
	e4m3fnuz = float8Table(3, 8, 0x80)
	e5m2fnuz = float8Table(2, 16, 0x80)
	e8m0NaN  = e8m0NaNTable()

	e4m3MLX = float8Table(3, 7)
	e8m0    = e8m0Table() // 0xFF is 2^128, which is infinity in F32
)

// float8 returns the value of code c with the given number of mantissa bits and exponent bias.
func float8(c, mantissa, bias int) float32 {
	m, e := c&(1<<mantissa-1), c&0x7F>>mantissa
	if e == 0 {
		e = 1
	} else {
		m |= 1 << mantissa
	}
	return float32(math.Copysign(math.Ldexp(float64(m), e-bias-mantissa), float64(0x7F-c)))
}

func float8Table(mantissa, bias int, nans ...int) (t [256]float32) {
	for c := range t {
		t[c] = float8(c, mantissa, bias)
	}
	if bias == 15 {
		t[0x7C], t[0xFC] = float32(math.Inf(1)), float32(math.Inf(-1))
	}
	for _, c := range nans {
		nan := uint32(0x7FC0_0000)
		if len(nans) > 1 && c > 0x7F { // the lone NaN of the FNUZ types has no sign
			nan |= 1 << 31
		}
		t[c] = math.Float32frombits(nan)
	}
	return t
}

func e8m0Table() (t [256]float32) {
	for c := range t {
		t[c] = float32(math.Ldexp(1, c-127))
	}
	return t
}

func e8m0NaNTable() [256]float32 {
	t := e8m0Table()
	t[255] = math.Float32frombits(0x7FC0_0000)
	return t
}

// f8Decoder looks the half of every code up in a table of its own.
func f8Decoder(values *[256]float32) func(dst, src []byte) {
	var halves [256]uint16
	for c, x := range values {
		halves[c] = half(math.Float32bits(x))
	}
	return func(dst, src []byte) {
		for i, c := range src {
			binary.LittleEndian.PutUint16(dst[2*i:], halves[c])
		}
	}
}

// ScaledF8 decodes F8_E4M3 codes of one block of a checkpoint with FP8 scales: code * scale in F32, rounded once.
// len(dst) = 2*len(src).
func ScaledF8(dst, src []byte, scale float32) { scaled("F8_E4M3", &e4m3, dst, src, scale) }

// ScaledF8E5M2 is ScaledF8 for F8_E5M2 codes.
func ScaledF8E5M2(dst, src []byte, scale float32) { scaled("F8_E5M2", &e5m2, dst, src, scale) }

func scaled(name string, values *[256]float32, dst, src []byte, scale float32) {
	checkBlocks(name, len(dst), len(src), 2, 1)
	var v [64]float32
	for len(src) > 0 {
		n := min(len(src), len(v))
		for i, c := range src[:n] {
			v[i] = values[c] * scale
		}
		dst, src = round(dst, v[:n]), src[n:]
	}
}
