package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// plain: a block is 32 elements, callers decode what is left of fewer. Here NaN is an element: the conversion keeps
// sign and payload, and two minima, one signed and one unsigned, cut the payload down to 0x7E00 and 0xFE00.
func plain() {
	float := func(name string, bytes int, load func(src Mem) [2]VecVirtual) {
		TEXT(name+"AVX2", NOSPLIT, "func(dst, src *byte, blocks int) (rest int)")
		Pragma("noescape")
		Doc(fmt.Sprintf("%sAVX2 decodes blocks of %d bytes; rest is 0.", name, 32*bytes))
		loop(32*bytes, 32, func() func(dst, src Mem) {
			positive, negative := inRegister(words(0x7E00)), inRegister(words(0xFE00))
			return func(dst, src Mem) {
				for i, h := range load(src) {
					VPMINSW(positive, h, h)
					VPMINUW(negative, h, h)
					VMOVDQU(h, dst.Offset(32*i))
				}
			}
		})
	}
	float("f32", 4, func(src Mem) (h [2]VecVirtual) {
		for i := range h {
			h[i] = join(inRegister(src.Offset(64*i)), inRegister(src.Offset(64*i+32)))
		}
		return h
	})
	// Taking words apart within lanes and putting quarters in order is faster than widening across lanes.
	float("bf16", 2, func(src Mem) (h [2]VecVirtual) {
		zero := YMM()
		VPXOR(zero, zero, zero)
		for i := range h {
			y, a, b := inRegister(src.Offset(32*i)), YMM(), YMM()
			VPUNPCKLWD(y, zero, a)
			VPUNPCKHWD(y, zero, b)
			h[i] = cross(join(a, b))
		}
		return h
	})
	float("f64", 8, func(src Mem) (h [2]VecVirtual) {
		single := func(at int) VecVirtual {
			a, b := YMM(), XMM()
			VCVTPD2PSY(src.Offset(at), a.AsX())
			VCVTPD2PSY(src.Offset(at+32), b)
			VINSERTI128(Imm(1), b, a, a)
			return a
		}
		for i := range h {
			h[i] = join(single(128*i), single(128*i+64))
		}
		return h
	})
	float("f8_E5M2", 1, func(src Mem) [2]VecVirtual {
		h := upperBytes(src)
		for _, y := range h {
			nan := nanE5M2(y)
			VPAND(words(0x0200), nan, nan) // the quiet bit, which not all have
			VPOR(nan, y, y)
		}
		return h
	})
	float("f8_E4M3", 1, func(src Mem) [2]VecVirtual {
		h := upperBytes(src)
		for i, y := range h {
			nan := nanE4M3(y)
			VPAND(words(0x7E00), nan, nan)
			v := halves(e4m3(y))
			h[i] = join(times(v[0], floats(256)), times(v[1], floats(256)))
			VPOR(nan, h[i], h[i])
		}
		return h
	})
}

// scaled emits the kernels of 8-bit floats times a finite scale that is not zero, 32 at a time. E4M3's scale is given
// times 256, which e4m3 has divided by. NaN has no sign here.
func scaled() {
	float := func(name string, nan func(y VecVirtual) VecVirtual, value func(y VecVirtual) [2]VecVirtual) {
		TEXT("scaled"+name+"AVX2", NOSPLIT, "func(dst, src *byte, blocks int, scale float32) (rest int)")
		Doc("scaled" + name + "AVX2 decodes blocks of 32 codes; rest is 0.")
		loop(32, 32, func() func(dst, src Mem) {
			d, quiet := YMM(), inRegister(words(0x7E00))
			Load(Param("scale"), d.AsX())
			VBROADCASTSS(d.AsX(), d)
			return func(dst, src Mem) {
				for i, y := range upperBytes(src) {
					isNaN := nan(y)
					v := value(y)
					h := join(times(v[0], d), times(v[1], d))
					VPBLENDVB(isNaN, quiet, h, h)
					VMOVDQU(h, dst.Offset(32*i))
				}
			}
		})
	}
	float("E5M2", nanE5M2, halves)
	float("E4M3", nanE4M3, func(y VecVirtual) [2]VecVirtual { return halves(e4m3(y)) })
}

// nanE5M2 and nanE4M3 find the NaNs among codes in the upper bytes of words.
func nanE5M2(y VecVirtual) VecVirtual {
	nan := YMM()
	VPAND(words(0x7FFF), y, nan)
	VPCMPGTW(words(0x7C00), nan, nan)
	return nan
}

func nanE4M3(y VecVirtual) VecVirtual {
	nan := YMM()
	VPAND(words(0x7F00), y, nan)
	VPCMPEQW(words(0x7F00), nan, nan)
	return nan
}

// upperBytes returns 32 bytes as the upper ones of words.
func upperBytes(src Mem) [2]VecVirtual {
	zero, y, a, b := YMM(), cross(src), YMM(), YMM()
	VPXOR(zero, zero, zero)
	VPUNPCKLBW(y, zero, a)
	VPUNPCKHBW(y, zero, b)
	return [2]VecVirtual{a, b}
}

