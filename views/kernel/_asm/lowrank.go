package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// panel is how many columns of the wide matrix are taken at a time, as F64.
const panel = 32

// lowRanks emits the kernels that add products of low rank, for groups of four rows and a panel of columns. Sums stay in
// registers: with AVX-512 those of the whole panel, with AVX2 of eight columns after the other.
//
//	left   F64, rank numbers of each row, row after row
//	right  F64, rank times 32 columns
//	dst    F32, rows pitch bytes apart
func lowRanks() {
	for _, s := range []set{
		{"AVX2", 32, 2, YMM, func(v VecVirtual) { VPXOR(v, v, v) }, func() finish {
			return func(sums []VecVirtual, factor VecVirtual, dst Mem) {
				low, high := XMM(), XMM()
				VCVTPD2PSY(sums[0], low)
				VCVTPD2PSY(sums[1], high)
				d := YMM()
				VINSERTF128(Imm(1), high, low.AsY(), d)
				VMULPS(factor, d, d)
				VADDPS(dst, d, d)
				oneNaN(d, longs(singleNaN))
				VMOVUPS(d, dst)
			}
		}},
		{"AVX512", 64, 4, ZMM, func(v VecVirtual) { VPXORQ(v, v, v) }, func() finish {
			quiet, classes := everywhere(singleNaN), everywhere(0x11111100) // of the eight classes of numbers, the two of NaN are left out
			return func(sums []VecVirtual, factor VecVirtual, dst Mem) {
				for i := 0; i < len(sums); i += 2 {
					low, high, d, to := YMM(), YMM(), ZMM(), ZMM()
					VCVTPD2PS(sums[i], low)
					VCVTPD2PS(sums[i+1], high)
					VINSERTF64X4(Imm(1), high, low.AsZ(), d)
					VMULPS(factor, d, d)
					VADDPS(dst.Offset(32*i), d, d)
					VMOVAPS(quiet, to)
					VFIXUPIMMPS(Imm(0), classes, d, to)
					VMOVUPS(to, dst.Offset(32*i))
				}
			}
		}},
	} {
		s.widen()
		s.lowRank()
	}
}

// set is a set of instructions: how large its vectors are, and how many of them the sums of a row take.
type set struct {
	name          string
	size, vectors int
	vector        func() VecVirtual
	zero          func(v VecVirtual)
	setup         func() finish
}

// finish emits what adds the sums of a row to its numbers.
type finish func(sums []VecVirtual, factor VecVirtual, dst Mem)

// unrolled is how many products are added to a sum in one go; ranks are multiples of it.
const unrolled = 4

const singleNaN = 0x7FC0_0000

// everywhere returns a number in all lanes.
func everywhere(n uint32) VecVirtual {
	r, z := GP32(), ZMM()
	MOVL(U32(n), r)
	VPBROADCASTD(r, z)
	return z
}

// lowRank emits the kernel of a set.
func (s *set) lowRank() {
	const rows = 4
	name, size, vectors, vector := "lowRank"+s.name, s.size, s.vectors, s.vector
	TEXT(name, NOSPLIT, "func(dst *byte, left, right *float64, rank, pitch, groups int, factor float32)")
	Pragma("noescape")
	Doc(name + " adds a product of low rank to groups of four rows of 32 columns.")
	dst, left, right := Load(Param("dst"), GP64()), Load(Param("left"), GP64()), Load(Param("right"), GP64())
	rank, pitch, groups := Load(Param("rank"), GP64()), Load(Param("pitch"), GP64()), Load(Param("groups"), GP64())
	factor := vector()
	f, err := Param("factor").Resolve()
	if err != nil {
		panic(err)
	}
	VBROADCASTSS(f.Addr, factor)
	across, across3 := GP64(), GP64() // from a row of left to the next, and to the third after it
	MOVQ(rank, across)
	SHLQ(Imm(3), across)
	LEAQ(Mem{Base: across, Index: across, Scale: 2}, across3)
	finish := s.setup()
	Label("group")
	to := GP64()
	MOVQ(dst, to)
	for range rows {
		PREFETCHT0(Mem{Base: to})
		PREFETCHT0(Mem{Base: to, Disp: 64})
		ADDQ(pitch, to)
	}
	for first := 0; first < panel; first += vectors * size / 8 {
		label := fmt.Sprintf("rank%d", first)
		var sums [rows][]VecVirtual
		for r := range sums {
			for range vectors {
				v := vector()
				s.zero(v)
				sums[r] = append(sums[r], v)
			}
		}
		l, at, k := GP64(), GP64(), GP64()
		MOVQ(left, l)
		MOVQ(right, at)
		MOVQ(rank, k)
		Label(label)
		for step := range unrolled {
			var columns []VecVirtual
			for i := range vectors {
				v := vector()
				VMOVUPD(Mem{Base: at, Disp: 8*(panel*step+first) + size*i}, v)
				columns = append(columns, v)
			}
			for r, m := range []Mem{{Base: l}, {Base: l, Index: across, Scale: 1}, {Base: l, Index: across, Scale: 2}, {Base: l, Index: across3, Scale: 1}} {
				one := vector()
				VBROADCASTSD(m.Offset(8*step), one)
				for i, c := range columns {
					VFMADD231PD(one, c, sums[r][i])
				}
			}
		}
		ADDQ(Imm(8*unrolled), l)
		ADDQ(U32(8*panel*unrolled), at)
		SUBQ(Imm(unrolled), k)
		JNZ(LabelRef(label))
		to := GP64()
		MOVQ(dst, to)
		for r := range sums {
			finish(sums[r], factor, Mem{Base: to, Disp: 4 * first})
			if r < rows-1 {
				ADDQ(pitch, to)
			}
		}
	}
	LEAQ(Mem{Base: left, Index: across, Scale: rows}, left)
	LEAQ(Mem{Base: dst, Index: pitch, Scale: rows}, dst)
	DECQ(groups)
	JNZ(LabelRef("group"))
	VZEROUPPER()
	RET()
}

// widen emits what makes F64 of a panel of the wide matrix.
func (s *set) widen() {
	name := "widenPanel" + s.name
	TEXT(name, NOSPLIT, "func(dst *float64, src *float32, rank int)")
	Pragma("noescape")
	Doc(name + " makes F64 of rank times 32 numbers.")
	dst, src, rank := Load(Param("dst"), GP64()), Load(Param("src"), GP64()), Load(Param("rank"), GP64())
	Label("row")
	ahead(src, 4*panel)
	for i := 0; i < 4*panel; i += s.size / 2 {
		v := s.vector()
		VCVTPS2PD(Mem{Base: src, Disp: i}, v)
		VMOVUPD(v, Mem{Base: dst, Disp: 2 * i})
	}
	ADDQ(U32(8*panel), dst)
	ADDQ(U32(4*panel), src)
	DECQ(rank)
	JNZ(LabelRef("row"))
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
	d := YMM()
	VINSERTF128(Imm(1), halves[1], halves[0].AsY(), d)
	oneNaN(d, quiet)
	VMOVUPS(d, Mem{Base: dst})
	next(n, dst)
	VZEROUPPER()
	RET()
}
