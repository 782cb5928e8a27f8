package kernel

import (
	"bytes"
	"encoding/binary"
	"math"
	"sync"
)

// Repacking moves codes from a bit stream (see go_group.go) into the nibble arrays of go_q32.go and go_fp4.go, eight
// codes at a time in a word.

// spread puts eight codes of so many bits, at most 4, low bits first, into the bytes of a word.
func spread(w uint64, bits int) uint64 {
	free := 8 - bits
	w = (w | w<<(4*free)) & ((1<<(4*bits) - 1) * 0x0000_0001_0000_0001)
	w = (w | w<<(2*free)) & ((1<<(2*bits) - 1) * 0x0001_0001_0001_0001)
	return (w | w<<free) & ((1<<bits - 1) * 0x0101_0101_0101_0101)
}

// spread4 is spread for nibbles.
func spread4(w uint64) uint64 {
	w = (w | w<<16) & 0x0000_FFFF_0000_FFFF
	w = (w | w<<8) & 0x00FF_00FF_00FF_00FF
	return (w | w<<4) & 0x0F0F_0F0F_0F0F_0F0F
}

// spread5 is spread for 5 bits. More bits would be left at the places of others.
func spread5(w uint64) uint64 {
	w = w&0x0000_0000_000F_FFFF | w<<12&0x000F_FFFF_0000_0000
	w = w&0x0000_03FF_0000_03FF | w<<6&0x03FF_0000_03FF_0000
	return w&0x001F_001F_001F_001F | w<<3&0x1F00_1F00_1F00_1F00
}

// pairHalves writes 32 nibbles, low bits first in 16 bytes, as a nibble array: element j with element j+16.
func pairHalves(dst, codes []byte) {
	a, b := binary.LittleEndian.Uint64(codes), binary.LittleEndian.Uint64(codes[8:])
	binary.LittleEndian.PutUint64(dst, spread4(a&0xFFFF_FFFF)|spread4(b&0xFFFF_FFFF)<<4)
	binary.LittleEndian.PutUint64(dst[8:], spread4(a>>32)|spread4(b>>32)<<4)
}

// codes4 and the like write 32 codes as a block's codes.
func codes4(dst, codes []byte) { pairHalves(dst, codes) }

func codes2(dst, codes []byte) {
	w := binary.LittleEndian.Uint64(codes)
	binary.LittleEndian.PutUint64(dst, spread(w&0xFFFF, 2)|spread(w>>32&0xFFFF, 2)<<4)
	binary.LittleEndian.PutUint64(dst[8:], spread(w>>16&0xFFFF, 2)|spread(w>>48, 2)<<4)
}

func codes3(dst, codes []byte) {
	a, b := binary.LittleEndian.Uint64(codes), binary.LittleEndian.Uint64(codes[4:]) // bits 0 to 63 and 32 to 95
	binary.LittleEndian.PutUint64(dst, spread(a&0xFF_FFFF, 3)|spread(b>>16&0xFF_FFFF, 3)<<4)
	binary.LittleEndian.PutUint64(dst[8:], spread(a>>24&0xFF_FFFF, 3)|spread(b>>40, 3)<<4)
}

// codes5 writes the fifth bits before the nibbles.
func codes5(dst, codes []byte) {
	const fourBits, oneBit = 0x0F0F_0F0F_0F0F_0F0F, 0x0101_0101_0101_0101
	var w [4]uint64
	w[0] = spread5(binary.LittleEndian.Uint64(codes))
	w[1] = spread5(binary.LittleEndian.Uint64(codes[5:]))
	w[2] = spread5(binary.LittleEndian.Uint64(codes[10:]))
	w[3] = spread5(binary.LittleEndian.Uint64(codes[12:]) >> 24)
	for i, x := range w {
		dst[i] = byte(x >> 4 & oneBit * 0x0102_0408_1020_4080 >> 56) // the product gathers the bits in its top byte
	}
	binary.LittleEndian.PutUint64(dst[4:], w[0]&fourBits|w[2]&fourBits<<4)
	binary.LittleEndian.PutUint64(dst[12:], w[1]&fourBits|w[3]&fourBits<<4)
}

// goRepacks is the plain Go implementation, and the list of what exists.
var goRepacks = sync.OnceValue(func() map[groupKey]repackFunc {
	t := map[groupKey]repackFunc{
		{"mxfp4", 4, "U8"}: repackMXFP4,
		{"mxfp8", 8, "U8"}: repackMXFP8,
		{"nvfp4", 4, "U8"}: repackNVFP4,
	}
	for _, bits := range []int{2, 3, 4, 5} {
		for _, scale := range rows {
			if scale.isAffine() {
				t[groupKey{"affine", bits, scale.Name}] = repackAffine(bits, scale.Name)
			}
		}
	}
	return t
})

// repackAffine makes Q4_1 or Q5_1: every block of a group repeats its scale as d and its bias as m.
func repackAffine(bits int, scale string) repackFunc {
	size, read := scaleBytes(scale), typeOf(scale).Number
	write, block := codes4, 20
	switch bits {
	case 2:
		write = codes2
	case 3:
		write = codes3
	case 5:
		write, block = codes5, 24
	}
	return func(dst, codes, scales, biases []byte, group int) (done int) {
		for ; len(scales) > 0; done++ {
			d, m, ok := halfScales(read(scales), read(biases), codes[:group*bits/8])
			if !ok {
				return done
			}
			for range group / 32 {
				out := dst[:block]
				binary.LittleEndian.PutUint32(out, uint32(d)|uint32(m)<<16)
				write(out[4:], codes)
				dst, codes = dst[block:], codes[4*bits:]
			}
			scales, biases = scales[size:], biases[size:]
		}
		return done
	}
}

