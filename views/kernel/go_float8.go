package kernel

import (
	"encoding/binary"
	"math"
	"sync"
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

func numberE8M0(b []byte) float32 { return e8m0NaN[b[0]] }

// float8 returns the value of code c with the given number of mantissa bits and exponent bias.
func float8(c, mantissa, bias int) float32 {
	m, e := c&(1<<mantissa-1), c&0x7F>>mantissa
	if e == 0 {
		e = 1
	} else {
		m |= 1 << mantissa
	}
	x := float32(m) * math.Float32frombits(uint32(e-bias-mantissa+127)<<23)
	return math.Float32frombits(math.Float32bits(x) | uint32(c&0x80)<<24)
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
		t[c] = math.Float32frombits(uint32(c) << 23)
	}
	t[0] = 0x1p-127
	return t
}

func e8m0NaNTable() [256]float32 {
	t := e8m0Table()
	t[255] = math.Float32frombits(0x7FC0_0000)
	return t
}

// f8Decoder looks the half of every code up in a table of its own.
func f8Decoder(values *[256]float32) func(dst, src []byte, to Float) {
	halves := sync.OnceValue(func() *[256]uint16 {
		t := new([256]uint16)
		for c, x := range values {
			t[c] = half(math.Float32bits(x))
		}
		return t
	})
	return func(dst, src []byte, to Float) {
		if to == Half {
			lookUp(dst, src, halves())
			return
		}
		for i, c := range src {
			binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(values[c]))
		}
	}
}

func lookUp(dst, src []byte, halves *[256]uint16) {
	for ; len(src) >= 4; dst, src = dst[8:], src[4:] {
		binary.LittleEndian.PutUint64(dst, uint64(halves[src[0]])|uint64(halves[src[1]])<<16|
			uint64(halves[src[2]])<<32|uint64(halves[src[3]])<<48)
	}
	for i, c := range src {
		binary.LittleEndian.PutUint16(dst[2*i:], halves[c])
	}
}

// scaled multiplies in F32 and rounds once. From 512 codes on a table of all products is less work than rounding each.
func scaled(values *[256]float32) func(dst, src []byte, scale float32, to Float) {
	return func(dst, src []byte, scale float32, to Float) {
		var v [256]float32
		if len(src) >= 512 && to == Half {
			for c, x := range values {
				v[c] = x * scale
			}
			var b [512]byte
			round(b[:], v[:])
			var halves [256]uint16
			for c := range halves {
				halves[c] = binary.LittleEndian.Uint16(b[2*c:])
			}
			lookUp(dst, src, &halves)
			return
		}
		for len(src) > 0 {
			n := min(len(src), len(v))
			for i, c := range src[:n] {
				v[i] = values[c] * scale
			}
			dst, src = to.put(dst, v[:n]), src[n:]
		}
	}
}
