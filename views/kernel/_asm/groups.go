package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// groups emits the kernels for codes, scales and biases in separate streams. A group is a number of chunks of 32
// elements; nvfp4's chunk is a pair of groups.
func groups() {
	for _, s := range []scaleType{
		{"F16", 2, func(m Mem) { finite(load16(m), half) }, widen},
		{"BF16", 2, func(m Mem) { finite(load16(m), bf16) }, func(m Mem) VecVirtual {
			y := YMM()
			VPBROADCASTW(m, y)
			VPSLLD(Imm(16), y, y)
			return y
		}},
		{"F32", 4, func(m Mem) { finite(load32(m), f32) }, func(m Mem) VecVirtual {
			y := YMM()
			VBROADCASTSS(m, y)
			return y
		}},
	} {
		for _, bits := range []int{2, 3, 4, 5, 6, 8} {
			affine(bits, s)
		}
	}
	e2m1 := fp4Levels
	for i := range e2m1 {
		e2m1[i] /= 2
	}
	e2m1[8] = negativeZero
	group("mxfp4U8", 4, 1, func(scales, _ Mem, _ VecVirtual) func(dst, codes Mem) {
		d := powerOfTwo(scales, 0)
		t := codebook(e2m1, d, nil)
		return func(dst, codes Mem) { t.store(pairNibbles(codes), dst) }
	})
	group("mxfp8U8", 8, 1, func(scales, _ Mem, _ VecVirtual) func(dst, codes Mem) {
		if single {
			d := powerOfTwo(scales, 0)
			return func(dst, codes Mem) {
				for i, y := range upperBytes(codes) {
					for k, x := range halves(e4m3(y)) {
						VMOVUPS(times(times(x, floats(256)), d), at(dst, 16*i+8*k))
					}
				}
			}
		}
		d := powerOfTwo(scales, 8)
		return func(dst, codes Mem) {
			for i, y := range upperBytes(codes) {
				v := halves(e4m3(y))
				VMOVDQU(join(times(v[0], d), times(v[1], d)), at(dst, 16*i))
			}
		}
	})
	group("nvfp4U8", 4, 2, func(scales, _ Mem, factor VecVirtual) func(dst, codes Mem) {
		d, a, b := YMM(), YMM(), YMM()
		VPBROADCASTW(scales, d)
		VPUNPCKLBW(d, d, d)
		VCVTPH2PS(e4m3(d).AsX(), d)
		VMULPS(floats(256), d, d)
		VPERMILPS(Imm(0x00), d, a)
		VPERMILPS(Imm(0x55), d, b)
		t := magnitudes(e2m1, a, b, factor)
		return func(dst, codes Mem) { t.storeSigned(pairNibbles(codes), dst) }
	})
}

// scaleType is a dtype of scales and biases: its bytes, the test for finite ones and the conversion to F32.
type scaleType struct {
	name   string
	bytes  int
	finite func(Mem)
	widen  func(Mem) VecVirtual
}

// affine: code * scale + bias.
func affine(bits int, s scaleType) {
	group(fmt.Sprintf("affine%d%s", bits, s.name), bits, s.bytes, func(scales, biases Mem, _ VecVirtual) func(dst, codes Mem) {
		s.finite(scales)
		s.finite(biases)
		d, m := s.widen(scales), s.widen(biases)
		switch { // a table of F32 takes more work than it saves
		case bits == 2 && !single:
			t := table8(linear(floats(0, 1, 2, 3), d, m))
			return func(dst, codes Mem) { t.store(fourCodes(codes), dst) }
		case bits == 4 && !single:
			t := codebook(counting, d, m)
			return func(dst, codes Mem) { t.store(pairNibbles(codes), dst) }
		}
		return func(dst, codes Mem) {
			var v eights
			if bits == 8 {
				v = unsigned(codes)
			} else {
				v = stream(codes, bits)
			}
			for _, y := range v {
				VMULPS(d, y, y)
				VADDPS(m, y, y)
			}
			v.storeJoined(dst)
		}
	})
}

