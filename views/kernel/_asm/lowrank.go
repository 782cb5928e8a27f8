package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// lowRank emits the kernels that add products of low rank, for so many rows at a time: each run is eight columns.
//
//	left   F64, rank times the numbers of the rows   | k=0: row 0, row 1 .. | k=1: row 0 .. |
//	right  F32, rank rows, stride bytes apart
//	dst    F32, rows pitch bytes apart
func lowRank(rows int) {
	name := fmt.Sprintf("lowRank%dAVX2", rows)
	TEXT(name, NOSPLIT, "func(dst *byte, left *float64, right *float32, rank, stride, pitch, runs int, factor float32)")
	Pragma("noescape")
	Doc(name + " adds a product of low rank to runs of eight columns of rows.")
	dst, left, right := Load(Param("dst"), GP64()), Load(Param("left"), GP64()), Load(Param("right"), GP64())
	rank, stride := Load(Param("rank"), GP64()), Load(Param("stride"), GP64())
	pitch, runs := Load(Param("pitch"), GP64()), Load(Param("runs"), GP64())
	Label("run")
	sums := make([][2]VecVirtual, rows)
	for r := range sums {
		for h := range 2 {
			sums[r][h] = YMM()
			VXORPD(sums[r][h], sums[r][h], sums[r][h])
		}
	}
	l, at, k := GP64(), GP64(), GP64()
	MOVQ(left, l)
	MOVQ(right, at)
	MOVQ(rank, k)
	Label("rank")
	columns := [2]VecVirtual{YMM(), YMM()}
	for h := range 2 {
		VCVTPS2PD(Mem{Base: at}.Offset(16*h), columns[h])
	}
	for r := range sums {
		one := YMM()
		VBROADCASTSD(Mem{Base: l}.Offset(8*r), one)
		for h := range 2 {
			VFMADD231PD(one, columns[h], sums[r][h])
		}
	}
	ADDQ(U32(uint32(8*rows)), l)
	ADDQ(stride, at)
	DECQ(k)
	JNZ(LabelRef("rank"))
	factor, quiet := YMM(), longs(0x7FC00000)
	f, err := Param("factor").Resolve()
	if err != nil {
		panic(err)
	}
	VBROADCASTSS(f.Addr, factor)
	to := GP64()
	MOVQ(dst, to)
	for r := range sums {
		low, high := XMM(), XMM()
		VCVTPD2PSY(sums[r][0], low)
		VCVTPD2PSY(sums[r][1], high)
		d, nan := YMM(), YMM()
		VINSERTF128(Imm(1), high, low.AsY(), d)
		VMULPS(factor, d, d)
		VADDPS(Mem{Base: to}, d, d)
		VCMPPS(Imm(3), d, d, nan) // unordered: not a number
		VBLENDVPS(nan, quiet, d, d)
		VMOVUPS(d, Mem{Base: to})
		if r < rows-1 {
			ADDQ(pitch, to)
		}
	}
	ADDQ(U32(32), dst)
	ADDQ(U32(32), right)
	DECQ(runs)
	JNZ(LabelRef("run"))
	VZEROUPPER()
	RET()
}

