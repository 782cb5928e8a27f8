package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// splitCodes emits the kernels that take the codes out of ggml's blocks.
func splitCodes() {
	for _, t := range []struct {
		name      string
		block, at int
	}{{"q4_0", 18, 2}, {"q4_1", 20, 4}, {"mxfp4", 17, 1}} {
		splitBlocks(t.name, t.block, 16, func(dst, src Mem) {
			VMOVDQU(pairs(src.Offset(t.at)), dst)
		})
	}
	// 16 elements are 8 bytes: those of the low nibbles, then those of the high ones.
	splitBlocks("nvfp4", 36, 32, func(dst, src Mem) {
		for i := 0; i < 32; i += 16 {
			q := pairs(src.Offset(4 + i))
			VPSHUFD(Imm(0xD8), q, q)
			VMOVDQU(q, dst.Offset(i))
		}
	})
	for _, t := range []struct {
		name      string
		block, at int
	}{{"q5_0", 22, 2}, {"q5_1", 24, 4}} {
		splitBlocks(t.name, t.block, 20, func(dst, src Mem) {
			q, high, t5 := YMM(), XMM(), YMM()
			VMOVDQU(src.Offset(t.at+4), q.AsX())
			VPSRLW(Imm(4), q.AsX(), high)
			VINSERTI128(Imm(1), high, q, q)
			VPAND(bytes(15), q, q)
			// The fifth bit of element i is bit i%8 of byte i/8.
			VPBROADCASTD(src.Offset(t.at), t5)
			VPSHUFB(bytes(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3), t5, t5)
			VPAND(bytes(1, 2, 4, 8, 16, 32, 64, 128), t5, t5)
			VPCMPEQB(bytes(1, 2, 4, 8, 16, 32, 64, 128), t5, t5)
			VPAND(bytes(16), t5, t5)
			VPOR(t5, q, q)
			// 5 bits and 5 bits are 10, these 20, and these 40.
			VPMADDUBSW(bytes(1, 32), q, q)
			VPMADDWD(bytes(1, 0, 0, 4), q, q)
			VPSRLQ(Imm(12), q, t5)
			VPAND(bytes(0xFF, 0xFF, 0x0F, 0, 0, 0, 0, 0), q, q)
			VPAND(bytes(0, 0, 0xF0, 0xFF, 0xFF, 0, 0, 0), t5, t5)
			VPOR(t5, q, q)
			VPSHUFB(bytes(0, 1, 2, 3, 4, 8, 9, 10, 11, 12, 128, 128, 128, 128, 128, 128), q, q)
			VEXTRACTI128(Imm(1), q, high)
			VMOVQ(q.AsX(), dst)
			VPEXTRW(Imm(4), q.AsX(), dst.Offset(8))
			VMOVQ(high, dst.Offset(10))
			VPEXTRW(Imm(4), high, dst.Offset(18))
		})
	}
}

// pairs returns the nibbles of 16 bytes, each with the one of the next byte: first the low ones, then the high ones.
func pairs(src Mem) VecVirtual {
	low, high := XMM(), XMM()
	VMOVDQU(src, low)
	VPSRLW(Imm(4), low, high)
	VPAND(bytes(15), low, low)
	VPAND(bytes(15), high, high)
	VPMADDUBSW(bytes(1, 16), low, low)
	VPMADDUBSW(bytes(1, 16), high, high)
	VPACKUSWB(high, low, low)
	return low
}

// splitBlocks emits a kernel for blocks of so many bytes, whose codes take size bytes.
func splitBlocks(name string, block, size int, body func(dst, src Mem)) {
	TEXT(name+"SplitAVX2", NOSPLIT, "func(dst, src *byte, blocks int)")
	Pragma("noescape")
	Doc(fmt.Sprintf("%sSplitAVX2 writes the codes of blocks of %d bytes.", name, block))
	dst, src, n := Load(Param("dst"), GP64()), Load(Param("src"), GP64()), Load(Param("blocks"), GP64())
	TESTQ(n, n)
	JLE(LabelRef("done"))
	Label("block")
	ahead(src, block)
	body(Mem{Base: dst}, Mem{Base: src})
	ADDQ(U32(block), src)
	ADDQ(U32(size), dst)
	DECQ(n)
	JNZ(LabelRef("block"))
	Label("done")
	VZEROUPPER()
	RET()
}
