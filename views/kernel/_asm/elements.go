package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// elements emits the kernels of arithmetic over F32 numbers, eight at a time, in place.
func elements() {
	pairs := func(name, doc string, op func(src Mem, dst VecVirtual)) {
		TEXT(name, NOSPLIT, "func(dst, src *byte, runs int)")
		Pragma("noescape")
		Doc(doc)
		dst, src, n := Load(Param("dst"), GP64()), Load(Param("src"), GP64()), Load(Param("runs"), GP64())
		Label("run")
		v := inRegister(Mem{Base: dst})
		op(Mem{Base: src}, v)
		VMOVUPS(v, Mem{Base: dst})
		next(n, dst, src)
		VZEROUPPER()
		RET()
	}
	pairs("addAVX2", "addAVX2 adds src to dst.", func(src Mem, dst VecVirtual) { VADDPS(src, dst, dst) })
	pairs("subtractAVX2", "subtractAVX2 subtracts src from dst.", func(src Mem, dst VecVirtual) { VSUBPS(src, dst, dst) })
	pairs("divideEachAVX2", "divideEachAVX2 divides dst by src unless that is 0.", func(src Mem, dst VecVirtual) {
		by, one, zero := inRegister(src), inRegister(floats(1)), YMM()
		VPXOR(zero, zero, zero)
		VCMPPS(Imm(0), by, zero, zero)
		VBLENDVPS(zero, one, by, by)
		VDIVPS(by, dst, dst)
	})

	TEXT("electAVX2", NOSPLIT, "func(sums, weights, src, signs *byte, weight float32, runs int)")
	Pragma("noescape")
	Doc("electAVX2 adds numbers that have the sign of others, and a weight.")
	sums, weights, from, signs := Load(Param("sums"), GP64()), Load(Param("weights"), GP64()), Load(Param("src"), GP64()), Load(Param("signs"), GP64())
	weight, left := broadcastParam("weight"), Load(Param("runs"), GP64())
	none, sign := YMM(), inRegister(longs(0x8000_0000))
	VPXOR(none, none, none)
	Label("run")
	x, elected := inRegister(Mem{Base: from}), inRegister(Mem{Base: signs})
	VCMPPS(Imm(9), none, elected, elected) // not at least 0, or not a number
	VANDPS(sign, elected, elected)
	VXORPS(x, elected, elected)
	VCMPPS(Imm(14), none, elected, elected) // above 0
	VANDPS(elected, x, x)
	VANDPS(elected, weight, elected)
	VADDPS(Mem{Base: sums}, x, x)
	VADDPS(Mem{Base: weights}, elected, elected)
	VMOVUPS(x, Mem{Base: sums})
	VMOVUPS(elected, Mem{Base: weights})
	next(left, sums, weights, from, signs)
	VZEROUPPER()
	RET()

	single := func(name, by, doc string, op func(by, dst VecVirtual)) {
		TEXT(name, NOSPLIT, "func(dst *byte, by "+by+", runs int)")
		Pragma("noescape")
		Doc(doc)
		dst, n, one := Load(Param("dst"), GP64()), Load(Param("runs"), GP64()), broadcastParam("by")
		Label("run")
		v := inRegister(Mem{Base: dst})
		op(one, v)
		VMOVUPS(v, Mem{Base: dst})
		next(n, dst)
		VZEROUPPER()
		RET()
	}
	single("multiplyAVX2", "float32", "multiplyAVX2 multiplies dst by a number.", func(by, dst VecVirtual) { VMULPS(by, dst, dst) })
	single("divideAVX2", "float32", "divideAVX2 divides dst by a number.", func(by, dst VecVirtual) { VDIVPS(by, dst, dst) })

	single("keepLargerAVX2", "int32", "keepLargerAVX2 makes 0 of numbers whose bits without the sign are at most those given.", func(by, dst VecVirtual) {
		magnitude := YMM()
		VPAND(longs(0x7FFF_FFFF), dst, magnitude)
		VPCMPGTD(by, magnitude, magnitude)
		VPAND(magnitude, dst, dst)
	})

	round := func(name, doc string, op func(v VecVirtual) VecVirtual) {
		TEXT(name, NOSPLIT, "func(dst *byte, runs int)")
		Pragma("noescape")
		Doc(doc)
		dst, n := Load(Param("dst"), GP64()), Load(Param("runs"), GP64())
		quiet := inRegister(longs(0x7FC0_0000))
		Label("run")
		v := inRegister(Mem{Base: dst})
		oneNaN(v, quiet)
		VMOVUPS(op(v), Mem{Base: dst})
		next(n, dst)
		VZEROUPPER()
		RET()
	}
	round("roundF32AVX2", "roundF32AVX2 gives all NaN the same bits.", func(v VecVirtual) VecVirtual { return v })
	round("roundF16AVX2", "roundF16AVX2 rounds to what a half holds.", func(v VecVirtual) VecVirtual {
		half, to := XMM(), YMM()
		VCVTPS2PH(Imm(0), v, half)
		VCVTPH2PS(half, to)
		return to
	})
	round("roundBF16AVX2", "roundBF16AVX2 rounds to what a BF16 holds.", func(v VecVirtual) VecVirtual {
		evenBF16(v, longs(1), longs(0x7FFF))
		VPAND(longs(0xFFFF_0000), v, v)
		return v
	})
}

// oneNaN makes what is not a number that of quiet.
func oneNaN(v VecVirtual, quiet Op) {
	nan := YMM()
	VCMPPS(Imm(3), v, v, nan) // unordered
	VBLENDVPS(nan, quiet, v, v)
}

// evenBF16 rounds F32 to what is in their upper halves then. one and bias are 1 and 0x7FFF in all lanes.
func evenBF16(v VecVirtual, one, bias Op) {
	odd := YMM()
	VPSRLD(Imm(16), v, odd)
	VPAND(one, odd, odd)
	VPADDD(bias, odd, odd)
	VPADDD(odd, v, v)
}

// broadcastParam loads a number of 32 bits into all lanes.
func broadcastParam(name string) VecVirtual {
	all := YMM()
	p, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	VBROADCASTSS(p.Addr, all)
	return all
}
