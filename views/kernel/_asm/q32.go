package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

func q32() {
	blocks("q4_0", 18, 32, func() func(dst, src Mem) {
		return func(dst, src Mem) {
			codebook(symmetric, scale(src), nil).store(halfNibbles(src.Offset(2)), dst)
		}
	})
	blocks("q4_1", 20, 32, func() func(dst, src Mem) {
		return func(dst, src Mem) {
			d, m := scaleMin(src)
			codebook(counting, d, m).store(halfNibbles(src.Offset(4)), dst)
		}
	})
	blocks("q5_0", 22, 32, func() func(dst, src Mem) {
		return func(dst, src Mem) {
			d, q, fifth := scale(src), nibbles(src.Offset(6)), bits(src.Offset(2))
			VPANDN(bytes(0xF0), fifth, fifth) // -16 without the bit
			VPOR(fifth, q, q)
			signed(q).times(d).store(dst)
		}
	})
	blocks("q5_1", 24, 32, func() func(dst, src Mem) {
		return func(dst, src Mem) {
			d, m := scaleMin(src)
			q, fifth := nibbles(src.Offset(8)), bits(src.Offset(4))
			VPAND(bytes(0x10), fifth, fifth)
			VPOR(fifth, q, q)
			unsigned(q).timesPlus(d, m).store(dst)
		}
	})
	blocks("q6_0", 26, 32, func() func(dst, src Mem) {
		return func(dst, src Mem) {
			d, q, high := scale(src), nibbles(src.Offset(10)), YMM()
			VPBROADCASTQ(src.Offset(2), high)
			VPSRLVQ(quads(0, 4, 2, 6), high, high)
			VPAND(bytes(3), high, high)
			VPSLLW(Imm(4), high, high)
			VPOR(high, q, q)
			VPSUBB(bytes(32), q, q)
			signed(q).times(d).store(dst)
		}
	})
	blocks("q8_0", 34, 32, func() func(dst, src Mem) {
		return func(dst, src Mem) { signed(src.Offset(2)).times(scale(src)).storeJoined(dst) }
	})
	blocks("q8_1", 36, 32, func() func(dst, src Mem) {
		return func(dst, src Mem) { signed(src.Offset(4)).times(scale(src)).storeJoined(dst) }
	})
}

// nibbles returns 16 bytes as the 32 elements of a Q4_0 block, in order.
func nibbles(src Mem) VecVirtual {
	y := YMM()
	VBROADCASTI128(src, y)
	VPSRLVQ(quads(0, 0, 4, 4), y, y)
	VPAND(bytes(15), y, y)
	return y
}

// bits returns 32 bits as bytes of all ones or zero.
func bits(src Mem) VecVirtual {
	y, one := YMM(), bytes(1, 2, 4, 8, 16, 32, 64, 128)
	VPBROADCASTD(src, y)
	VPSHUFB(bytes(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3), y, y)
	VPAND(one, y, y)
	VPCMPEQB(one, y, y)
	return y
}
