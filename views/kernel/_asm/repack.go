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
				q, high := packBytes(unpack(codes, bits, func(VecVirtual) {})), YMM()
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