// halfScales returns the scale and the bias of a group as halves, and whether these give
// the same numbers. A scale that no half equals does not matter if it is multiplied only by
// zeros: MLX writes one for groups of equal numbers.
func halfScales(s, b float32, codes []byte) (d, m uint16, ok bool) {
	d, okD := exactHalf(s)
	m, okM := exactHalf(b)
	if !okD && allZero(codes) {
		return 0, m, okM
	}
	return d, m, okD && okM
}

// exactHalf returns the half that x rounds to, and whether it is equal to x, or a NaN as x is.
func exactHalf(x float32) (uint16, bool) {
	h := half(math.Float32bits(x))
	return h, widen(h) == x || x != x
}

var zeros [4096]byte

func allZero(b []byte) bool {
	for len(b) > len(zeros) {
		if !bytes.Equal(b[:len(zeros)], zeros[:]) {
			return false
		}
		b = b[len(zeros):]
	}
	return bytes.Equal(b, zeros[:len(b)])
}

func repackMXFP4(dst, codes, scales, _ []byte, _ int) int {
	for i, s := range scales {
		if s == 0xFF {
			return i
		}
		out := dst[17*i:][:17]
		out[0] = s
		pairHalves(out[1:], codes[16*i:])
	}
	return len(scales)
}

func repackNVFP4(dst, codes, scales, _ []byte, _ int) (done int) {
	for ; len(scales) > 0; done++ {
		out := dst[:36]
		for i, s := range scales[:4] {
			if s > 0x7E {
				return done
			}
			w := binary.LittleEndian.Uint64(codes[8*i:])
			binary.LittleEndian.PutUint64(out[4+8*i:], spread4(w&0xFFFF_FFFF)|spread4(w>>32)<<4)
		}
		copy(out, scales[:4])
		dst, codes, scales = dst[36:], codes[32:], scales[4:]
	}
	return done
}

// normalMXFP8 is the smallest scale that makes no number below 2^-126 of the smallest code, which is 2^-9.
const normalMXFP8 = 10

func repackMXFP8(dst, codes, scales, _ []byte, _ int) int {
	for i, s := range scales {
		if s == 0xFF {
			return i
		}
		d, out := e8m0[s], dst[64*i:][:64]
		for j, c := range codes[32*i:][:32] {
			b := math.Float32bits(e4m3MLX[c] * d)
			if s < normalMXFP8 && b&0x7FFF_FFFF-1 < 0x007F_FFFF {
				return i
			}
			binary.LittleEndian.PutUint16(out[2*j:], uint16(b>>16))
		}
	}
	return len(scales)
}

// scalesFrom finds the first scale that is not from low to high.
func scalesFrom(low, high byte) func(scales, _ []byte) int {
	return func(scales, _ []byte) int { return within(scales, low, high) }
}

// within returns the index of the first byte that is not from low to high, or the number of bytes.
func within(b []byte, low, high byte) int {
	for i, s := range b {
		if s-low > high-low {
			return i
		}
	}
	return len(b)
}

// exactScales finds the first group whose scale or bias is not a half.
func exactScales(scale string) func(scales, biases []byte) int {
	size := scaleBytes(scale)
	return func(scales, biases []byte) int {
		n := exactHalves(scale, scales)
		return exactHalves(scale, biases[:n*size])
	}
}

// exactHalves returns how many floats at the start of b are equal to halves.
func exactHalves(dtype string, b []byte) int {
	if fast := accelerated(); fast != nil && fast.exact != nil {
		return fast.exact(dtype, b)
	}
	return goExactHalves(dtype, b)
}

func goExactHalves(dtype string, b []byte) int {
	switch dtype {
	case "F16":
		return len(b) / 2
	case "BF16":
		return exactBF16(b)
	}
	return exactF32(b)
}

// exactBF16 looks at four floats at a time: all with a magnitude from 2^-17 to 65280 are halves, and so is zero.
func exactBF16(b []byte) int {
	const (
		each = 0x0001_0001_0001_0001
		sign = 0x8000 * each
		low  = 0x3700 * each
		high = 0x477F * each
	)
	for i := 0; i < len(b); i += 2 {
		for ; i+8 <= len(b); i += 8 { // differences leave the top bit of each set if they are not negative
			m := binary.LittleEndian.Uint64(b[i:]) &^ sign
			if ((m|sign)-low)&(high|sign-m)&sign|(sign-m)&sign != sign {
				break
			}
		}
		if i < len(b) {
			if _, ok := exactHalf(numberBF16(b[i:])); !ok {
				return i / 2
			}
		}
	}
	return len(b) / 2
}

// exactF32 knows normal halves by their bits.
func exactF32(b []byte) int {
	for i := 0; i < len(b); i += 4 {
		m := binary.LittleEndian.Uint32(b[i:]) & 0x7FFF_FFFF
		if m&0x1FFF == 0 && m-0x3880_0000 < 0x0F00_0000 {
			continue
		}
		if _, ok := exactHalf(math.Float32frombits(m)); !ok {
			return i / 4
		}
	}
	return len(b) / 4
}
