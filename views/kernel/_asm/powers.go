package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// powers emits the kernels of powers.go there: structures are arrays of 32 bytes, which stay in registers.
func powers() {
	TEXT("bitsAVX2", NOSPLIT, "func(src *byte, runs int) (any, largest uint32)")
	Pragma("noescape")
	Doc("bitsAVX2 returns which bits any of runs of eight numbers has, and the largest of the numbers without their signs.")
	src, n := Load(Param("src"), GP64()), Load(Param("runs"), GP64())
	unsigned := inRegister(longs(0x7FFF_FFFF))
	all, most := YMM(), YMM()
	VPXOR(all, all, all)
	VPXOR(most, most, most)
	Label("run")
	v := inRegister(Mem{Base: src})
	VPOR(v, all, all)
	VPAND(unsigned, v, v)
	VPMAXUD(v, most, most)
	next(n, src)
	for _, r := range []struct {
		name string
		v    VecVirtual
		op   func(a, b, c Op)
	}{{"any", all, func(a, b, c Op) { VPOR(a, b, c) }}, {"largest", most, func(a, b, c Op) { VPMAXUD(a, b, c) }}} {
		high, one := YMM(), GP32()
		VEXTRACTI128(Imm(1), r.v, high.AsX())
		r.op(high.AsX(), r.v.AsX(), r.v.AsX())
		VPSHUFD(Imm(0b01_00_11_10), r.v.AsX(), high.AsX())
		r.op(high.AsX(), r.v.AsX(), r.v.AsX())
		VPSHUFD(Imm(0b10_11_00_01), r.v.AsX(), high.AsX())
		r.op(high.AsX(), r.v.AsX(), r.v.AsX())
		VMOVD(r.v.AsX(), one)
		Store(one, Return(r.name))
	}
	VZEROUPPER()
	RET()

	TEXT("powersAVX2", NOSPLIT, "func(sums, columns *float64, src *byte, runs int)")
	Pragma("noescape")
	Doc("powersAVX2 adds runs of eight finite numbers to the sums of a Powers, and their squares to columns.")
	m, columns := Load(Param("sums"), GP64()), Load(Param("columns"), GP64())
	src, n = Load(Param("src"), GP64()), Load(Param("runs"), GP64())
	total := fields(m, 9)
	sum, square, four := total[0:2], total[2:4], total[4:6]
	least, largest, zeros := total[6], total[7], total[8]
	zero := YMM()
	VPXOR(zero, zero, zero)
	Label("run")
	v = inRegister(Mem{Base: src})
	for i := range 2 {
		d := YMM()
		VCVTPS2PD(Mem{Base: src}.Offset(16*i), d)
		VADDPD(d, sum[i], sum[i])
		VMULPD(d, d, d)
		VADDPD(d, square[i], square[i])
		VFMADD231PD(d, d, four[i])
		VADDPD(Mem{Base: columns}.Offset(32*i), d, d)
		VMOVUPD(d, Mem{Base: columns}.Offset(32*i))
	}
	VMINPS(least, v, least)
	VMAXPS(largest, v, largest)
	VCMPPS(Imm(0), zero, v, v) // -1 where a number is 0
	VPSUBD(v, zeros, zeros)
	ADDQ(U32(64), columns)
	next(n, src)
	keep(m, total)

	losses()
}

// losses emits what adds what Q4_0 and Q8_0 change; see toQ4_0 and toQ8_0 for the codes.
func losses() {
	TEXT("lossesAVX2", NOSPLIT, "func(sums *float64, src *byte, blocks int) (rest int)")
	Pragma("noescape")
	Doc("lossesAVX2 adds blocks of 32 numbers to the sums of a Losses until one is extreme; rest counts from that one.")
	m, src, n := Load(Param("sums"), GP64()), Load(Param("src"), GP64()), Load(Param("blocks"), GP64())
	sums := fields(m, 2)
	differences, unsigned := AllocLocal(32), longs(0x7FFF_FFFF)
	Label("block")
	var v eights
	for i := range v {
		v[i] = inRegister(Mem{Base: src}.Offset(32 * i))
	}
	first := firstLargest(v)
	magnitude := GP32()
	MOVL(first, magnitude)
	ANDL(U32(0x7FFF_FFFF), magnitude)
	CMOVLEQ(magnitude, first) // -0 is no number larger than the 0 to begin with
	moderate(magnitude, "done")
	d, d8 := XMM(), XMM()
	VMOVD(first, d)
	VMULSS(floats(-0.125), d, d)
	VMOVD(magnitude, d8)
	VDIVSS(floats(127), d8, d8)
	VUNPCKLPS(d8, d, d) // that of Q4_0, and that of Q8_0
	back, nonzero, inverses := XMM(), XMM(), XMM()
	VXORPS(nonzero, nonzero, nonzero)
	VCMPPS(Imm(4), nonzero, d, nonzero)
	VMOVUPS(floats(1), inverses)
	VDIVPS(d, inverses, inverses)
	VANDPS(nonzero, inverses, inverses)
	VCVTPS2PH(Imm(0), d, back)
	VCVTPH2PS(back, back)
	spread := func(from VecVirtual) (four, eight VecVirtual) {
		t := XMM()
		four, eight = YMM(), YMM()
		VMOVSHDUP(from, t)
		VBROADCASTSS(from, four)
		VBROADCASTSS(t, eight)
		return four, eight
	}
	id4, id8 := spread(inverses)
	d4, d8s := spread(back)
	offset := YMM()
	VMULPS(floats(8), d4, offset)
	add := func(e, sum VecVirtual) {
		low, high := YMM(), YMM()
		VMOVUPS(e, differences) // widened from memory, that takes half as many steps
		VCVTPS2PD(differences, low)
		VCVTPS2PD(differences.Offset(16), high)
		VFMADD231PD(low, low, sum)
		VFMADD231PD(high, high, sum)
	}
	for _, x := range v {
		e := YMM()
		VMULPS(id4, x, e)
		VADDPS(floats(8.5), e, e)
		VCVTTPS2DQ(e, e)
		VPMINSD(longs(15), e, e)
		VCVTDQ2PS(e, e)
		VFNMADD213PS(offset, d4, e) // 8-code times the scale, which is exact
		VADDPS(e, x, e)
		add(e, sums[0])
		// Squares have no sign, so this is done without one.
		e = YMM()
		VANDPS(unsigned, x, x)
		VMULPS(id8, x, e)
		VADDPS(floats(math.Float32frombits(0x3EFF_FFFF)), e, e)
		VCVTTPS2DQ(e, e)
		VCVTDQ2PS(e, e)
		VMULPS(d8s, e, e)
		VSUBPS(e, x, e)
		add(e, sums[1])
	}
	ADDQ(U32(128), src)
	DECQ(n)
	JNZ(LabelRef("block"))
	Label("done")
	for i, y := range sums {
		VMOVUPD(y, Mem{Base: m}.Offset(32*i))
	}
	VZEROUPPER()
	Store(n, Return("rest"))
	RET()
}
