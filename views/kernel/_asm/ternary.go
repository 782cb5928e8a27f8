package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

func ternary() {
	// The stored half with its sign flipped for bits that are zero.
	blocks("q1_0", 18, 128, func() func(dst, src Mem) {
		return func(dst, src Mem) {
			if single {
				signed32(scale(src), src.Offset(2), dst)
				return
			}
			finite(load16(src), half)
			d, one, sign := YMM(), inRegister(words(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768)), inRegister(words(0x8000))
			VPBROADCASTW(src, d)
			for i := range 8 {
				y := YMM()
				VPBROADCASTW(src.Offset(2+2*i), y)
				VPAND(one, y, y)
				VPCMPEQW(one, y, y)
				VPANDN(sign, y, y)
				VPXOR(d, y, y)
				VMOVDQU(y, dst.Offset(32*i))
			}
		}
	})
	blocks("q2_0", 18, 64, func() func(dst, src Mem) {
		return func(dst, src Mem) {
			t := table8(product(floats(-1, 0, 1, 2), scale(src)))
			for i := range 2 {
				t.store(fourCodes(src.Offset(2+8*i)), at(dst, 32*i))
			}
		}
	})
	blocks("tq2_0", 66, 256, func() func(dst, src Mem) {
		return func(dst, src Mem) {
			t := table8(product(floats(-1, 0, 1, 2), scale(src.Offset(64))))
			for h := range 2 {
				codes := cross(src.Offset(32 * h))
				for j := range 4 {
					t.store(twoBits(codes, 2*j), at(dst, 128*h+32*j))
				}
			}
		}
	})
	blocks("tq1_0", 54, 256, func() func(dst, src Mem) {
		return func(dst, src Mem) {
			t := table8(product(floats(-1, 0, 1, 2), scale(src.Offset(52))))
			b := cross(src)
			for n := range 5 {
				if n > 0 {
					b = triple(b)
				}
				t.store(trits(b), at(dst, 32*n))
			}
			// 16 bytes: digits n in elements 0-15, n+1 in 16-31. The last row is digit 4 of them and the four of qh.
			b = YMM()
			VMOVDQU(src.Offset(32), b.AsX())
			VPERMQ(Imm(0b01_01_00_00), b, b)
			VPBLENDD(Imm(0b11_00_11_00), triple(b), b, b)
			for n := range 3 {
				if n > 0 {
					b = triple(triple(b))
				}
				if n == 2 {
					qh := YMM()
					VPBROADCASTD(src.Offset(48), qh)
					for lane := range 4 {
						if lane > 0 {
							qh = triple(qh)
						}
						VPBLENDD(Imm(1<<[]int{2, 3, 6, 7}[lane]), qh, b, b)
					}
				}
				t.store(trits(b), at(dst, 160+32*n))
			}
		}
	})
}

// signed32 stores d 128 times, negated for the bits of 16 bytes that are zero.
func signed32(d VecVirtual, src, dst Mem) {
	sign := inRegister(floats(negativeZero))
	for i := range 4 {
		y := YMM()
		VPBROADCASTD(src.Offset(4*i), y)
		for k := range 4 {
			var one []uint32
			for j := range 8 {
				one = append(one, 1<<(8*k+j))
			}
			x, m := YMM(), longs(one...)
			VPAND(m, y, x)
			VPCMPEQD(m, x, x)
			VPANDN(sign, x, x)
			VPXOR(d, x, x)
			VMOVDQU(x, at(dst, 32*i+8*k))
		}
	}
}

// fourCodes returns the 32 two-bit codes of eight bytes in crossed order, four codes a byte. Each lane takes four bytes
// four times, shifts each copy to another code, and sorts the codes by byte.
func fourCodes(src Mem) VecVirtual {
	y := YMM()
	VPBROADCASTQ(src, y)
	VPSHUFB(bytes(0, 1, 4, 5, 0, 1, 4, 5, 0, 1, 4, 5, 0, 1, 4, 5, 2, 3, 6, 7, 2, 3, 6, 7, 2, 3, 6, 7, 2, 3, 6, 7), y, y)
	VPSRLVD(longs(0, 2, 4, 6), y, y)
	VPAND(bytes(3), y, y)
	VPSHUFB(bytes(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), y, y)
	return y
}

