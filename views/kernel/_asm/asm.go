package main

import (
	"encoding/binary"
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// blocks emits the kernel of a stored type: a loop over blocks of the given bytes and elements. setup runs once before
// the loop, for constants kept in registers, and returns what emits the decoding of one block.
func blocks(name string, bytes, elems int, setup func() func(dst, src Mem)) {
	toBoth(func(to string) {
		TEXT(name+to+"AVX2", NOSPLIT, "func(dst, src *byte, blocks int) (rest int)")
		Pragma("noescape")
		Doc(fmt.Sprintf("%s%sAVX2 decodes blocks of %d bytes until one has a scale that is not finite; rest counts from that one.", name, to, bytes))
		loop(bytes, elems, setup)
	})
}

// single is whether the kernel that is being emitted decodes to F32. If not, it decodes to half.
var single bool

// toBoth emits a kernel for half and, with "Single" in its name, one for F32.
func toBoth(emit func(to string)) {
	emit("")
	single = true
	emit("Single")
	single = false
}

// size is the bytes of a decoded element.
func size() int {
	if single {
		return 4
	}
	return 2
}

// at is where decoded element i goes.
func at(dst Mem, i int) Mem { return dst.Offset(size() * i) }

// gridBlocks is blocks for a type with a codebook: grid and signs are tables of packed bytes, see grids.
func gridBlocks(name string, bytes int, setup func(grid, signs Register) func(dst, src Mem)) {
	toBoth(func(to string) {
		TEXT(name+to+"AVX2", NOSPLIT, "func(dst, src *byte, blocks int, grid, signs *uint64) (rest int)")
		Doc(fmt.Sprintf("%s%sAVX2 decodes blocks of %d bytes until one has a scale that is not finite; rest counts from that one.", name, to, bytes))
		loop(bytes, 256, func() func(dst, src Mem) {
			return setup(Load(Param("grid"), GP64()), Load(Param("signs"), GP64()))
		})
	})
}

func loop(bytes, elems int, setup func() func(dst, src Mem)) { loopTo(size()*elems, bytes, setup) }

// loopTo is loop for blocks that become so many bytes.
func loopTo(out, bytes int, setup func() func(dst, src Mem)) {
	dst, src, n := Load(Param("dst"), GP64()), Load(Param("src"), GP64()), Load(Param("blocks"), GP64())
	TESTQ(n, n)
	JLE(LabelRef("done"))
	body := setup()
	Label("block")
	ahead(src, bytes)
	body(Mem{Base: dst}, Mem{Base: src})
	ADDQ(U32(bytes), src)
	ADDQ(U32(out), dst)
	DECQ(n)
	JNZ(LabelRef("block"))
	Label("done")
	VZEROUPPER()
	Store(n, Return("rest"))
	RET()
}

// ahead asks for the memory of a later block, so much later that it is in the processor's cache when its turn comes. The
// processor's own guesses end with every page: BF16 is decoded at 1.6 times the rate for it, Q8_0 at 1.3 times. Memory that
// is not there does no harm.
func ahead(src Register, bytes int) {
	for line := 0; line < bytes; line += 64 {
		PREFETCHT0(Mem{Base: src, Disp: 2048 + line})
	}
}

// float is a format of scales: where its exponent is (in both halves of the word for a pair) and the lowest bit of it.
type float struct{ exponent, one uint32 }

var (
	half  = float{0x7C00, 0x0400}
	pair  = float{0x7C00_7C00, 0x0400_0400}
	bf16  = float{0x7F80, 0x0080}
	f32   = float{0x7F80_0000, 0x0080_0000}
	e8m0  = float{0xFF00, 0x0100} // the byte in bits 8 to 15
	carry = map[float]uint32{half: 0x8000, pair: 0x8000_8000, bf16: 0x8000, f32: 0x8000_0000, e8m0: 0x1_0000}
)

// finite leaves the loop if a scale has an exponent of all ones, which alone carries out of the field. It clobbers r.
func finite(r Register, f float) {
	ANDL(U32(f.exponent), r)
	ADDL(U32(f.one), r)
	TESTL(U32(carry[f]), r)
	JNZ(LabelRef("done"))
}

func load16(m Mem) Register { r := GP32(); MOVWLZX(m, r); return r }
func load32(m Mem) Register { r := GP32(); MOVL(m, r); return r }
func load8(m Mem) Register  { r := GP32(); MOVBLZX(m, r); return r }

// widen returns the half at m in all lanes, as F32.
func widen(m Mem) VecVirtual {
	y := YMM()
	VPBROADCASTW(m, y.AsX())
	VCVTPH2PS(y.AsX(), y)
	return y
}

// scale is widen for a block's only scale.
func scale(m Mem) VecVirtual {
	finite(load16(m), half)
	return widen(m)
}

// scaleMin is widen for a scale and the minimum after it.
func scaleMin(m Mem) (d, min VecVirtual) {
	finite(load32(m), pair)
	return widen(m), widen(m.Offset(2))
}

// each returns a function that spreads element i of eight over all lanes.
func each(y VecVirtual) func(i int) VecVirtual {
	lo, hi := YMM(), YMM()
	VPERM2F128(Imm(0x00), y, y, lo)
	VPERM2F128(Imm(0x11), y, y, hi)
	return func(i int) VecVirtual {
		r, from := YMM(), lo
		if i >= 4 {
			from = hi
		}
		VPERMILPS(Imm(uint64(0x55*(i%4))), from, r)
		return r
	}
}

// each16 is each for sixteen elements in two registers.
func each16(y [2]VecVirtual) func(i int) VecVirtual {
	var at func(i int) VecVirtual
	return func(i int) VecVirtual {
		if i%8 == 0 {
			at = each(y[i/8])
		}
		return at(i % 8)
	}
}

// Constants: 32 bytes in read-only memory, the pattern repeated to fill them, one symbol per content.

var constants = map[string]Mem{}

func constant(b []byte) Mem {
	for len(b) < 32 {
		b = append(b, b...)
	}
	m, ok := constants[string(b)]
	if !ok {
		m = GLOBL(fmt.Sprintf("const%d", len(constants)), RODATA|NOPTR)
		for i := 0; i < len(b); i += 8 {
			DATA(i, U64(binary.LittleEndian.Uint64(b[i:])))
		}
		constants[string(b)] = m
	}
	return m
}

func bytes(v ...byte) Mem { return constant(v) }

func words(v ...uint16) Mem {
	var b []byte
	for _, x := range v {
		b = binary.LittleEndian.AppendUint16(b, x)
	}
	return constant(b)
}

func longs(v ...uint32) Mem {
	var b []byte
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, x)
	}
	return constant(b)
}

func quads(v ...uint64) Mem {
	var b []byte
	for _, x := range v {
		b = binary.LittleEndian.AppendUint64(b, x)
	}
	return constant(b)
}

var negativeZero = float32(math.Copysign(0, -1))

func floats(v ...float32) Mem {
	var b []byte
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return constant(b)
}

// inRegister loads a constant.
func inRegister(m Mem) VecVirtual {
	y := YMM()
	VMOVDQU(m, y)
	return y
}

// address returns a register with the address of a constant that is indexed.
func address(m Mem) Register {
	r := GP64()
	LEAQ(m, r)
	return r
}
