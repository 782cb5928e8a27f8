package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// encoders emits the kernels that encode F32. Those of Q8_0 and Q4_0 leave the loop at a block whose largest magnitude
// is not finite, or so small that its reciprocal may be infinite.
func encoders() {
	TEXT("toBF16AVX2", NOSPLIT, "func(dst, src *byte, blocks int) (rest int)")
	Doc("toBF16AVX2 encodes blocks of 32 elements; rest is 0.")
	loopTo(64, 128, func() func(dst, src Mem) {
		one, bias, quiet := inRegister(longs(1)), inRegister(longs(0x7FFF)), inRegister(longs(1<<22))
		round := func(src Mem) VecVirtual {
			x, nan, odd, payload := YMM(), YMM(), YMM(), YMM()
			VMOVUPS(src, x)
			VCMPPS(Imm(3), x, x, nan) // unordered
			VPSRLD(Imm(16), x, odd)
			VPAND(one, odd, odd)
			VPADDD(bias, odd, odd)
			VPADDD(x, odd, odd)
			VPOR(quiet, x, payload)
			VBLENDVPS(nan, payload, odd, x)
			VPSRLD(Imm(16), x, x)
			return x
		}
		return func(dst, src Mem) {
			for i := range 2 {
				a, b := round(src.Offset(64*i)), round(src.Offset(64*i+32))
				VPACKUSDW(b, a, a)
				VMOVDQU(cross(a), dst.Offset(32*i))
			}
		}
	})

	for _, from := range []source{
		{"F32", 4, func(m Mem) VecVirtual { return inRegister(m) }},
		{"F16", 2, func(m Mem) VecVirtual { y := YMM(); VCVTPH2PS(m, y); return y }},
		{"BF16", 2, func(m Mem) VecVirtual { y := YMM(); VPMOVZXWD(m, y); VPSLLD(Imm(16), y, y); return y }},
	} {
		toQ8_0(from)
		toQ4_0(from)
	}
}

// source is a type of numbers to encode: its bytes, and what loads eight of them as F32.
type source struct {
	name  string
	bytes int
	load  func(m Mem) VecVirtual
}

func (s source) all(src Mem) (v eights) {
	for i := range v {
		v[i] = s.load(src.Offset(8 * s.bytes * i))
	}
	return v
}

func toQ8_0(from source) {
	TEXT("toQ8_0From"+from.name+"AVX2", NOSPLIT, "func(dst, src *byte, blocks int) (rest int)")
	Doc("toQ8_0From" + from.name + "AVX2 encodes blocks of 32 elements until one is extreme; rest counts from that one.")
	loopTo(34, 32*from.bytes, func() func(dst, src Mem) {
		sign, half := inRegister(longs(1<<31)), inRegister(longs(0x3EFF_FFFF))
		return func(dst, src Mem) {
			v := from.all(src)
			m, _ := largest(v, sign)
			d := XMM()
			VDIVSS(floats(127), m, d)
			id := inverse(d)
			storeHalf(d, dst)
			for _, x := range v {
				away := YMM()
				VMULPS(id, x, x)
				VANDPS(sign, x, away)
				VORPS(half, away, away)
				VADDPS(away, x, x)
				VCVTTPS2DQ(x, x)
			}
			VMOVDQU(packBytes(v), dst.Offset(2))
		}
	})

}

