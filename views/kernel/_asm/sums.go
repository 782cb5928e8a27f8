package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// sums emits the kernels of sums over F32 numbers, eight at a time. Structures are as sums.go there lays them out:
// arrays of 32 bytes, which stay in registers.
func sums() {
	TEXT("momentsAVX2", NOSPLIT, "func(sums *float64, src *byte, runs int)")
	Pragma("noescape")
	Doc("momentsAVX2 adds runs of eight numbers to the sums of a Moments.")
	m, src, n := Load(Param("sums"), GP64()), Load(Param("src"), GP64()), Load(Param("runs"), GP64())
	total := fields(m, 5)
	sum, squares, least, most, zeros := total[0], total[1], total[2], total[3], total[4]
	shift, zero := YMM(), YMM()
	VBROADCASTSD(Mem{Base: m}.Offset(32*5), shift)
	VPXOR(zero, zero, zero)
	Label("run")
	v := inRegister(Mem{Base: src})
	for i := range 2 {
		d := YMM()
		VCVTPS2PD(Mem{Base: src}.Offset(16*i), d)
		VSUBPD(shift, d, d)
		VADDPD(d, sum, sum)
		VMULPD(d, d, d)
		VADDPD(d, squares, squares)
	}
	is := YMM()
	VMINPS(least, v, least)
	VMAXPS(most, v, most)
	VCMPPS(Imm(0), zero, v, is) // -1 where a number is 0
	VPSUBD(is, zeros, zeros)
	next(n, src)
	keep(m, total)

	TEXT("distancesAVX2", NOSPLIT, "func(sums *float64, x, y *byte, runs int)")
	Pragma("noescape")
	Doc("distancesAVX2 adds runs of eight pairs to the sums of a Distances.")
	d, x, y, n := Load(Param("sums"), GP64()), Load(Param("x"), GP64()), Load(Param("y"), GP64()), Load(Param("runs"), GP64())
	total = fields(d, 8)
	unsigned := inRegister(longs(0x7FFF_FFFF))
	wide := quads(0x7FFF_FFFF_FFFF_FFFF)
	Label("run")
	for _, p := range []Register{x, y} {
		bits := YMM()
		VPAND(Mem{Base: p}, unsigned, bits)
		VPMAXUD(bits, total[7], total[7])
	}
	for i := range 2 {
		a, b, e := YMM(), YMM(), YMM()
		VCVTPS2PD(Mem{Base: x}.Offset(16*i), a)
		VCVTPS2PD(Mem{Base: y}.Offset(16*i), b)
		VSUBPD(b, a, e)
		VPAND(wide, e, e)
		VMAXPD(total[0], e, total[0])
		VADDPD(e, total[1], total[1])
		is := YMM()
		VPXOR(is, is, is)
		VCMPPD(Imm(0), is, e, is)
		VPSUBQ(is, total[6], total[6])
		for _, p := range []struct{ x, y, to VecVirtual }{{e, e, total[2]}, {a, b, total[5]}, {a, a, total[3]}, {b, b, total[4]}} {
			product := YMM()
			VMULPD(p.x, p.y, product)
			VADDPD(product, p.to, p.to)
		}
	}
	next(n, x, y)
	keep(d, total)
}

// fields loads the first n arrays of a structure.
func fields(from Register, n int) (all []VecVirtual) {
	for i := range n {
		all = append(all, inRegister(Mem{Base: from}.Offset(32*i)))
	}
	return all
}

// keep stores them and returns.
func keep(to Register, all []VecVirtual) {
	for i, y := range all {
		VMOVDQU(y, Mem{Base: to}.Offset(32*i))
	}
	VZEROUPPER()
	RET()
}

// next goes on with the run after this one, if there is one.
func next(n Register, at ...Register) {
	for _, r := range at {
		ADDQ(U32(32), r)
	}
	DECQ(n)
	JNZ(LabelRef("run"))
}
