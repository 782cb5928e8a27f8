package main

import (

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// plain: a block is 32 elements, callers decode what is left of fewer. Here NaN is an element: the conversion keeps
// sign and payload, and two minima, one signed and one unsigned, cut the payload down to 0x7E00 and 0xFE00.
func plain() {
	float := func(name string, bytes int, load func(src Mem) [2]VecVirtual) {
		blocks(name, 32*bytes, 32, func() func(dst, src Mem) {
			positive, negative := inRegister(words(0x7E00)), inRegister(words(0xFE00))
			return func(dst, src Mem) {
				for i, h := range load(src) {
					VPMINSW(positive, h, h)
					VPMINUW(negative, h, h)
					VMOVDQU(h, dst.Offset(32*i))
				}
			}
		})
	}
	float("f32", 4, func(src Mem) (h [2]VecVirtual) {
		for i := range h {
			h[i] = join(inRegister(src.Offset(64*i)), inRegister(src.Offset(64*i+32)))
		}
		return h
	})
	// Taking words apart within lanes and putting quarters in order is faster than widening across lanes.
	float("bf16", 2, func(src Mem) (h [2]VecVirtual) {
		zero := YMM()
		VPXOR(zero, zero, zero)
		for i := range h {
			y, a, b := inRegister(src.Offset(32*i)), YMM(), YMM()
			VPUNPCKLWD(y, zero, a)
			VPUNPCKHWD(y, zero, b)
			h[i] = cross(join(a, b))
		}
		return h
	})
}
