// Vector instructions that Go's assembler lacks, by register number: source operands first, destination last.
#define FCVTN(n, d) WORD $(0x0E216800 | (n)<<5 | (d))          // fcvtn  Vd.4h, Vn.4s
#define FCVTN2(n, d) WORD $(0x4E216800 | (n)<<5 | (d))         // fcvtn2 Vd.8h, Vn.4s
#define SCVTF(n, d) WORD $(0x4E21D800 | (n)<<5 | (d))          // scvtf  Vd.4s, Vn.4s
#define UCVTF(n, d) WORD $(0x6E21D800 | (n)<<5 | (d))          // ucvtf  Vd.4s, Vn.4s
#define FMUL(m, n, d) WORD $(0x6E20DC00 | (m)<<16 | (n)<<5 | (d)) // fmul  Vd.4s, Vn.4s, Vm.4s
#define FADD(m, n, d) WORD $(0x4E20D400 | (m)<<16 | (n)<<5 | (d)) // fadd  Vd.4s, Vn.4s, Vm.4s
#define FSUB(m, n, d) WORD $(0x4EA0D400 | (m)<<16 | (n)<<5 | (d)) // fsub  Vd.4s, Vn.4s, Vm.4s
#define FDIV(m, n, d) WORD $(0x6E20FC00 | (m)<<16 | (n)<<5 | (d)) // fdiv  Vd.4s, Vn.4s, Vm.4s
#define FCMEQ(m, n, d) WORD $(0x4E20E400 | (m)<<16 | (n)<<5 | (d)) // fcmeq Vd.4s, Vn.4s, Vm.4s
#define SXTLB(n, d) WORD $(0x0F08A400 | (n)<<5 | (d))          // sxtl  Vd.8h, Vn.8b
#define SXTLB2(n, d) WORD $(0x4F08A400 | (n)<<5 | (d))         // sxtl2 Vd.8h, Vn.16b
#define SXTLH(n, d) WORD $(0x0F10A400 | (n)<<5 | (d))          // sxtl  Vd.4s, Vn.4h
#define SXTLH2(n, d) WORD $(0x4F10A400 | (n)<<5 | (d))         // sxtl2 Vd.4s, Vn.8h
#define XTN(n, d) WORD $(0x0E612800 | (n)<<5 | (d))            // xtn   Vd.4h, Vn.4s
#define XTN2(n, d) WORD $(0x4E612800 | (n)<<5 | (d))           // xtn2  Vd.8h, Vn.4s
#define FCVTL(n, d) WORD $(0x0E217800 | (n)<<5 | (d))          // fcvtl  Vd.4s, Vn.4h
#define FCVTL2(n, d) WORD $(0x4E217800 | (n)<<5 | (d))         // fcvtl2 Vd.4s, Vn.8h
#define SSHR1(n, d) WORD $(0x4F1F0400 | (n)<<5 | (d))          // sshr   Vd.8h, Vn.8h, #1
#define USHL(m, n, d) WORD $(0x6E604400 | (m)<<16 | (n)<<5 | (d)) // ushl  Vd.8h, Vn.8h, Vm.8h

// EVEN leaves the F32 in va, rounded to BF16, in its upper halves. V28 is 1 and V29 0x7FFF.
#define EVEN(va) \
	VUSHR $16, va.S4, V18.S4        \
	VAND  V28.B16, V18.B16, V18.B16 \
	VADD  V29.S4, V18.S4, V18.S4    \
	VADD  V18.S4, va.S4, va.S4

// QUIET gives the F32 in va, of the number a, the bits in V31 where it is NaN.
#define QUIET(a, va) \
	FCMEQ(a, a, 16)               \
	VBIF V16.B16, V31.B16, va.B16

// All decoders: R0 output, R1 source, R2 blocks left, R6 blocks in all.
#define BLOCKS(dst, src, n) \
	MOVD dst, R0 \
	MOVD src, R1 \
	MOVD n, R2   \
	MOVD R2, R6

// HALF leaves the half at off(R1) as F32 in all lanes of vd (Fd its scalar name), or jumps if it is not finite.
#define HALF(off, fd, vd, stop) \
	MOVHU  off(R1), R3    \
	AND    $0x7C00, R3, R4 \
	CMP    $0x7C00, R4    \
	BEQ    stop           \
	FMOVS  R3, fd         \
	FCVTHS fd, fd         \
	VDUP   vd.S[0], vd.S4

// FLOATS widens the 16 signed bytes of Vb to F32 in V20 to V23. Codes are at most 63, so signed serves all.
#define FLOATS(b) \
	SXTLB(b, 24)  \
	SXTLB2(b, 25) \
	SXTLH(24, 20)  \
	SXTLH2(24, 21) \
	SXTLH(25, 22)  \
	SXTLH2(25, 23) \
	SCVTF(20, 20) \
	SCVTF(21, 21) \
	SCVTF(22, 22) \
	SCVTF(23, 23)

#define EACH(op, m) \
	op(m, 20, 20) \
	op(m, 21, 21) \
	op(m, 22, 22) \
	op(m, 23, 23)

// STORE puts V20 to V23 as 16 numbers at R0, STORE8 the first two registers; halves are rounded.
#ifdef SINGLE
#define STORE \
	VST1.P [V20.S4, V21.S4, V22.S4, V23.S4], 64(R0)
#define STORE8 \
	VST1.P [V20.S4, V21.S4], 32(R0)
#else
#define STORE \
	FCVTN(20, 24)  \
	FCVTN2(21, 24) \
	FCVTN(22, 25)  \
	FCVTN2(23, 25) \
	VST1.P [V24.H8, V25.H8], 32(R0)
#define STORE8 \
	FCVTN(20, 24)  \
	FCVTN2(21, 24) \
	VST1.P [V24.H8], 16(R0)
#endif

// PRODUCT decodes the 16 signed bytes of Vb times the scale in all lanes of Vs.
#define PRODUCT(b, s) \
	FLOATS(b)     \
	EACH(FMUL, s) \
	STORE
