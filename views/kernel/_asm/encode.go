package main

import (
	"fmt"
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

// chunk is how many blocks have their reciprocals computed before their codes: codes that wait for the two divisions
// of their own block leave the processor nothing else to do.
const chunk = 64

// quantiser emits a kernel. scale stores a block's d and returns 1/d in the lowest lane, or leaves for the label;
// codes stores the codes for a 1/d in all lanes.
func quantiser(name string, from source, out int, scale func(v eights, dst Mem, extreme string) VecVirtual, codes func() func(v eights, id VecVirtual, dst Mem)) {
	TEXT(fmt.Sprintf("to%sFrom%sAVX2", name, from.name), NOSPLIT, "func(dst, src *byte, blocks int) (rest int)")
	Doc(fmt.Sprintf("to%sFrom%sAVX2 encodes blocks of 32 elements until one is extreme; rest counts from that one.", name, from.name))
	ids := AllocLocal(4 * chunk)
	dst, src, n := Load(Param("dst"), GP64()), Load(Param("src"), GP64()), Load(Param("blocks"), GP64())
	count, i, j, d, s := GP64(), GP64(), GP64(), GP64(), GP64()
	in := 32 * from.bytes
	store := codes()
	Label("chunk")
	TESTQ(n, n)
	JLE(LabelRef("done"))
	MOVQ(U32(chunk), count)
	CMPQ(n, count)
	CMOVQLT(n, count)
	XORQ(i, i)
	MOVQ(dst, d)
	MOVQ(src, s)
	Label("scale")
	VMOVSS(scale(from.all(Mem{Base: s}), Mem{Base: d}, "codes").AsX(), ids.Idx(i, 4))
	ADDQ(U32(in), s)
	ADDQ(U32(out), d)
	INCQ(i)
	CMPQ(i, count)
	JNE(LabelRef("scale"))
	Label("codes")
	TESTQ(i, i)
	JEQ(LabelRef("done"))
	XORQ(j, j)
	Label("code")
	id := YMM()
	VBROADCASTSS(ids.Idx(j, 4), id)
	store(from.all(Mem{Base: src}), id, Mem{Base: dst})
	ADDQ(U32(in), src)
	ADDQ(U32(out), dst)
	INCQ(j)
	CMPQ(j, i)
	JNE(LabelRef("code"))
	SUBQ(i, n)
	CMPQ(i, count)
	JEQ(LabelRef("chunk"))
	Label("done")
	VZEROUPPER()
	Store(n, Return("rest"))
	RET()
}

func toQ8_0(from source) {
	quantiser("Q8_0", from, 34, func(v eights, dst Mem, extreme string) VecVirtual {
		m := largest(v, inRegister(longs(1<<31)), extreme)
		d := XMM()
		VDIVSS(floats(127), m.AsX(), d)
		storeHalf(d, dst)
		return inverse(d)
	}, func() func(v eights, id VecVirtual, dst Mem) {
		sign, half, order := inRegister(longs(1<<31)), inRegister(longs(0x3EFF_FFFF)), inRegister(inOrder())
		return func(v eights, id VecVirtual, dst Mem) {
			for _, x := range v {
				away := YMM()
				VMULPS(id, x, x)
				VANDPS(sign, x, away)
				VORPS(half, away, away)
				VADDPS(away, x, x)
				VCVTTPS2DQ(x, x)
			}
			VMOVDQU(packBytes(v, order), dst.Offset(2))
		}
	})
}

func toQ4_0(from source) {
	quantiser("Q4_0", from, 18, func(v eights, dst Mem, extreme string) VecVirtual {
		largest := firstLargest(v)
		m := GP32()
		MOVL(largest, m)
		ANDL(U32(0x7FFF_FFFF), m)
		CMOVLEQ(m, largest) // -0 is no number larger than the 0 to begin with
		ordinary(m, extreme)
		x, d := XMM(), XMM()
		VMOVD(largest, x)
		VMULSS(floats(-0.125), x, d)
		storeHalf(d, dst)
		return inverse(d)
	}, func() func(v eights, id VecVirtual, dst Mem) {
		offset, most, order := inRegister(floats(8.5)), inRegister(bytes(15)), inRegister(inOrder())
		return func(v eights, id VecVirtual, dst Mem) {
			for _, x := range v {
				VMULPS(id, x, x)
				VADDPS(offset, x, x)
				VCVTTPS2DQ(x, x)
			}
			q, high := packBytes(v, order), YMM()
			VPMINUB(most, q, q)
			VEXTRACTI128(Imm(1), q, high.AsX())
			VPSLLW(Imm(4), high.AsX(), high.AsX())
			VPOR(high.AsX(), q.AsX(), q.AsX())
			VMOVDQU(q.AsX(), dst.Offset(2))
		}
	})
}

// largest returns the largest magnitude in all lanes, and leaves for a label where it is not ordinary. Magnitudes
// compare as whole numbers, so that a NaN is the largest of all.
func largest(v eights, sign VecVirtual, extreme string) VecVirtual {
	a, b, high, bits := YMM(), YMM(), YMM(), GP32()
	magnitude := func(x, y VecVirtual) { VANDNPS(x, sign, y) }
	magnitude(v[0], a)
	for _, x := range v[1:] {
		magnitude(x, b)
		VPMAXUD(b, a, a)
	}
	VPERM2I128(Imm(0x01), a, a, high)
	VPMAXUD(high, a, a)
	VPSHUFD(Imm(0b01_00_11_10), a, high)
	VPMAXUD(high, a, a)
	VPSHUFD(Imm(0b10_11_00_01), a, high)
	VPMAXUD(high, a, a)
	VMOVD(a.AsX(), bits)
	ordinary(bits, extreme)
	return a
}

// firstLargest returns the bits of the number with the largest magnitude, the first of several. As whole numbers the
// largest signed one is the largest of the positive, and the largest unsigned one that of the negative. Only where
// both have one magnitude, or there is nothing negative, it takes a second look.
func firstLargest(v eights) Register {
	sign := inRegister(longs(1 << 31))
	s, u, low, high := YMM(), YMM(), YMM(), YMM()
	VPMAXSD(v[1], v[0], s)
	VPMAXUD(v[1], v[0], u)
	for _, x := range v[2:] {
		VPMAXSD(x, s, s)
		VPMAXUD(x, u, u)
	}
	VPXOR(sign, u, u) // unsigned order as signed
	VPERM2I128(Imm(0x20), u, s, low)
	VPERM2I128(Imm(0x31), u, s, high)
	VPMAXSD(high, low, low)
	VPSHUFD(Imm(0b01_00_11_10), low, high)
	VPMAXSD(high, low, low)
	VPSHUFD(Imm(0b10_11_00_01), low, high)
	VPMAXSD(high, low, low)
	VEXTRACTI128(Imm(1), low, high.AsX())
	largest, negative, t := GP32(), GP32(), GP32()
	VMOVD(low.AsX(), largest)
	VMOVD(high.AsX(), negative)
	XORL(U32(1<<31), negative)
	MOVL(negative, t)
	ANDL(U32(0x7FFF_FFFF), t)
	CMPL(t, largest)
	CMOVLHI(negative, largest)
	JNE(LabelRef("clear"))

	// One bit per element: which are the largest, and which negative. The lowest bit of the first decides.
	m := YMM()
	var equal eights
	VMOVD(t, m.AsX())
	VPBROADCASTD(m.AsX(), m)
	for i, x := range v {
		equal[i] = YMM()
		VANDNPS(x, sign, equal[i])
		VPCMPEQD(m, equal[i], equal[i])
	}
	first := GP32()
	VPMOVMSKB(packBytes(equal, inOrder()), first)
	VPMOVMSKB(packBytes(v, inOrder()), negative)
	MOVL(first, largest)
	NEGL(first)
	ANDL(largest, first)
	ANDL(first, negative)
	NEGL(negative)
	SBBL(largest, largest) // all ones if that is negative
	ANDL(U32(1<<31), largest)
	ORL(t, largest)
	Label("clear")
	return largest
}

// ordinary leaves for a label where a magnitude is not finite, or so small that arithmetic with it is special. Zero is
// ordinary.
func ordinary(bits Register, extreme string) { below(bits, float32(math.Inf(1)), extreme) }

// moderate is ordinary where the scale of a block has to be a finite half too.
func moderate(bits Register, extreme string) { below(bits, 0x1p18, extreme) }

// below leaves for a label where a magnitude is at least most, or so small that arithmetic with it is special.
func below(bits Register, most float32, extreme string) {
	t := GP32()
	LEAL(Mem{Base: bits, Disp: -1}, t) // zero becomes the largest number
	CMPL(t, U32(math.Float32bits(0x1p-96)-1))
	JB(LabelRef(extreme))
	CMPL(bits, U32(math.Float32bits(most)))
	JAE(LabelRef(extreme))
}

// inverse returns 1/d, 0 for 0.
func inverse(d VecVirtual) VecVirtual {
	x, nonzero, zero := XMM(), XMM(), XMM()
	VXORPS(zero, zero, zero)
	VCMPSS(Imm(4), zero, d, nonzero)
	VMOVSS(floats(1), x)
	VDIVSS(d, x, x)
	VANDPS(nonzero, x, x)
	return x
}

func storeHalf(d VecVirtual, dst Mem) {
	h := XMM()
	VCVTPS2PH(Imm(0), d, h)
	VPEXTRW(Imm(0), h, dst)
}

// packBytes returns 32 whole numbers as signed bytes, in order; order is inOrder.
func packBytes(v eights, order Op) VecVirtual {
	a, b := YMM(), YMM()
	VPACKSSDW(v[1], v[0], a)
	VPACKSSDW(v[3], v[2], b)
	VPACKSSWB(b, a, a)
	if m, ok := order.(Mem); ok {
		order = inRegister(m)
	}
	VPERMD(a, order, a)
	return a
}

func inOrder() Mem { return longs(0, 4, 1, 5, 2, 6, 3, 7) }
