package main

import (
	"slices"

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
				codebook(iq4Levels, sub(t), nil).store(halfNibbles(src.Offset(8+16*t)), at(dst, 32*t))
			}
		}
	})
}

// grids: eight elements are a row of a codebook that is stored as table indices already, a quad of bytes: the number of
// the magnitude in bits 0-1 (IQ3: 0-2), in IQ1 of the value. The bit above is set for negative elements, from a second
// table with a quad per sign index or, where signs are stored as such, from them. In IQ1 it is the sign of delta.
func grids() {
	iq2 := []float32{8, 25, 43, 0, -8, -25, -43, 0}
	iq3xxs := []float32{4, 12, 20, 28, 36, 44, 52, 62}
	iq3s := []float32{1, 3, 5, 7, 9, 11, 13, 15}
	plus, minus := []float32{-0.875, 0.125, 1.125, 0}, []float32{-1.125, -0.125, 0.875, 0} // IQ1 with either delta
	iq1 := slices.Concat(plus, minus)
	var half4, quarter4, odd4 []float32 // factors of 4-bit scales
	for s := range 16 {
		half4 = append(half4, (0.5+float32(s))*0.5)
		quarter4 = append(quarter4, (0.5+float32(s))*0.25)
		odd4 = append(odd4, 2*float32(s)+1)
	}
	odd3 := odd4[:8]

	gridBlocks("iq2_XXS", 66, func(grid, signs Register) func(dst, src Mem) {
		factors := address(floats(quarter4...))
		return func(dst, src Mem) {
			d := scale(src)
			for t := range 8 {
				rec := src.Offset(2 + 8*t)
				a := load32(rec.Offset(4))
				q := rows(func(l int) Register {
					return or(quad(grid, load8(rec.Offset(l))), signs, field(a, 7*l, 127))
				})
				table8(product(floats(iq2...), factor(factors, field(a, 28, 15), d))).store(q, at(dst, 32*t))
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
					return or(quad(grid, field(v, 0, 511)), signs, field(v, 9, 127))
				})
				VPOR(upper8(), q, q)
				s := load8(src.Offset(66 + t))
				twoScales(iq2, factor(factors, field(s, 0, 15), d), factor(factors, field(s, 4, 15), d)).store(q, at(dst, 32*t))
			}
		}
	})
	gridBlocks("iq2_S", 82, func(grid, _ Register) func(dst, src Mem) {
		factors := address(floats(quarter4...))
		return func(dst, src Mem) {
			d := scale(src)
			for t := range 8 {
				high := load8(src.Offset(66 + t))
				q := rows(func(l int) Register {
					return quad(grid, row(load8(src.Offset(2+4*t+l)), high, 2*l, 3))
				})
				VPOR(negative(src.Offset(34+4*t), 4), q, q)
				VPOR(upper8(), q, q)
				s := load8(src.Offset(74 + t))
				twoScales(iq2, factor(factors, field(s, 0, 15), d), factor(factors, field(s, 4, 15), d)).store(q, at(dst, 32*t))
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
					return or(twoRows(grid, load8(at), load8(at.Offset(1))), signs, field(a, 7*l, 127))
				})
				plusMinus(iq3xxs, factor(factors, field(a, 28, 15), d)).store(q, at(dst, 32*t))
			}
		}
	})
	gridBlocks("iq3_S", 110, func(grid, _ Register) func(dst, src Mem) {
		factors := address(floats(odd4...))
		return func(dst, src Mem) {
			d := scale(src)
			for t := range 8 {
				high := load8(src.Offset(66 + t))
				q := rows(func(l int) Register {
					at := src.Offset(2 + 8*t + 2*l)
					return twoRows(grid, row(load8(at), high, 2*l, 1), row(load8(at.Offset(1)), high, 2*l+1, 1))
				})
				VPOR(negative(src.Offset(74+4*t), 8), q, q)
				s := load8(src.Offset(106 + t/2))
				plusMinus(iq3s, factor(factors, field(s, 4*(t%2), 15), d)).store(q, at(dst, 32*t))
			}
		}
	})
	gridBlocks("iq1_S", 50, func(grid, _ Register) func(dst, src Mem) {
		factors, levels := address(floats(odd3...)), address(floats(slices.Concat(plus, plus, minus, minus)...))
		return func(dst, src Mem) {
			d := scale(src)
			for t := range 8 {
				w := load16(src.Offset(34 + 2*t))
				q := rows(func(l int) Register {
					return quad(grid, row(load8(src.Offset(2+4*t+l)), w, 3*l, 7))
				})
				dl := factor(factors, field(w, 12, 7), d)
				VMULPS(Mem{Base: levels, Index: as64(field(w, 10, 32)), Scale: 1}, dl, dl) // bit 15 chooses 32 bytes
				table8(dl).store(q, at(dst, 32*t))
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
					return or(quad(grid, row(load8(src.Offset(4*t+l)), high, 4*l, 7)), signs, field(high, 4*l+3, 1))
				})
				VPOR(upper8(), q, q)
				s, low := load16(src.Offset(48+t/2*2)), 6*(t%2)
				twoScales(iq1, factor(factors, field(s, low, 7), d), factor(factors, field(s, low+3, 7), d)).store(q, at(dst, 32*t))
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
		ANDL(U32(0xF000), n)
		SHRL(Imm(uint64(12-4*i)), n)
		ORL(n, h)
	}
	y := YMM()
	VMOVD(h, y.AsX())
	finite(h, half)
	VPBROADCASTW(y.AsX(), y.AsX())
	VCVTPH2PS(y.AsX(), y)
	return y
}