// e4m3 turns E4M3 codes in the upper bytes of words into halves of 2^-8 times their value, 480 for a NaN.
func e4m3(y VecVirtual) VecVirtual {
	VPSRAW(Imm(1), y, y)
	VPAND(words(0xBF80), y, y)
	return y
}

// halves returns 16 halves as F32.
func halves(y VecVirtual) [2]VecVirtual {
	upper, a, b := XMM(), YMM(), YMM()
	VEXTRACTI128(Imm(1), y, upper)
	VCVTPH2PS(y.AsX(), a)
	VCVTPH2PS(upper, b)
	return [2]VecVirtual{a, b}
}

// singles emits the kernels that decode to F32, 32 elements at a time.
func singles() {
	widen := func(name string, bytes int, load func(src Mem, i int) VecVirtual) {
		TEXT(name+"SingleAVX2", NOSPLIT, "func(dst, src *byte, blocks int) (rest int)")
		Doc(name + "SingleAVX2 decodes blocks of 32 elements to F32; rest is 0.")
		loopTo(128, 32*bytes, func() func(dst, src Mem) {
			return func(dst, src Mem) {
				for i := range 4 {
					VMOVDQU(load(src.Offset(8*bytes*i), i), dst.Offset(32*i))
				}
			}
		})
	}
	widen("f16", 2, func(src Mem, _ int) VecVirtual {
		y := YMM()
		VCVTPH2PS(src, y)
		return y
	})
	widen("bf16", 2, func(src Mem, _ int) VecVirtual {
		y := YMM()
		VPMOVZXWD(src, y)
		VPSLLD(Imm(16), y, y)
		return y
	})
	widen("f64", 8, func(src Mem, _ int) VecVirtual {
		a, b := YMM(), XMM()
		VCVTPD2PSY(src, a.AsX())
		VCVTPD2PSY(src.Offset(32), b)
		VINSERTI128(Imm(1), b, a, a)
		return bareNaN(a)
	})
	upper := func(src Mem) VecVirtual { // eight bytes as the upper ones of words
		x := XMM()
		VPMOVZXBW(src, x)
		VPSLLW(Imm(8), x, x)
		return x
	}
	widen("f8_E5M2", 1, func(src Mem, _ int) VecVirtual {
		y := YMM()
		VCVTPH2PS(upper(src), y)
		return bareNaN(y)
	})
	widen("f8_E4M3", 1, func(src Mem, _ int) VecVirtual {
		x, y := upper(src), YMM()
		VPSRAW(Imm(1), x, x)
		VPAND(words(0xBF80), x, x)
		VCVTPH2PS(x, y)
		nan, bits := YMM(), YMM()
		VANDNPS(y, inRegister(floats(negativeZero)), nan)
		VCMPPS(Imm(0), floats(480./256), nan, nan)
		VMULPS(floats(256), y, y)
		VORPS(longs(0x7FC0_0000), y, bits)
		VANDPS(longs(0xFFC0_0000), bits, bits)
		VBLENDVPS(nan, bits, y, y)
		return y
	})
	scaled := func(name string, nan func(y VecVirtual) VecVirtual, value func(y VecVirtual) [2]VecVirtual) {
		TEXT("scaled"+name+"SingleAVX2", NOSPLIT, "func(dst, src *byte, blocks int, scale float32) (rest int)")
		Doc("scaled" + name + "SingleAVX2 decodes blocks of 32 codes to F32; rest is 0.")
		loopTo(128, 32, func() func(dst, src Mem) {
			d, quiet := YMM(), inRegister(longs(0x7FC0_0000))
			Load(Param("scale"), d.AsX())
			VBROADCASTSS(d.AsX(), d)
			return func(dst, src Mem) {
				for i, y := range upperBytes(src) {
					isNaN := nan(y)
					low, high := YMM(), YMM()
					VPMOVSXWD(isNaN.AsX(), low)
					VEXTRACTI128(Imm(1), isNaN, high.AsX())
					VPMOVSXWD(high.AsX(), high)
					v := value(y)
					for k, mask := range []VecVirtual{low, high} {
						x := times(v[k], d)
						VBLENDVPS(mask, quiet, x, x)
						VMOVDQU(x, dst.Offset(64*i+32*k))
					}
				}
			}
		})
	}
	scaled("E5M2", nanE5M2, halves)
	scaled("E4M3", nanE4M3, func(y VecVirtual) [2]VecVirtual { return halves(e4m3(y)) })
}

// bareNaN takes the payload of NaNs and leaves the sign.
func bareNaN(y VecVirtual) VecVirtual {
	nan, bare := YMM(), YMM()
	VCMPPS(Imm(3), y, y, nan) // unordered
	VANDPS(floats(negativeZero), y, bare)
	VORPS(longs(0x7FC0_0000), bare, bare)
	VBLENDVPS(nan, bare, y, y)
	return y
}
