package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// round stores eight halves.
func round(y VecVirtual, dst Mem) { VCVTPS2PH(Imm(0), y, dst) }

// signed and unsigned return eight bytes (a register's lowest, or memory) as F32.
func signed(b Op) VecVirtual {
	y := YMM()
	VPMOVSXBD(b, y)
	VCVTDQ2PS(y, y)
	return y
}

func unsigned(b Op) VecVirtual {
	y := YMM()
	VPMOVZXBD(b, y)
	VCVTDQ2PS(y, y)
	return y
}

// eights returns the four runs of eight of 32 bytes in order, each where signed and unsigned want it.
func eights(y VecVirtual) [4]Op {
	x1, x2, x3 := XMM(), XMM(), XMM()
	VPSHUFD(Imm(0b11_10_11_10), y.AsX(), x1)
	VEXTRACTI128(Imm(1), y, x2)
	VPSHUFD(Imm(0b11_10_11_10), x2, x3)
	return [4]Op{y.AsX(), x1, x2, x3}
}

// memory returns four runs of eight bytes that need no decoding.
func memory(src Mem) [4]Op {
	return [4]Op{src, src.Offset(8), src.Offset(16), src.Offset(24)}
}

// product stores 32 signed codes times d(i), i counting runs of eight.
func product(codes [4]Op, d func(i int) VecVirtual, dst Mem) {
	for i, c := range codes {
		y := signed(c)
		VMULPS(d(i), y, y)
		round(y, dst.Offset(16*i))
	}
}

// always is a scale for all runs.
func always(d VecVirtual) func(int) VecVirtual { return func(int) VecVirtual { return d } }
