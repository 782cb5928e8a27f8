package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

func k() {
	// Four sub-blocks of four levels share a table: index = code + 4 * (sub-block % 4).
	blocks("q2_K", 84, 256, func() func(dst, src Mem) {
		return func(dst, src Mem) {
			d, m := scaleMin(src.Offset(80))
			negate(m)
			var ds, ms [2]VecVirtual
			for i := range 2 {
				sc, mn := XMM(), XMM()
				VMOVQ(src.Offset(8*i), sc)
				VPSRLW(Imm(4), sc, mn)
				VPAND(bytes(15), sc, sc)
				VPAND(bytes(15), mn, mn)
				ds[i], ms[i] = times(eight(sc, VPMOVZXBD), d), times(eight(mn, VPMOVZXBD), m)
			}
			for h := range 2 {
				codes := cross(src.Offset(16 + 32*h))
				for pair := range 2 {
					var v [2]VecVirtual
					for i := range v {
						s := 4*pair + 2*i
						v[i] = linear(floats(0, 1, 2, 3), lanes(ds[h], s, s+1), lanes(ms[h], s, s+1))
					}
					t := table16(v[0], v[1])
					for i := range 2 {
						q := twoBits(codes, 4*pair+2*i)
						b := byte(8 * i)
						VPOR(bytes(b, b, b, b, b, b, b, b, b+4, b+4, b+4, b+4, b+4, b+4, b+4, b+4), q, q)
						t.store(q, at(dst, 128*h+64*pair+32*i))
					}
				}
			}
		}
	})
	// Two sub-blocks of eight levels share a table: index = code + 8 * (sub-block % 2).
	blocks("q3_K", 110, 256, func() func(dst, src Mem) {
		return func(dst, src Mem) {
			d := scale(src.Offset(108))
			x, low, high := XMM(), XMM(), XMM()
			VPBROADCASTQ(src.Offset(96), low)
			VPSRLVQ(quads(0, 4).Offset(0), low, low)
			VPAND(bytes(15), low, low)
			VPBROADCASTD(src.Offset(104), high)
			VPSRLVD(longs(0, 2, 4, 6), high, high)
			VPAND(bytes(3), high, high)
			VPSLLW(Imm(4), high, high)
			VPOR(low, high, x)
			VPSUBB(bytes(32), x, x)
			sub := each16(scales(x, d, VPMOVSXBD))
			third := cross(src)
			for h := range 2 {
				codes := cross(src.Offset(32 + 32*h))
				for j := range 4 {
					levels := floats(symmetric[4:12]...)
					a, b := product(levels, sub(8*h+2*j)), product(levels, sub(8*h+2*j+1))
					q := twoBits(codes, 2*j)
					VPOR(bit(third, 4*h+j, 2), q, q)
					VPOR(upper8(), q, q)
					table16(a, b).store(q, at(dst, 128*h+32*j))
				}
			}
		}
	})
	blocks("q4_K", 144, 256, func() func(dst, src Mem) {
		return func(dst, src Mem) {
			d, m := scalesMins(src)
			for pair := range 4 {
				low, high := cross(src.Offset(16+32*pair)), YMM()
				VPSRLW(Imm(4), low, high)
				VPAND(bytes(15), low, low)
				VPAND(bytes(15), high, high)
				for i, q := range []VecVirtual{low, high} {
					t := 2*pair + i
					codebook(counting, d(t), m(t)).store(q, at(dst, 32*t))
				}
			}
		}
	})
	blocks("q5_K", 176, 256, func() func(dst, src Mem) {
		return func(dst, src Mem) {
			d, m := scalesMins(src)
			fifth := inRegister(src.Offset(16))
			for pair := range 4 {
				low, high := inRegister(src.Offset(48+32*pair)), YMM()
				VPSRLW(Imm(4), low, high)
				for i, q := range []VecVirtual{low, high} {
					t := 2*pair + i
					VPAND(bytes(15), q, q)
					VPOR(bit(fifth, t, 4), q, q)
					unsigned(q).timesPlus(d(t), m(t)).store(at(dst, 32*t))
				}
			}
		}
	})
	blocks("q6_K", 210, 256, func() func(dst, src Mem) {
		return func(dst, src Mem) {
			x, all := XMM(), scale(src.Offset(208))
			VMOVDQU(src.Offset(192), x)
			sub := each16(scales(x, all, VPMOVSXBD))
			for h := range 2 {
				two := inRegister(src.Offset(128 + 32*h))
				for j := range 4 {
					q := inRegister(src.Offset(64*h + 32*(j%2)))
					if j >= 2 {
						VPSRLW(Imm(4), q, q)
					}
					VPAND(bytes(15), q, q)
					high := twoBits(two, 2*j)
					VPSLLW(Imm(4), high, high)
					VPOR(high, q, q)
					VPSUBB(bytes(32), q, q)
					signed(q).timesEach(sub(8*h+2*j), sub(8*h+2*j+1)).store(at(dst, 128*h+32*j))
				}
			}
		}
	})
	blocks("q8_K", 292, 256, func() func(dst, src Mem) {
		return func(dst, src Mem) {
			finite(load32(src), f32)
			d := YMM()
			VBROADCASTSS(src, d)
			for i := range 8 {
				signed(src.Offset(4 + 32*i)).times(d).storeJoined(at(dst, 32*i))
			}
		}
	})
}

