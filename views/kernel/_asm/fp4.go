package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

func fp4() {
	blocks("mxfp4", 17, 32, func() func(dst, src Mem) {
		return func(dst, src Mem) {
			codebook(fp4Levels, halfPowerOfTwo(src), nil).store(halfNibbles(src.Offset(1)), dst)
		}
	})
	// Two sub-blocks share a table of eight magnitudes each; the sign goes into the high byte.
	blocks("nvfp4", 36, 64, func() func(dst, src Mem) {
		return func(dst, src Mem) {
			d := ue4m3(src)
			for i := range 2 {
				q := YMM()
				VBROADCASTI128(src.Offset(4+16*i), q)
				VPSRLVQ(quads(0, 0, 4, 4), q, q)
				VPAND(bytes(15), q, q)
				VPSHUFB(q, inRegister(bytes(0, 1, 2, 3, 4, 5, 6, 7, 0, 9, 10, 11, 12, 13, 14, 15)), q) // 8 is plain zero
				magnitudes(fp4Levels, d(2*i), d(2*i+1), nil).storeSigned(q, at(dst, 32*i))
			}
		}
	})
}

// halfPowerOfTwo returns 2^(e-128) for the byte e at m. For halves it is taken as zero for e of 0 and 1: all their
// products round to zero of the same sign.
func halfPowerOfTwo(m Mem) VecVirtual {
	d := YMM()
	if single {
		e, small := load8(m), GP32() // 2^-128 and 2^-127 are subnormal
		IMUL3L(U32(1<<21), e, small)
		ADDL(U32(1<<21), small)
		DECL(e)
		SHLL(Imm(23), e)
		CMPL(small, U32(3<<21))
		CMOVLCS(small, e)
		VMOVD(e, d.AsX())
		VPBROADCASTD(d.AsX(), d)
		return d
	}
	VPBROADCASTB(m, d)
	VPSUBUSB(bytes(1), d, d)
	VPAND(bytes(255, 0, 0, 0), d, d)
	VPSLLD(Imm(23), d, d)
	return d
}

// ue4m3 returns half the value of four unsigned E4M3 scales. Shifted by 7 the code is the half of 2^-8 times its
// value. Code 0x7F is zero, but not 0xFF.
func ue4m3(src Mem) func(i int) VecVirtual {
	x, zero := XMM(), XMM()
	VMOVD(src, x)
	VPMOVZXBW(x, x)
	VPCMPEQW(words(0x7F), x, zero)
	VPANDN(x, zero, x)
	VPAND(words(0x7F), x, x)
	VPSLLW(Imm(7), x, x)
	y := YMM()
	VCVTPH2PS(x, y)
	VMULPS(floats(128), y, y)
	return each(y)
}

// magnitudes is a table of the first eight levels for two scales, factor applied after them.
func magnitudes(levels [16]float32, a, b, factor VecVirtual) table {
	x, y := product(floats(levels[:8]...), a), product(floats(levels[:8]...), b)
	if factor != nil {
		VMULPS(factor, x, x)
		VMULPS(factor, y, y)
	}
	return table16(x, y)
}

// storeSigned looks 32 codes up whose bit 3 is the sign, elements 0-15 in the lower half of the table.
func (t table) storeSigned(q VecVirtual, dst Mem) {
	if single {
		inLanes(q, func(i int, q VecVirtual) {
			y := element([]VecVirtual{t.low, t.high}[i/2], q)
			VPSLLD(Imm(28), q, q)
			VANDPS(floats(negativeZero), q, q)
			VXORPS(q, y, y)
			VMOVUPS(y, at(dst, 8*i))
		})
		return
	}
	sign, low, high := YMM(), YMM(), YMM()
	VPSLLW(Imm(4), q, sign)
	VPAND(bytes(0x80), sign, sign)
	VPAND(bytes(7), q, q)
	VPOR(upper8(), q, q)
	VPSHUFB(q, t.low, low)
	VPSHUFB(q, t.high, high)
	VPXOR(sign, high, high)
	interleave(low, high, dst)
}
