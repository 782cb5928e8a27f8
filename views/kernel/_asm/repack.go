package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// repacks emits the kernels that put MLX's groups into ggml's blocks. The scales and biases of affine come as halves.
func repacks() {
	for _, bits := range []int{2, 3, 4, 5} {
		size := 20
		if bits == 5 {
			size = 24
		}
		repack(fmt.Sprintf("affine%d", bits), bits, 2, size, func(scales, biases Mem) func(dst, codes Mem) {
			d, m := load16(scales), load16(biases)
			SHLL(Imm(16), m)
			ORL(m, d)
			return func(dst, codes Mem) {
				MOVL(d, dst)
				if bits == 4 {
					a, b := apart(codes)
					VMOVDQU(array(a, b), dst.Offset(4))
					return
				}
				q, high := packBytes(unpack(codes, bits, func(VecVirtual) {}), inOrder()), YMM()
				at := 4
				if bits == 5 {
					fifth, mask := YMM(), GP32()
					VPSLLW(Imm(3), q, fifth)
					VPMOVMSKB(fifth, mask)
					MOVL(mask, dst.Offset(4))
					VPAND(bytes(15), q, q)
					at = 8
				}
				VEXTRACTI128(Imm(1), q, high.AsX())
				VMOVDQU(array(q.AsX().(VecVirtual), high.AsX().(VecVirtual)), dst.Offset(at))
			}
		})
	}
	repack("mxfp4", 4, 1, 17, func(scales, _ Mem) func(dst, codes Mem) {
		d := load8(scales)
		return func(dst, codes Mem) {
			MOVB(d.(GPVirtual).As8(), dst)
			a, b := apart(codes)
			VMOVDQU(array(a, b), dst.Offset(1))
		}
	})
	// Products of scales from 10 to 254 are exact as F32, and so are their upper halves.
	repack("mxfp8", 8, 1, 64, func(scales, _ Mem) func(dst, codes Mem) {
		d := YMM()
		VPBROADCASTB(scales, d)
		VPAND(longs(255), d, d)
		VPSLLD(Imm(23), d, d)
		return func(dst, codes Mem) {
			for i, y := range upperBytes(codes) {
				v := halves(e4m3(y))
				for k := range v {
					VMULPS(floats(256), v[k], v[k])
					VMULPS(d, v[k], v[k])
					VPSRLD(Imm(16), v[k], v[k])
				}
				VPACKUSDW(v[1], v[0], v[0])
				VMOVDQU(cross(v[0]), dst.Offset(32*i))
			}
		}
	})
	// The chunk of 32 is half a block: its two scales go to the front.
	repack("nvfp4", 4, 4, 36, func(scales, _ Mem) func(dst, codes Mem) {
		d := load32(scales)
		return func(dst, codes Mem) {
			MOVL(d, dst)
			for i := range 2 {
				a, b := apart(codes.Offset(16 * i))
				low, high := XMM(), XMM()
				VPUNPCKLQDQ(b, a, low)
				VPUNPCKHQDQ(b, a, high)
				VMOVDQU(array(low, high), dst.Offset(4+16*i))
			}
		}
	})
}

// exacts emits the kernels that look for scales that are no halves, 16 (F32: 8) at a time.
func exacts() {
	exact := func(name string, bytes int, test func(y VecVirtual) VecVirtual) {
		TEXT("exact"+name+"AVX2", NOSPLIT, "func(src *byte, blocks int) (rest int)")
		Pragma("noescape")
		Doc(fmt.Sprintf("exact%sAVX2 checks blocks of %d bytes until one may hold a number that is not a half;\n// rest counts from that one.", name, bytes))
		src, n, mask := Load(Param("src"), GP64()), Load(Param("blocks"), GP64()), GP32()
		TESTQ(n, n)
		JLE(LabelRef("done"))
		Label("block")
		a := test(inRegister(Mem{Base: src}))
		for i := 32; i < bytes; i += 32 {
			VPAND(test(inRegister(Mem{Base: src, Disp: i})), a, a)
		}
		VPMOVMSKB(a, mask)
		CMPL(mask, I32(-1))
		JNE(LabelRef("done"))
		ADDQ(U32(bytes), src)
		DECQ(n)
		JNZ(LabelRef("block"))
		Label("done")
		VZEROUPPER()
		Store(n, Return("rest"))
		RET()
	}
	// Magnitudes from 2^-17 to 65280, and zero.
	exact("BF16", 64, func(y VecVirtual) VecVirtual {
		low, zero := YMM(), YMM()
		VPAND(words(0x7FFF), y, y)
		VPXOR(zero, zero, zero)
		VPCMPEQW(zero, y, zero)
		VPMAXUW(words(0x3700), y, low)
		VPMINUW(words(0x477F), low, low)
		VPCMPEQW(low, y, y)
		VPOR(zero, y, y)
		return y
	})
	exact("F32", 64, func(y VecVirtual) VecVirtual {
		h := YMM()
		VCVTPS2PH(Imm(0), y, h.AsX())
		VCVTPH2PS(h.AsX(), h)
		VPCMPEQD(h, y, y)
		return y
	})
}

// repack emits a kernel for groups of so many chunks; a chunk of 32 elements (nvfp4: 64) becomes so many bytes.
func repack(name string, bits, scaleBytes, size int, start func(scales, biases Mem) func(dst, codes Mem)) {
	TEXT(name+"RepackAVX2", NOSPLIT, "func(dst, codes, scales, biases *byte, groups, chunks int)")
	Pragma("noescape")
	Doc(fmt.Sprintf("%sRepackAVX2 turns every chunk of a group into a block of %d bytes.", name, size))
	dst, codes := Load(Param("dst"), GP64()), Load(Param("codes"), GP64())
	scales, biases := Load(Param("scales"), GP64()), Load(Param("biases"), GP64())
	groups, chunks, i := Load(Param("groups"), GP64()), Load(Param("chunks"), GP64()), GP64()
	step := 4 * bits
	if name == "nvfp4" {
		step *= 2
	}
	TESTQ(groups, groups)
	JLE(LabelRef("done"))
	Label("group")
	chunk := start(Mem{Base: scales}, Mem{Base: biases})
	MOVQ(chunks, i)
	Label("chunk")
	chunk(Mem{Base: dst}, Mem{Base: codes})
	ADDQ(U32(step), codes)
	ADDQ(U32(size), dst)
	DECQ(i)
	JNZ(LabelRef("chunk"))
	ADDQ(U32(scaleBytes), scales)
	ADDQ(U32(scaleBytes), biases)
	DECQ(groups)
	JNZ(LabelRef("group"))
	Label("done")
	VZEROUPPER()
	RET()
}

// apart returns the 32 nibbles of 16 bytes, low ones first, as bytes: elements 0-15 and 16-31.
func apart(codes Mem) (a, b VecVirtual) {
	x, high := XMM(), XMM()
	a, b = XMM(), XMM()
	VMOVDQU(codes, x)
	VPSRLW(Imm(4), x, high)
	VPAND(bytes(15), x, x)
	VPAND(bytes(15), high, high)
	VPUNPCKLBW(high, x, a)
	VPUNPCKHBW(high, x, b)
	return a, b
}

// array puts two runs of 16 nibbles into the low and the high halves of bytes.
func array(a, b VecVirtual) VecVirtual {
	VPSLLW(Imm(4), b, b)
	VPOR(b, a, a)
	return a
}
