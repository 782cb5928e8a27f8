package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

func iq4() {
	blocks("iq4_NL", 18, 32, func() func(dst, src Mem) {
		return func(dst, src Mem) {
			codebook(iq4Levels, scale(src), nil).store(halfNibbles(src.Offset(2)), dst)
		}
	})
	blocks("iq4_XS", 136, 256, func() func(dst, src Mem) {
		return func(dst, src Mem) {
			d := scale(src)
			low, high := YMM(), YMM() // one 32-bit lane a scale
			VPBROADCASTD(src.Offset(4), low)
			VPSRLVD(longs(0, 4, 8, 12, 16, 20, 24, 28), low, low)
			VPAND(longs(15), low, low)
			VPBROADCASTW(src.Offset(2), high)
			VPSRLVD(longs(0, 2, 4, 6, 8, 10, 12, 14), high, high)
			VPAND(longs(3), high, high)
			VPSLLD(Imm(4), high, high)
			VPOR(high, low, low)
			VPSUBD(longs(32), low, low)
			VCVTDQ2PS(low, low)
			sub := each(times(low, d))
			for t := range 8 {
				codebook(iq4Levels, sub(t), nil).store(halfNibbles(src.Offset(8+16*t)), dst.Offset(64*t))
			}
		}
	})
}

// grids: eight elements are a row of a codebook that is stored as table indices already, a quad of bytes: the
// magnitude's (IQ1: value's) number in bits 0-1 (IQ3: 0-2). Signs come from a second table, a quad per sign byte or
// sign index with the bit above the number set for negative elements. Magnitudes and their negatives make the table.
func grids() {
	iq2 := [8]float32{8, 25, 43, 0, -8, -25, -43, 0}
	iq3xxs := [8]float32{4, 12, 20, 28, 36, 44, 52, 62}
	iq3s := [8]float32{1, 3, 5, 7, 9, 11, 13, 15}
	var half4, quarter4, odd4, odd3 []float32 // factors of 4- and 3-bit scales
	for s := range 16 {
		half4 = append(half4, (0.5+float32(s))*0.5)
		quarter4 = append(quarter4, (0.5+float32(s))*0.25)
		odd4 = append(odd4, 2*float32(s)+1)
	}
	odd3 = odd4[:8]

	gridBlocks("iq2_XXS", 66, func(grid, signs Register) func(dst, src Mem) {
		factors := address(floats(quarter4...))
		return func(dst, src Mem) {
			d := scale(src)
			for t := range 8 {
				rec := src.Offset(2 + 8*t)
				a := load32(rec.Offset(4))
				q := rows(func(l int) Register {
					return signed8(quad(grid, load8(rec.Offset(l))), signs, field(a, 7*l, 127))
				})
				table8(product(floats(iq2[:]...), times(factor(factors, field(a, 28, 15)), d))).store(q, dst.Offset(64*t))
			}
		}
	})
	gridBlocks("iq2_XS", 74, func(grid, signs Register) func(dst, src Mem) {
		factors := address(floats(quarter4...))
		return func(dst, src Mem) {
			d := scale(src)
			for t := range 8 {
				q := rows(func(l int) Register {
					v := load16(src.Offset(2 + 8*t + 2*l))
					return signed8(quad(grid, field(v, 0, 511)), signs, field(v, 9, 127))
				})
				VPOR(upper8(), q, q)
				s := load8(src.Offset(66 + t))
				twoScales(iq2, iq2, factors, s, d).store(q, dst.Offset(64*t))
			}
		}
	})
	gridBlocks("iq2_S", 82, func(grid, signs Register) func(dst, src Mem) {
		factors := address(floats(quarter4...))
		return func(dst, src Mem) {
			d := scale(src)
			for t := range 8 {
				high := load8(src.Offset(66 + t))
				q := rows(func(l int) Register {
					return signed8(quad(grid, row(load8(src.Offset(2+4*t+l)), high, 2*l, 3)), signs, load8(src.Offset(34+4*t+l)))
				})
				VPOR(upper8(), q, q)
				s := load8(src.Offset(74 + t))
				twoScales(iq2, iq2, factors, s, d).store(q, dst.Offset(64*t))
			}
		}
	})
	gridBlocks("iq3_XXS", 98, func(grid, signs Register) func(dst, src Mem) {
		factors := address(floats(half4...))
		return func(dst, src Mem) {
			d := scale(src)
			for t := range 8 {
				a := load32(src.Offset(66 + 4*t))
				q := rows(func(l int) Register {
					at := src.Offset(2 + 8*t + 2*l)
					return signed8(twoRows(grid, load8(at), load8(at.Offset(1))), signs, field(a, 7*l, 127))
				})
				plusMinus(iq3xxs, times(factor(factors, field(a, 28, 15)), d)).store(q, dst.Offset(64*t))
			}
		}
	})
	gridBlocks("iq3_S", 110, func(grid, signs Register) func(dst, src Mem) {
		factors := address(floats(odd4...))
		return func(dst, src Mem) {
			d := scale(src)
			for t := range 8 {
				high := load8(src.Offset(66 + t))
				q := rows(func(l int) Register {
					at := src.Offset(2 + 8*t + 2*l)
					g := twoRows(grid, row(load8(at), high, 2*l, 1), row(load8(at.Offset(1)), high, 2*l+1, 1))
					return signed8(g, signs, load8(src.Offset(74+4*t+l)))
				})
				s := load8(src.Offset(106 + t/2))
				plusMinus(iq3s, times(factor(factors, field(s, 4*(t%2), 15)), d)).store(q, dst.Offset(64*t))
			}
		}
	})
	// Delta is part of the levels: the eight with plus an eighth, then the eight with minus an eighth.
	deltas := []float32{-0.875, 0.125, 1.125, 0, -1.125, -0.125, 0.875, 0}
	gridBlocks("iq1_S", 50, func(grid, _ Register) func(dst, src Mem) {
		factors, levels := address(floats(odd3...)), address(floats(append(append(append(append([]float32{}, deltas[:4]...), deltas[:4]...), deltas[4:]...), deltas[4:]...)...))
		return func(dst, src Mem) {
			d := scale(src)
			for t := range 8 {
				w := load16(src.Offset(34 + 2*t))
				q := rows(func(l int) Register {
					return quad(grid, row(load8(src.Offset(2+4*t+l)), w, 3*l, 7))
				})
				v := times(factor(factors, field(w, 12, 7)), d)
				SHRL(Imm(15), w)
				SHLL(Imm(5), w)
				VMULPS(Mem{Base: levels, Index: w.(GPVirtual).As64(), Scale: 1}, v, v)
				table8(v).store(q, dst.Offset(64*t))
			}
		}
	})
	gridBlocks("iq1_M", 56, func(grid, signs Register) func(dst, src Mem) {
		factors := address(floats(odd3...))
		return func(dst, src Mem) {
			d := iq1mScale(src.Offset(48))
			for t := range 8 {
				high := load16(src.Offset(32 + 2*t))
				q := rows(func(l int) Register {
					return signed8(quad(grid, row(load8(src.Offset(4*t+l)), high, 4*l, 7)), signs, field(high, 4*l+3, 1))
				})
				VPOR(upper8(), q, q)
				s := load16(src.Offset(48 + t/2*2))
				a := times(factor(factors, field(s, 6*(t%2), 7)), d)
				b := times(factor(factors, field(s, 6*(t%2)+3, 7)), d)
				table16(product(floats(deltas...), a), product(floats(deltas...), b)).store(q, dst.Offset(64*t))
			}
		}
	})
}