// triple returns each byte times 3, modulo 256.
func triple(b VecVirtual) VecVirtual {
	r := YMM()
	VPADDB(b, b, r)
	VPADDB(b, r, r)
	return r
}

// trits returns b * 3 >> 8: how many of the thresholds 86 and 171 each byte reaches. The comparison is signed.
func trits(b VecVirtual) VecVirtual {
	flipped, r, s := YMM(), YMM(), YMM()
	VPXOR(bytes(0x80), b, flipped)
	VPCMPGTB(bytes(85^0x80), flipped, r)
	VPCMPGTB(bytes(170^0x80), flipped, s)
	VPADDB(s, r, r)
	VPABSB(r, r)
	return r
}

// picks emits the kernels of two-bit codes that choose from four halves: blocks of n bytes, the highest bits of each
// giving the first n elements. Those of 32 bytes and more take the last 32 of a block again where n is not a multiple.
func picks() {
	toBoth(func(to string) {
		TEXT("picks"+to+"AVX2", NOSPLIT, "func(dst, src *byte, blocks, n int, "+fourParam()+")")
		Pragma("noescape")
		Doc("picks" + to + "AVX2 decodes blocks of n bytes, n at least 32.")
		picksBody()
	})
	toBoth(func(to string) {
		TEXT("picks16"+to+"AVX2", NOSPLIT, "func(dst, src *byte, blocks int, "+fourParam()+") (rest int)")
		Pragma("noescape")
		Doc("picks16" + to + "AVX2 decodes blocks of 16 bytes; rest is 0.")
		loop(16, 64, func() func(dst, src Mem) {
			t := fromFour()
			return func(dst, src Mem) {
				b := YMM()
				VMOVDQU(src, b.AsX())
				VPERMQ(Imm(0b01_01_00_00), b, b)
				for i, shifts := range []Mem{quads(6, 4), quads(2, 0)} {
					y := YMM()
					VPSRLVQ(shifts, b, y)
					VPAND(bytes(3), y, y)
					t.store(y, at(dst, 32*i))
				}
			}
		})
	})
}

func picksBody() {
	dst, src, blocks, n := Load(Param("dst"), GP64()), Load(Param("src"), GP64()), Load(Param("blocks"), GP64()), Load(Param("n"), GP64())
	t := fromFour()
	last, i, out, stride := GP64(), GP64(), GP64(), GP64()
	LEAQ(Mem{Base: n, Disp: -32}, last)
	MOVQ(n, stride)
	SHLQ(Imm(uint64(size()/2)), stride)
	TESTQ(blocks, blocks)
	JLE(LabelRef("done"))
	Label("block")
	XORQ(i, i)
	Label("chunk")
	y := cross(Mem{Base: src, Index: i, Scale: 1})
	LEAQ(Mem{Base: dst, Index: i, Scale: uint8(size())}, out)
	for shift := 6; shift >= 0; shift -= 2 {
		t.store(twoBits(y, shift), Mem{Base: out})
		ADDQ(stride, out)
	}
	ADDQ(Imm(32), i)
	CMPQ(i, n)
	JEQ(LabelRef("next"))
	CMPQ(i, last)
	CMOVQGT(last, i)
	JMP(LabelRef("chunk"))
	Label("next")
	ADDQ(n, src)
	for range size() / 2 {
		LEAQ(Mem{Base: dst, Index: n, Scale: 8}, dst)
	}
	DECQ(blocks)
	JNZ(LabelRef("block"))
	Label("done")
	VZEROUPPER()
	RET()
}

// fourParam declares what fromFour takes.
func fourParam() string {
	if single {
		return "singles *[4]uint32"
	}
	return "halves uint64"
}

// fromFour returns the table of the four elements that are given.
func fromFour() table {
	y := YMM()
	if single {
		VBROADCASTI128(Mem{Base: Load(Param("singles"), GP64())}, y)
		return table{y, y}
	}
	VMOVQ(Load(Param("halves"), GP64()), y.AsX())
	return tableOf(y)
}