// group emits a kernel: start begins a group (or pair of groups) with the given bytes of scales, and of biases, and
// returns what decodes 32 elements.
func group(name string, bits, scaleBytes int, start func(scales, biases Mem, factor VecVirtual) func(dst, codes Mem)) {
	toBoth(func(to string) { groupBody(name+to, bits, scaleBytes, start) })
}

func groupBody(name string, bits, scaleBytes int, start func(scales, biases Mem, factor VecVirtual) func(dst, codes Mem)) {
	TEXT(name+"AVX2", NOSPLIT, "func(dst, codes, scales, biases *byte, factor float32, groups, chunks int) (rest int)")
	Doc(fmt.Sprintf("%sAVX2 decodes groups of 32*chunks elements until one has a scale or bias that is not finite; rest counts from that one.", name))
	dst, codes := Load(Param("dst"), GP64()), Load(Param("codes"), GP64())
	scales, biases := Load(Param("scales"), GP64()), Load(Param("biases"), GP64())
	factor := YMM()
	Load(Param("factor"), factor.AsX())
	VBROADCASTSS(factor.AsX(), factor)
	groups, chunks, i := Load(Param("groups"), GP64()), Load(Param("chunks"), GP64()), GP64()
	TESTQ(groups, groups)
	JLE(LabelRef("done"))
	Label("group")
	chunk := start(Mem{Base: scales}, Mem{Base: biases}, factor)
	MOVQ(chunks, i)
	Label("chunk")
	chunk(Mem{Base: dst}, Mem{Base: codes})
	ADDQ(U32(4*bits), codes)
	ADDQ(U32(32*size()), dst)
	DECQ(i)
	JNZ(LabelRef("chunk"))
	ADDQ(U32(scaleBytes), scales)
	ADDQ(U32(scaleBytes), biases)
	DECQ(groups)
	JNZ(LabelRef("group"))
	Label("done")
	VZEROUPPER()
	Store(groups, Return("rest"))
	RET()
}

// stream returns 32 codes of a bit stream, low bits first, as F32.
func stream(codes Mem, bits int) (v eights) {
	return unpack(codes, bits, func(y VecVirtual) { VCVTDQ2PS(y, y) })
}

// unpack returns 32 codes of a bit stream, each changed by then. Eight codes take as many bytes as a code has bits, and
// each lies in two bytes; what is loaded never leaves the 32 codes.
func unpack(codes Mem, bits int, then func(y VecVirtual)) (v eights) {
	for i := range v {
		at := min(bits*i, 4*bits-8)
		var pick []byte
		var shift []uint32
		for c := range 8 {
			from, low, next := bits*i-at+bits*c/8, bits*c%8, byte(0x80) // zero
			if low+bits > 8 {
				next = byte(from + 1)
			}
			pick, shift = append(pick, byte(from), next, 0x80, 0x80), append(shift, uint32(low))
		}
		y := YMM()
		VPBROADCASTQ(codes.Offset(at), y)
		VPSHUFB(bytes(pick...), y, y)
		VPSRLVD(longs(shift...), y, y)
		VPAND(longs(1<<bits-1), y, y)
		then(y)
		v[i] = y
	}
	return v
}

// powerOfTwo returns 2^(e-127) for the byte e at m, times 2^raise. For halves, every product beyond e = 200 but zero is
// infinite, so that the sum is kept from reaching 255; 2^-127 is taken as zero, as its products are.
func powerOfTwo(m Mem, raise byte) VecVirtual {
	r, y := load8(m), YMM()
	if single {
		small := GP32()
		SHLL(Imm(8), r)
		MOVL(r, small)
		finite(small, e8m0)
		MOVL(U32(1<<22), small) // 2^-127 is subnormal
		SHLL(Imm(15), r)
		CMOVLEQ(small, r)
		VMOVD(r, y.AsX())
		VPBROADCASTD(y.AsX(), y)
		return y
	}
	SHLL(Imm(8), r)
	finite(r, e8m0)
	VPBROADCASTB(m, y)
	if raise > 0 {
		VPMINUB(bytes(200), y, y)
		VPADDB(bytes(raise), y, y)
	}
	VPAND(longs(255), y, y)
	VPSLLD(Imm(23), y, y)
	return y
}