// iq1mScale gathers the half from the upper nibbles of four words.
func iq1mScale(src Mem) VecVirtual {
	h := load16(src)
	SHRL(Imm(12), h)
	for i := 1; i < 4; i++ {
		n := load16(src.Offset(2 * i))
		SHRL(Imm(12), n)
		SHLL(Imm(uint64(4*i)), n)
		ORL(n, h)
	}
	y := YMM()
	VMOVD(h, y.AsX())
	finite(h, half)
	VPBROADCASTW(y.AsX(), y.AsX())
	VCVTPH2PS(y.AsX(), y)
	return y
}

// field returns (r >> shift) & mask.
func field(r Register, shift int, mask uint32) Register {
	f := GP32()
	MOVL(r, f)
	if shift > 0 {
		SHRL(Imm(uint64(shift)), f)
	}
	ANDL(U32(mask), f)
	return f
}

// row adds the field of high at shift to the eight low bits of a row number.
func row(low, high Register, shift int, mask uint32) Register {
	f := field(high, shift, mask)
	SHLL(Imm(8), f)
	ORL(low, f)
	return f
}

// quad loads a row of eight.
func quad(grid, row Register) Register {
	r := GP64()
	MOVQ(Mem{Base: grid, Index: row.(GPVirtual).As64(), Scale: 8}, r)
	return r
}

// twoRows loads two rows of four.
func twoRows(grid, a, b Register) Register {
	low, high := GP64(), GP64()
	MOVL(Mem{Base: grid, Index: a.(GPVirtual).As64(), Scale: 4}, low.As32())
	MOVL(Mem{Base: grid, Index: b.(GPVirtual).As64(), Scale: 4}, high.As32())
	SHLQ(Imm(32), high)
	ORQ(high, low)
	return low
}

// signed8 adds sign bits to a row.
func signed8(r, signs, index Register) Register {
	ORQ(Mem{Base: signs, Index: index.(GPVirtual).As64(), Scale: 8}, r)
	return r
}

// rows makes a crossed index of four rows.
func rows(row func(l int) Register) VecVirtual {
	low, high := YMM(), YMM()
	VMOVQ(row(0), low.AsX())
	VPINSRQ(Imm(1), row(2), low.AsX(), low.AsX())
	VMOVQ(row(1), high.AsX())
	VPINSRQ(Imm(1), row(3), high.AsX(), high.AsX())
	VINSERTI128(Imm(1), high.AsX(), low, low)
	return low
}

// factor loads an entry of a table of floats into all lanes.
func factor(factors, index Register) VecVirtual {
	y := YMM()
	VBROADCASTSS(Mem{Base: factors, Index: index.(GPVirtual).As64(), Scale: 4}, y)
	return y
}

// twoScales is a table of eight levels for each of the two nibbles of s.
func twoScales(a, b [8]float32, factors, s Register, d VecVirtual) table {
	low, high := times(factor(factors, field(s, 0, 15)), d), times(factor(factors, field(s, 4, 15)), d)
	return table16(product(floats(a[:]...), low), product(floats(b[:]...), high))
}

// plusMinus is a table of eight magnitudes and their negatives.
func plusMinus(magnitudes [8]float32, d VecVirtual) table {
	negatives := magnitudes
	for i := range negatives {
		negatives[i] *= -1
	}
	return table16(product(floats(magnitudes[:]...), d), product(floats(negatives[:]...), d))
}
