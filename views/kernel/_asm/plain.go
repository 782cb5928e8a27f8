package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// plain: a block is 32 elements, callers decode what is left of fewer. Here NaN is an element: the conversion keeps
// sign and payload, and two minima, one signed and one unsigned, cut the payload down to 0x7E00 and 0xFE00.
func plain() {
	float := func(name string, bytes int, load func(src Mem, i int) VecVirtual) {
		blocks(name, 32*bytes, 32, func() func(dst, src Mem) {
			positive, negative := inRegister(words(0x7E00)), inRegister(words(0xFE00))
			return func(dst, src Mem) {
				for i := 0; i < 4; i += 2 {
					a, b := load(src, i), load(src, i+1)
					VCVTPS2PH(Imm(0), a, a.AsX())
					VCVTPS2PH(Imm(0), b, b.AsX())
					VINSERTI128(Imm(1), b.AsX(), a, a)
					VPMINSW(positive, a, a)
					VPMINUW(negative, a, a)
					VMOVDQU(a, dst.Offset(16*i))
				}
			}
		})
	}
	float("f32", 4, func(src Mem, i int) VecVirtual {
		y := YMM()
		VMOVUPS(src.Offset(32*i), y)
		return y
	})
	float("bf16", 2, func(src Mem, i int) VecVirtual {
		y := YMM()
		VPMOVZXWD(src.Offset(16*i), y)
		VPSLLD(Imm(16), y, y)
		return y
	})
}
