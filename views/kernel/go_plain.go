package kernel

import (
	"encoding/binary"
	"math"
)

func f32(dst, src []byte) {
	for i := range len(src) / 4 {
		binary.LittleEndian.PutUint16(dst[2*i:], half(binary.LittleEndian.Uint32(src[4*i:])))
	}
}

// f16 copies: a NaN keeps its payload.
func f16(dst, src []byte) { copy(dst, src) }

func numberF32(b []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b)) }

func numberBF16(b []byte) float32 {
	return math.Float32frombits(uint32(binary.LittleEndian.Uint16(b)) << 16)
}

// bf16 is the upper half of an F32.
func bf16(dst, src []byte) {
	for i := range len(src) / 2 {
		binary.LittleEndian.PutUint16(dst[2*i:], half(uint32(binary.LittleEndian.Uint16(src[2*i:]))<<16))
	}
}

// f64 rounds twice, to F32 and then to half: the F32 value is the reference for every type here.
func f64(dst, src []byte) {
	for i := range len(src) / 8 {
		x := float32(math.Float64frombits(binary.LittleEndian.Uint64(src[8*i:])))
		binary.LittleEndian.PutUint16(dst[2*i:], half(math.Float32bits(x)))
	}
}