// negate flips the sign: a minimum is then added, which rounds as subtracting does.
func negate(y VecVirtual) { VXORPS(floats(negativeZero), y, y) }

// eight returns the lowest eight bytes of x as F32.
func eight(x VecVirtual, widen func(ops ...Op)) VecVirtual {
	y := YMM()
	widen(x, y)
	VCVTDQ2PS(y, y)
	return y
}

// scales returns the 16 bytes of x as F32, times d.
func scales(x, d VecVirtual, widen func(ops ...Op)) [2]VecVirtual {
	upper := XMM()
	VPSHUFD(Imm(0b11_10_11_10), x, upper)
	return [2]VecVirtual{times(eight(x, widen), d), times(eight(upper, widen), d)}
}

// lanes returns element a of eight in the lower lane and b in the upper.
func lanes(y VecVirtual, a, b int) VecVirtual {
	i, j, r := uint32(a), uint32(b), YMM()
	VPERMPS(y, inRegister(longs(i, i, i, i, j, j, j, j)), r)
	return r
}

// scalesMins returns d * scale and -dmin * minimum of the eight sub-blocks of a Q4_K or Q5_K block. With w the three
// words of packed six-bit numbers:
//
//	0-3   scale  w0 & 3F    minimum  w1 & 3F
//	4-7   scale  w2 & 0F | w0 >> 2 & 30    minimum  w2 >> 4 & 0F | w1 >> 2 & 30
func scalesMins(src Mem) (d, m func(int) VecVirtual) {
	dAll, mAll := scaleMin(src)
	negate(mAll)
	w, low, high, top := XMM(), XMM(), XMM(), XMM()
	VMOVQ(src.Offset(4), w)
	VPBROADCASTD(src.Offset(12), high)
	VPAND(bytes(0x3F), w, low)
	VPSRLVD(longs(0, 4), high, high)
	VPAND(bytes(0x0F), high, high)
	VPSRLD(Imm(2), w, top)
	VPAND(bytes(0x30), top, top)
	VPOR(top, high, high)
	VPUNPCKLDQ(high, low, low)
	VPSHUFD(Imm(0b11_10_11_10), low, high)
	return each(times(eight(low, VPMOVZXBD), dAll)), each(times(eight(high, VPMOVZXBD), mAll))
}

// twoBits returns bits n and n+1 of each byte.
func twoBits(y VecVirtual, n int) VecVirtual {
	r := YMM()
	if n == 0 {
		VPAND(bytes(3), y, r)
		return r
	}
	VPSRLW(Imm(uint64(n)), y, r)
	VPAND(bytes(3), r, r)
	return r
}

// bit returns bit n of each byte, moved to bit to.
func bit(y VecVirtual, n, to int) VecVirtual {
	r := YMM()
	switch {
	case n > to:
		VPSRLW(Imm(uint64(n-to)), y, r)
		y = r
	case n < to:
		VPSLLW(Imm(uint64(to-n)), y, r)
		y = r
	}
	VPAND(bytes(1<<to), y, r)
	return r
}

// upper8 is 8 for elements 16 to 31 of a crossed index: the second half of a table for them.
func upper8() Mem { return bytes(0, 0, 0, 0, 0, 0, 0, 0, 8, 8, 8, 8, 8, 8, 8, 8) }