func toQ4_0(from source) {
	TEXT("toQ4_0From"+from.name+"AVX2", NOSPLIT, "func(dst, src *byte, blocks int) (rest int)")
	Doc("toQ4_0From" + from.name + "AVX2 encodes blocks of 32 elements until one is extreme; rest counts from that one.")
	loopTo(18, 32*from.bytes, func() func(dst, src Mem) {
		sign, offset, most := inRegister(longs(1<<31)), inRegister(floats(8.5)), inRegister(bytes(15))
		return func(dst, src Mem) {
			v := from.all(src)
			m, bits := largest(v, sign)
			all := YMM()
			VPBROADCASTD(m, all)
			// One bit per element: which are the largest, and which negative. The first largest decides the sign.
			var equal eights
			for i, x := range v {
				equal[i] = YMM()
				VANDNPS(x, sign, equal[i])
				VPCMPEQD(all, equal[i], equal[i])
			}
			first, negative, t := GP32(), GP32(), GP32()
			VPMOVMSKB(packBytes(equal), first)
			VPMOVMSKB(packBytes(v), negative)
			MOVL(first, t)
			NEGL(t)
			ANDL(t, first) // the lowest bit that is set
			ANDL(first, negative)
			// d has the other sign: -0 where all are zero, whatever their signs.
			NEGL(negative)
			SBBL(t, t) // all ones if the largest is negative
			NEGL(bits)
			SBBL(bits, bits) // all ones unless all are zero
			ANDL(bits, t)
			NOTL(t)
			ANDL(U32(1<<31), t)
			d, s := XMM(), XMM()
			VMULSS(floats(0.125), m, d)
			VMOVD(t, s)
			VORPS(s, d, d)
			id := inverse(d)
			storeHalf(d, dst)
			for _, x := range v {
				VMULPS(id, x, x)
				VADDPS(offset, x, x)
				VCVTTPS2DQ(x, x)
			}
			q, high := packBytes(v), YMM()
			VPMINUB(most, q, q)
			VEXTRACTI128(Imm(1), q, high.AsX())
			VPSLLW(Imm(4), high.AsX(), high.AsX())
			VPOR(high.AsX(), q.AsX(), q.AsX())
			VMOVDQU(q.AsX(), dst.Offset(2))
		}
	})
}

// largest returns the largest magnitude, in the lowest lane of a register and as its bits, and leaves the loop where
// arithmetic with it is special. Magnitudes compare as whole numbers, so that a NaN is the largest of all.
func largest(v eights, sign VecVirtual) (m VecVirtual, bits Register) {
	a, b, high, t := YMM(), YMM(), YMM(), GP32()
	bits = GP32()
	magnitude := func(x, y VecVirtual) { VANDNPS(x, sign, y) }
	magnitude(v[0], a)
	for _, x := range v[1:] {
		magnitude(x, b)
		VPMAXUD(b, a, a)
	}
	VEXTRACTI128(Imm(1), a, high.AsX())
	VPMAXUD(high.AsX(), a.AsX(), a.AsX())
	VPSHUFD(Imm(0b11_10_11_10), a.AsX(), high.AsX())
	VPMAXUD(high.AsX(), a.AsX(), a.AsX())
	VPSHUFD(Imm(0b01_01_01_01), a.AsX(), high.AsX())
	VPMAXUD(high.AsX(), a.AsX(), a.AsX())
	VMOVD(a.AsX(), bits)
	LEAL(Mem{Base: bits, Disp: -1}, t) // zero becomes the largest number
	CMPL(t, U32(math.Float32bits(0x1p-96)-1))
	JB(LabelRef("done"))
	CMPL(bits, U32(0x7F80_0000))
	JAE(LabelRef("done"))
	return a.AsX().(VecVirtual), bits
}

// inverse returns 1/d in all lanes, 0 for 0.
func inverse(d VecVirtual) VecVirtual {
	x, nonzero, zero, y := XMM(), XMM(), XMM(), YMM()
	VXORPS(zero, zero, zero)
	VCMPSS(Imm(4), zero, d, nonzero)
	VMOVSS(floats(1), x)
	VDIVSS(d, x, x)
	VANDPS(nonzero, x, x)
	VBROADCASTSS(x, y)
	return y
}

func storeHalf(d VecVirtual, dst Mem) {
	h := XMM()
	VCVTPS2PH(Imm(0), d, h)
	VPEXTRW(Imm(0), h, dst)
}

// packBytes returns 32 whole numbers as signed bytes, in order.
func packBytes(v eights) VecVirtual {
	a, b := YMM(), YMM()
	VPACKSSDW(v[1], v[0], a)
	VPACKSSDW(v[3], v[2], b)
	VPACKSSWB(b, a, a)
	VPERMD(a, inRegister(longs(0, 4, 1, 5, 2, 6, 3, 7)), a)
	return a
}
