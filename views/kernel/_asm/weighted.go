package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// weighted emits the kernels of weighted sums, 32 numbers of all sources at a time. Sources are slices, as Go has them: 24 bytes,
// of which the first eight are the address.
func weighted() {
	sum := func(name string, bytes int, load func(src Mem) VecVirtual, store func(v [4]VecVirtual, dst Mem)) {
		name = "weightedSum" + name + "AVX2"
		TEXT(name, NOSPLIT, "func(dst *byte, sources *[]byte, weights *float32, n int, by float32, runs int)")
		Pragma("noescape")
		Doc(name + " makes runs of 32 weighted sums.")
		dst, sources, weights := Load(Param("dst"), GP64()), Load(Param("sources"), GP64()), Load(Param("weights"), GP64())
		n, by, runs := Load(Param("n"), GP64()), broadcastParam("by"), Load(Param("runs"), GP64())
		at, bits := GP64(), GP32()
		XORQ(at, at)
		VMOVD(by.AsX(), bits)
		Label("run")
		var a [4]VecVirtual
		for i := range a {
			a[i] = YMM()
			VPXOR(a[i], a[i], a[i])
		}
		source, weight, left := GP64(), GP64(), GP64()
		MOVQ(sources, source)
		MOVQ(weights, weight)
		MOVQ(n, left)
		Label("source")
		src, w := GP64(), YMM()
		MOVQ(Mem{Base: source}, src)
		ADDQ(at, src)
		ahead(src, 32*bytes)
		VBROADCASTSS(Mem{Base: weight}, w)
		for i := range a {
			VFMADD231PS(load(Mem{Base: src, Disp: 8 * bytes * i}), w, a[i])
		}
		ADDQ(Imm(24), source)
		ADDQ(Imm(4), weight)
		DECQ(left)
		JNZ(LabelRef("source"))
		CMPL(bits, U32(0x3F80_0000))
		JEQ(LabelRef("whole")) // what is divided by 1 stays what it is
		for i := range a {
			VDIVPS(by, a[i], a[i])
		}
		Label("whole")
		quiet := inRegister(longs(singleNaN))
		for i := range a {
			oneNaN(a[i], quiet)
		}
		store(a, Mem{Base: dst})
		ADDQ(U32(uint32(32*bytes)), dst)
		ADDQ(U32(uint32(32*bytes)), at)
		DECQ(runs)
		JNZ(LabelRef("run"))
		VZEROUPPER()
		RET()
	}
	sum("F32", 4, inRegister, func(v [4]VecVirtual, dst Mem) {
		for i := range v {
			VMOVUPS(v[i], dst.Offset(32*i))
		}
	})
	sum("F16", 2, func(src Mem) VecVirtual {
		y := YMM()
		VCVTPH2PS(src, y)
		return y
	}, func(v [4]VecVirtual, dst Mem) {
		for i := range v {
			VCVTPS2PH(Imm(0), v[i], dst.Offset(16*i))
		}
	})
	sum("BF16", 2, func(src Mem) VecVirtual {
		y := YMM()
		VPMOVZXWD(src, y)
		VPSLLD(Imm(16), y, y)
		return y
	}, func(v [4]VecVirtual, dst Mem) {
		for i := range v {
			evenBF16(v[i], longs(1), longs(0x7FFF))
			VPSRLD(Imm(16), v[i], v[i])
		}
		for i := 0; i < len(v); i += 2 {
			VPACKUSDW(v[i+1], v[i], v[i])
			VMOVDQU(cross(v[i]), dst.Offset(16*i))
		}
	})
}