// lowRankWide emits the same kernel with AVX-512, for eight rows at a time: each run is sixteen columns, a line of the
// cache of each row of the wide matrix.
func lowRankWide() {
	const rows = 8
	name := fmt.Sprintf("lowRank%dAVX512", rows)
	TEXT(name, NOSPLIT, "func(dst *byte, left *float64, right *float32, rank, stride, pitch, runs int, factor float32)")
	Pragma("noescape")
	Doc(name + " adds a product of low rank to runs of sixteen columns of rows.")
	dst, left, right := Load(Param("dst"), GP64()), Load(Param("left"), GP64()), Load(Param("right"), GP64())
	rank, stride := Load(Param("rank"), GP64()), Load(Param("stride"), GP64())
	pitch, runs := Load(Param("pitch"), GP64()), Load(Param("runs"), GP64())
	factor, quiet, notNumber := ZMM(), ZMM(), K()
	f, err := Param("factor").Resolve()
	if err != nil {
		panic(err)
	}
	VBROADCASTSS(f.Addr, factor)
	nan := GP32()
	MOVL(U32(0x7FC00000), nan)
	VPBROADCASTD(nan, quiet)
	Label("run")
	sums := make([][2]VecVirtual, rows)
	for r := range sums {
		for h := range 2 {
			sums[r][h] = ZMM()
			VPXORQ(sums[r][h], sums[r][h], sums[r][h])
		}
	}
	l, at, k := GP64(), GP64(), GP64()
	MOVQ(left, l)
	MOVQ(right, at)
	MOVQ(rank, k)
	Label("rank")
	columns := [2]VecVirtual{ZMM(), ZMM()}
	for h := range 2 {
		VCVTPS2PD(Mem{Base: at}.Offset(32*h), columns[h])
	}
	for r := range sums {
		for h := range 2 {
			VFMADD231PD_BCST(Mem{Base: l}.Offset(8*r), columns[h], sums[r][h])
		}
	}
	ADDQ(U32(8*rows), l)
	ADDQ(stride, at)
	DECQ(k)
	JNZ(LabelRef("rank"))
	to := GP64()
	MOVQ(dst, to)
	for r := range sums {
		low, high := YMM(), YMM()
		VCVTPD2PS(sums[r][0], low)
		VCVTPD2PS(sums[r][1], high)
		d := ZMM()
		VINSERTF64X4(Imm(1), high, low.AsZ(), d)
		VMULPS(factor, d, d)
		VADDPS(Mem{Base: to}, d, d)
		VCMPPS(Imm(3), d, d, notNumber) // unordered
		VMOVUPS(quiet, notNumber, d)
		VMOVUPS(d, Mem{Base: to})
		if r < rows-1 {
			ADDQ(pitch, to)
		}
	}
	ADDQ(U32(64), dst)
	ADDQ(U32(64), right)
	DECQ(runs)
	JNZ(LabelRef("run"))
	VZEROUPPER()
	RET()
}

// lengths emits what DoRA does with rows, eight numbers at a time: their squares are added up, and they are multiplied.
func lengths() {
	TEXT("rowSquaresAVX2", NOSPLIT, "func(sums *float64, src *byte, runs int)")
	Pragma("noescape")
	Doc("rowSquaresAVX2 adds the squares of runs of eight numbers to sums of every fourth.")
	m, src, n := Load(Param("sums"), GP64()), Load(Param("src"), GP64()), Load(Param("runs"), GP64())
	total := fields(m, 1)
	Label("run")
	for i := range 2 {
		v := YMM()
		VCVTPS2PD(Mem{Base: src}.Offset(16*i), v)
		VFMADD231PD(v, v, total[0])
	}
	next(n, src)
	keep(m, total)

	TEXT("multiplyDoubleAVX2", NOSPLIT, "func(dst *byte, factor float64, runs int)")
	Pragma("noescape")
	Doc("multiplyDoubleAVX2 multiplies runs of eight numbers.")
	dst := Load(Param("dst"), GP64())
	f, err := Param("factor").Resolve()
	if err != nil {
		panic(err)
	}
	factor, quiet := YMM(), inRegister(longs(0x7FC00000))
	VBROADCASTSD(f.Addr, factor)
	n = Load(Param("runs"), GP64())
	Label("run")
	halves := [2]VecVirtual{XMM(), XMM()}
	for i := range 2 {
		v := YMM()
		VCVTPS2PD(Mem{Base: dst}.Offset(16*i), v)
		VMULPD(factor, v, v)
		VCVTPD2PSY(v, halves[i])
	}
	d, nan := YMM(), YMM()
	VINSERTF128(Imm(1), halves[1], halves[0].AsY(), d)
	VCMPPS(Imm(3), d, d, nan) // unordered: not a number
	VBLENDVPS(nan, quiet, d, d)
	VMOVUPS(d, Mem{Base: dst})
	next(n, dst)
	VZEROUPPER()
	RET()
}
