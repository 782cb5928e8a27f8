package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// eights is 32 values as F32, eight to a register, in order.
type eights [4]VecVirtual

// signed and unsigned convert 32 bytes, in memory or in a register.
func signed(b Op) eights   { return convert(b, VPMOVSXBD) }
func unsigned(b Op) eights { return convert(b, VPMOVZXBD) }

func convert(b Op, widen func(ops ...Op)) (v eights) {
	for i, part := range parts(b) {
		v[i] = YMM()
		widen(part, v[i])
		VCVTDQ2PS(v[i], v[i])
	}
	return v
}

// parts returns 32 bytes in runs of eight: memory, or the lowest of registers.
func parts(b Op) [4]Op {
	if m, ok := b.(Mem); ok {
		return [4]Op{m, m.Offset(8), m.Offset(16), m.Offset(24)}
	}
	y, x1, x2, x3 := b.(VecVirtual), XMM(), XMM(), XMM()
	VPSHUFD(Imm(0b11_10_11_10), y.AsX(), x1)
	VEXTRACTI128(Imm(1), y, x2)
	VPSHUFD(Imm(0b11_10_11_10), x2, x3)
	return [4]Op{y.AsX(), x1, x2, x3}
}

// times multiplies all by d and returns them.
func (v eights) times(d VecVirtual) eights {
	for _, y := range v {
		VMULPS(d, y, y)
	}
	return v
}

// timesEach multiplies the first 16 by a and the others by b.
func (v eights) timesEach(a, b VecVirtual) eights {
	for i, y := range v {
		VMULPS([]VecVirtual{a, b}[i/2], y, y)
	}
	return v
}

// timesPlus is times and then adds m. The products of codes are exact, so that fusing the two changes nothing.
func (v eights) timesPlus(d, m VecVirtual) eights {
	for _, y := range v {
		VFMADD213PS(m, d, y)
	}
	return v
}

// store rounds to halves, eight at a time straight to memory.
func (v eights) store(dst Mem) {
	for i, y := range v {
		storeEight(y, at(dst, 8*i))
	}
}

// storeEight stores eight elements.
func storeEight(y VecVirtual, dst Mem) {
	if single {
		VMOVUPS(y, dst)
	} else {
		VCVTPS2PH(Imm(0), y, dst)
	}
}

// storeJoined is store by 16: less work for the store unit, more for the shuffle unit. It is faster for codes that
// come from memory, and slower for those that were taken apart in registers.
func (v eights) storeJoined(dst Mem) {
	if single {
		v.store(dst)
		return
	}
	VMOVDQU(join(v[0], v[1]), dst)
	VMOVDQU(join(v[2], v[3]), dst.Offset(32))
}

// join rounds eight elements of each to halves, those of a in the lower lane.
func join(a, b VecVirtual) VecVirtual {
	VCVTPS2PH(Imm(0), a, a.AsX())
	VCVTPS2PH(Imm(0), b, b.AsX())
	VINSERTI128(Imm(1), b.AsX(), a, a)
	return a
}
