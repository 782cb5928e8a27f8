package kernel

import (
	"encoding/binary"
	"math"
)

func f32(dst, src []byte, to Float) {
	if to == Single {
		copy(dst, src)
		return
	}
	for i := range len(src) / 4 {
		binary.LittleEndian.PutUint16(dst[2*i:], half(binary.LittleEndian.Uint32(src[4*i:])))
	}
}

// f16 copies: a NaN keeps its payload. It keeps it as F32, too, but becomes quiet as processors have it.
func f16(dst, src []byte, to Float) {
	if to == Half {
		copy(dst, src)
		return
	}
	for i := range len(src) / 2 {
		binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(quiet(widen(binary.LittleEndian.Uint16(src[2*i:])))))
	}
}

func numberF32(b []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b)) }

func numberBF16(b []byte) float32 {
	return math.Float32frombits(uint32(binary.LittleEndian.Uint16(b)) << 16)
}

// bf16 is the upper half of an F32.
func bf16(dst, src []byte, to Float) {
	if to == Single {
		for ; len(src) >= 4; dst, src = dst[8:], src[4:] {
			two := uint64(binary.LittleEndian.Uint32(src))
			binary.LittleEndian.PutUint64(dst, two<<16&0xFFFF_0000|two>>16<<48)
		}
		for i := range len(src) / 2 {
			binary.LittleEndian.PutUint32(dst[4*i:], uint32(binary.LittleEndian.Uint16(src[2*i:]))<<16)
		}
		return
	}
	for i := range len(src) / 2 {
		binary.LittleEndian.PutUint16(dst[2*i:], half(uint32(binary.LittleEndian.Uint16(src[2*i:]))<<16))
	}
}

// f64 rounds twice to half, to F32 first: the F32 value is the reference for every type here.
func f64(dst, src []byte, to Float) {
	for i := range len(src) / 8 {
		x := math.Float64frombits(binary.LittleEndian.Uint64(src[8*i:]))
		b := math.Float32bits(float32(x))
		if x != x { // with its sign, as a stored NaN, but no payload
			b = uint32(math.Float64bits(x)>>32)&0x8000_0000 | quietNaN
		}
		if to == Single {
			binary.LittleEndian.PutUint32(dst[4*i:], b)
		} else {
			binary.LittleEndian.PutUint16(dst[2*i:], half(b))
		}
	}
}
