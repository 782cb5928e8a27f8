package kernel

import (
	"encoding/binary"
	"math"
)

// Splitting moves codes from the nibble arrays of go_q32.go and go_fp4.go into a bit stream (see go_group.go), eight
// codes at a time in a word.

// goSplits is the list of what exists.
var goSplits = []Split{
	{Name: "Q4_0", Mode: "affine", Bits: 4, Group: 32, Scale: "F16", Codes: nibbles(18, 2), Scales: field(18, 0, 2), Biases: offset(18, 3)},
	{Name: "Q4_1", Mode: "affine", Bits: 4, Group: 32, Scale: "F16", Codes: nibbles(20, 4), Scales: field(20, 0, 2), Biases: field(20, 2, 2)},
	{Name: "Q5_0", Mode: "affine", Bits: 5, Group: 32, Scale: "F16", Codes: fiveBits(22, 2), Scales: field(22, 0, 2), Biases: offset(22, 4)},
	{Name: "Q5_1", Mode: "affine", Bits: 5, Group: 32, Scale: "F16", Codes: fiveBits(24, 4), Scales: field(24, 0, 2), Biases: field(24, 2, 2)},
	{Name: "Q8_0", Mode: "affine", Bits: 8, Group: 32, Scale: "F16", Codes: wholeBytes, Scales: field(34, 0, 2), Biases: offset(34, 7)},
	{Name: "MXFP4", Mode: "mxfp4", Bits: 4, Group: 32, Scale: "U8", Codes: nibbles(17, 1), Scales: field(17, 0, 1)},
	{Name: "NVFP4", Mode: "nvfp4", Bits: 4, Group: 16, Scale: "U8", Codes: nibblesNVFP4, Scales: field(36, 0, 4)},
}

const lowNibbles = 0x0F0F_0F0F_0F0F_0F0F

// gather4 undoes spread4: the low nibbles of eight bytes, the first lowest.
func gather4(w uint64) uint64 {
	w &= lowNibbles
	w = (w | w>>4) & 0x00FF_00FF_00FF_00FF
	w = (w | w>>8) & 0x0000_FFFF_0000_FFFF
	return (w | w>>16) & 0xFFFF_FFFF
}

// gather5 undoes spread5, for bytes below 32.
func gather5(w uint64) uint64 {
	w = w&0x001F_001F_001F_001F | w>>3&0x03E0_03E0_03E0_03E0
	w = w&0x0000_03FF_0000_03FF | w>>6&0x000F_FC00_000F_FC00
	return w&0x0F_FFFF | w>>12&0xFF_FFF0_0000
}

// bitOfEach puts bit i of b into byte i, as 0x10.
func bitOfEach(b byte) uint64 {
	w := uint64(b) * 0x0101_0101_0101_0101 & 0x8040_2010_0804_0201 // bit i is left in byte i
	return (w + 0x7F7F_7F7F_7F7F_7F7F) >> 3 & 0x1010_1010_1010_1010
}

// nibbles returns the splitting of a nibble array, at some byte of blocks of so many, where byte j holds element j and
// element j+16.
func nibbles(block, at int) func(dst, src []byte) {
	return func(dst, src []byte) {
		for ; len(dst) >= 16; src, dst = src[block:], dst[16:] {
			q, out := src[at:at+16:at+16], dst[:16:16]
			a, b := binary.LittleEndian.Uint64(q), binary.LittleEndian.Uint64(q[8:])
			binary.LittleEndian.PutUint64(out, gather4(a)|gather4(b)<<32)
			binary.LittleEndian.PutUint64(out[8:], gather4(a>>4)|gather4(b>>4)<<32)
		}
	}
}

// fiveBits is nibbles after a word with the fifth bits.
func fiveBits(block, at int) func(dst, src []byte) {
	return func(dst, src []byte) {
		for ; len(src) > 0; src, dst = src[block:], dst[20:] {
			q, out := src[at:at+20], dst[:20]
			a, b := binary.LittleEndian.Uint64(q[4:]), binary.LittleEndian.Uint64(q[12:])
			v0 := gather5(a&lowNibbles | bitOfEach(q[0]))
			v1 := gather5(b&lowNibbles | bitOfEach(q[1]))
			v2 := gather5(a>>4&lowNibbles | bitOfEach(q[2]))
			v3 := gather5(b>>4&lowNibbles | bitOfEach(q[3]))
			binary.LittleEndian.PutUint64(out, v0|v1<<40)
			binary.LittleEndian.PutUint64(out[8:], v1>>24|v2<<16|v3<<56)
			binary.LittleEndian.PutUint32(out[16:], uint32(v3>>8))
		}
	}
}

// wholeBytes makes the signed codes of Q8_0 unsigned.
func wholeBytes(dst, src []byte) {
	const sign = 0x8080_8080_8080_8080
	for ; len(src) > 0; src, dst = src[34:], dst[32:] {
		q, out := src[2:34], dst[:32]
		for i := 0; i < 32; i += 8 {
			binary.LittleEndian.PutUint64(out[i:], binary.LittleEndian.Uint64(q[i:])^sign)
		}
	}
}

// nibblesNVFP4: of the 16 elements of a scale, the first eight are the low nibbles of its bytes.
func nibblesNVFP4(dst, src []byte) {
	for ; len(src) > 0; src, dst = src[36:], dst[32:] {
		q, out := src[4:36], dst[:32]
		for i := 0; i < 32; i += 8 {
			w := binary.LittleEndian.Uint64(q[i:])
			binary.LittleEndian.PutUint64(out[i:], gather4(w)|gather4(w>>4)<<32)
		}
	}
}

// field copies a number of every block. Numbers of other sizes than 1, 2 and 4 bytes do not occur.
func field(block, at, n int) func(dst, src []byte) {
	switch n {
	case 1:
		return func(dst, src []byte) {
			for i := range dst {
				dst[i] = src[i*block+at]
			}
		}
	case 2:
		return func(dst, src []byte) {
			for i, from := 0, at; i < len(dst)-1; i, from = i+2, from+block {
				binary.LittleEndian.PutUint16(dst[i:], binary.LittleEndian.Uint16(src[from:]))
			}
		}
	}
	return func(dst, src []byte) {
		for ; len(dst) >= 4; src, dst = src[block:], dst[4:] {
			binary.LittleEndian.PutUint32(dst, binary.LittleEndian.Uint32(src[at:]))
		}
	}
}

// offset writes the number for code 0, if codes are less than the elements by 2^power: -d *
// 2^power. The product is exact, and only its sign and exponent differ from d's if d is an
// ordinary half.
func offset(block, power int) func(dst, src []byte) {
	by := -float32(int(1) << power)
	last := uint16(31-power) << 10 // exponents from here on become too large
	add := uint16(power) << 10
	return func(dst, src []byte) {
		for i, from := 0, 0; i < len(dst)-1; i, from = i+2, from+block {
			d := binary.LittleEndian.Uint16(src[from:])
			if e := d & 0x7C00; e-0x0400 < last-0x0400 {
				d = d ^ 0x8000 + add
			} else {
				d = half(math.Float32bits(widen(d) * by))
			}
			binary.LittleEndian.PutUint16(dst[i:], d)
		}
	}
}