// field returns r >> shift & mask; a negative shift goes left.
func field(r Register, shift int, mask uint32) Register {
	f := GP32()
	MOVL(r, f)
	if shift > 0 {
		SHRL(Imm(uint64(shift)), f)
	} else if shift < 0 {
		SHLL(Imm(uint64(-shift)), f)
	}
	ANDL(U32(mask), f)
	return f
}

// row adds the field of high at shift to the eight low bits of a row number.
func row(low, high Register, shift int, mask uint32) Register {
	f := field(high, shift-8, mask<<8)
	ORL(low, f)
	return f
}

func as64(r Register) Register { return r.(GPVirtual).As64() }

// quad loads a row of eight.
func quad(grid, row Register) Register {
	r := GP64()
	MOVQ(Mem{Base: grid, Index: as64(row), Scale: 8}, r)
	return r
}

// twoRows loads two rows of four.
func twoRows(grid, a, b Register) Register {
	low, high := GP64(), GP64()
	MOVL(Mem{Base: grid, Index: as64(a), Scale: 4}, low.As32())
	MOVL(Mem{Base: grid, Index: as64(b), Scale: 4}, high.As32())
	SHLQ(Imm(32), high)
	ORQ(high, low)
	return low
}

// or adds the bits of an entry of a table of quads.
func or(r, table, index Register) Register {
	ORQ(Mem{Base: table, Index: as64(index), Scale: 8}, r)
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

// negative returns 32 bits as bytes of a crossed index: value where the bit is set, else zero.
func negative(src Mem, value byte) VecVirtual {
	y, one := YMM(), bytes(1, 2, 4, 8, 16, 32, 64, 128)
	VPBROADCASTD(src, y)
	VPSHUFB(bytes(0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 3, 3, 3, 3, 3, 3, 3, 3), y, y)
	VPAND(one, y, y)
	VPCMPEQB(one, y, y)
	VPAND(bytes(value), y, y)
	return y
}

// factor returns d times an entry of a table of floats.
func factor(factors, index Register, d VecVirtual) VecVirtual {
	y := YMM()
	VBROADCASTSS(Mem{Base: factors, Index: as64(index), Scale: 4}, y)
	return times(y, d)
}

// twoScales is a table of eight levels for each half of the elements.
func twoScales(levels []float32, a, b VecVirtual) table {
	return table16(product(floats(levels...), a), product(floats(levels...), b))
}

// plusMinus is a table of eight magnitudes and their negatives.
func plusMinus(magnitudes []float32, d VecVirtual) table {
	var negatives []float32
	for _, x := range magnitudes {
		negatives = append(negatives, -x)
	}
	return table16(product(floats(magnitudes...), d), product(floats(negatives...), d))
}
