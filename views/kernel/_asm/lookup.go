package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// A table holds up to 16 halves, low and high bytes apart, the same in both lanes; or as many F32, eight to a register.
// Indices come as 32 bytes in crossed
// order: elements 0-7 and 16-23 in the lower lane, 8-15 and 24-31 in the upper. Looking both bytes up and interleaving
// them then gives 32 halves in order.
type table struct{ low, high VecVirtual }

// cross brings 32 bytes in order into crossed order, and back.
func cross(y Op) VecVirtual {
	r := YMM()
	VPERMQ(Imm(0b11_01_10_00), y, r)
	return r
}

// split sorts eight halves of a lane into low and high bytes.
func split() Mem { return bytes(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15) }

// table16 rounds 16 values.
func table16(a, b VecVirtual) table {
	if single {
		return table{a, b}
	}
	VCVTPS2PH(Imm(0), a, a.AsX())
	VCVTPS2PH(Imm(0), b, b.AsX())
	y, t := YMM(), table{YMM(), YMM()}
	VINSERTI128(Imm(1), b.AsX(), a, y)
	VPSHUFB(split(), y, y)
	VPERMQ(Imm(0b10_00_10_00), y, t.low)
	VPERMQ(Imm(0b11_01_11_01), y, t.high)
	return t
}

// table8 rounds eight values.
func table8(a VecVirtual) table {
	if single {
		return table{a, a}
	}
	VCVTPS2PH(Imm(0), a, a.AsX())
	return tableOf(a)
}

// tableOf takes the eight halves in the lower lane.
func tableOf(y VecVirtual) table {
	t := table{YMM(), YMM()}
	VPSHUFB(split(), y.AsX(), y.AsX())
	VPERMQ(Imm(0b00_00_00_00), y, t.low)
	VPERMQ(Imm(0b01_01_01_01), y, t.high)
	return t
}

// times multiplies y by d in place and returns it.
func times(y VecVirtual, d Op) VecVirtual {
	VMULPS(d, y, y)
	return y
}

// product returns levels * d.
func product(levels Mem, d VecVirtual) VecVirtual {
	r := YMM()
	VMULPS(levels, d, r)
	return r
}

// linear returns levels * d + m, rounding twice as plain Go does, or levels * d without m.
func linear(levels Mem, d, m VecVirtual) VecVirtual {
	r := product(levels, d)
	if m != nil {
		VADDPS(m, r, r)
	}
	return r
}

// store looks up 32 elements. It leaves index alone.
func (t table) store(index VecVirtual, dst Mem) {
	if single {
		inLanes(index, func(i int, q VecVirtual) {
			y := element(t.low, q)
			if t.high != t.low { // bit 3 becomes the sign, which chooses
				high := element(t.high, q)
				VPSLLD(Imm(28), q, q)
				VBLENDVPS(q, high, y, y)
			}
			VMOVUPS(y, at(dst, 8*i))
		})
		return
	}
	low, high := YMM(), YMM()
	VPSHUFB(index, t.low, low)
	VPSHUFB(index, t.high, high)
	interleave(low, high, dst)
}

// element returns elements of eight F32, by the lowest three bits of q.
func element(t, q VecVirtual) VecVirtual {
	y := YMM()
	VPERMPS(t, q, y)
	return y
}

// inLanes calls use with the 32 bytes of a crossed index in order, eight at a time, one a lane of 32 bits.
func inLanes(index VecVirtual, use func(i int, q VecVirtual)) {
	for i := range 4 {
		x, q := index.AsX(), YMM()
		if i%2 == 1 {
			x = XMM()
			VEXTRACTI128(Imm(1), index, x)
		}
		if i >= 2 {
			y := XMM()
			VPSHUFD(Imm(0b11_10_11_10), x, y)
			x = y
		}
		VPMOVZXBD(x, q)
		use(i, q)
	}
}

func interleave(low, high VecVirtual, dst Mem) {
	y := YMM()
	VPUNPCKLBW(high, low, y)
	VPUNPCKHBW(high, low, high)
	VMOVDQU(y, dst)
	VMOVDQU(high, dst.Offset(32))
}

// halfNibbles returns the 32 nibbles of 16 bytes in crossed order; element j is the low, j+16 the high nibble of byte j.
func halfNibbles(src Mem) VecVirtual {
	y := YMM()
	VMOVDQU(src, y.AsX())
	VPERMQ(Imm(0b01_01_00_00), y, y)
	VPSRLVQ(quads(0, 4), y, y)
	VPAND(bytes(15), y, y)
	return y
}

// pairNibbles is halfNibbles with elements 2j and 2j+1 in byte j.
func pairNibbles(src Mem) VecVirtual {
	y, high := YMM(), YMM()
	VBROADCASTI128(src, y)
	VPSHUFB(bytes(0, 0, 1, 1, 2, 2, 3, 3, 8, 8, 9, 9, 10, 10, 11, 11, 4, 4, 5, 5, 6, 6, 7, 7, 12, 12, 13, 13, 14, 14, 15, 15), y, y)
	VPSRLW(Imm(4), y, high)
	VPAND(words(0x0F00), high, high)
	VPAND(words(0x000F), y, y)
	VPOR(high, y, y)
	return y
}

// Levels of the types with a codebook of 16.
var (
	symmetric = [16]float32{-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7}
	counting  = [16]float32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
	iq4Levels = [16]float32{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}
	fp4Levels = [16]float32{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12} // doubled; code 8 is plain zero
)

// codebook returns the table of levels * d + m; m may be nil.
func codebook(levels [16]float32, d, m VecVirtual) table {
	return table16(linear(floats(levels[:8]...), d, m), linear(floats(levels[8:]...), d, m))
}
