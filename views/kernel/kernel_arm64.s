//go:build !purego

#include "textflag.h"

// Vector instructions that Go's assembler lacks, by register number: source operands first, destination last.
#define FCVTN(n, d) WORD $(0x0E216800 | (n)<<5 | (d))          // fcvtn  Vd.4h, Vn.4s
#define FCVTN2(n, d) WORD $(0x4E216800 | (n)<<5 | (d))         // fcvtn2 Vd.8h, Vn.4s
#define SCVTF(n, d) WORD $(0x4E21D800 | (n)<<5 | (d))          // scvtf  Vd.4s, Vn.4s
#define UCVTF(n, d) WORD $(0x6E21D800 | (n)<<5 | (d))          // ucvtf  Vd.4s, Vn.4s
#define FMUL(m, n, d) WORD $(0x6E20DC00 | (m)<<16 | (n)<<5 | (d)) // fmul  Vd.4s, Vn.4s, Vm.4s
#define FADD(m, n, d) WORD $(0x4E20D400 | (m)<<16 | (n)<<5 | (d)) // fadd  Vd.4s, Vn.4s, Vm.4s
#define FSUB(m, n, d) WORD $(0x4EA0D400 | (m)<<16 | (n)<<5 | (d)) // fsub  Vd.4s, Vn.4s, Vm.4s
#define FCMEQ(m, n, d) WORD $(0x4E20E400 | (m)<<16 | (n)<<5 | (d)) // fcmeq Vd.4s, Vn.4s, Vm.4s
#define SXTLB(n, d) WORD $(0x0F08A400 | (n)<<5 | (d))          // sxtl  Vd.8h, Vn.8b
#define SXTLB2(n, d) WORD $(0x4F08A400 | (n)<<5 | (d))         // sxtl2 Vd.8h, Vn.16b
#define SXTLH(n, d) WORD $(0x0F10A400 | (n)<<5 | (d))          // sxtl  Vd.4s, Vn.4h
#define SXTLH2(n, d) WORD $(0x4F10A400 | (n)<<5 | (d))         // sxtl2 Vd.4s, Vn.8h
#define XTN(n, d) WORD $(0x0E612800 | (n)<<5 | (d))            // xtn   Vd.4h, Vn.4s
#define XTN2(n, d) WORD $(0x4E612800 | (n)<<5 | (d))           // xtn2  Vd.8h, Vn.4s
#define USHL(m, n, d) WORD $(0x6E604400 | (m)<<16 | (n)<<5 | (d)) // ushl  Vd.8h, Vn.8h, Vm.8h

// All decoders: R0 output, R1 source, R2 blocks left, R6 blocks in all.
#define BLOCKS(dst, src, n) \
	MOVD dst, R0 \
	MOVD src, R1 \
	MOVD n, R2   \
	MOVD R2, R6

// HALF leaves the half at off(R1) as F32 in all lanes of vd (Fd its scalar name), or jumps if it is not finite.
#define HALF(off, fd, vd, stop) \
	MOVHU off(R1), R3        \
	AND   $0x7C00, R3, R4    \
	CMP   $0x7C00, R4        \
	BEQ   stop               \
	FMOVS R3, fd             \
	FCVTHS fd, fd            \
	VDUP  vd.S[0], vd.S4

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

// STORE rounds V20 to V23 to 16 halves at R0.
#define STORE \
	FCVTN(20, 24)  \
	FCVTN2(21, 24) \
	FCVTN(22, 25)  \
	FCVTN2(23, 25) \
	VST1.P [V24.H8, V25.H8], 32(R0)

// PRODUCT decodes the 16 signed bytes of Vb times the scale in all lanes of Vs.
#define PRODUCT(b, s) \
	FLOATS(b)     \
	EACH(FMUL, s) \
	STORE

// STOREKEEPSIGN is STORE for floats that may be NaN. The rounded NaN is quiet and has the sign; the mask of lanes that
// equal themselves clears its payload. V30 holds 0xFE00 in each lane.
#define STOREKEEPSIGN \
	FCMEQ(20, 20, 16) \
	FCMEQ(21, 21, 17) \
	FCMEQ(22, 22, 18) \
	FCMEQ(23, 23, 19) \
	XTN(16, 26)   \
	XTN2(17, 26)  \
	XTN(18, 27)   \
	XTN2(19, 27)  \
	VORR V30.B16, V26.B16, V26.B16 \
	VORR V30.B16, V27.B16, V27.B16 \
	FCVTN(20, 24)  \
	FCVTN2(21, 24) \
	FCVTN(22, 25)  \
	FCVTN2(23, 25) \
	VAND V26.B16, V24.B16, V24.B16 \
	VAND V27.B16, V25.B16, V25.B16 \
	VST1.P [V24.H8, V25.H8], 32(R0)

// func f32NEON(dst, src *byte, n int)
TEXT ·f32NEON(SB), NOSPLIT, $0-24
	BLOCKS(dst+0(FP), src+8(FP), n+16(FP))
	MOVD $0xFE00, R3
	VDUP R3, V30.H8

loop:
	VLD1.P 64(R1), [V20.S4, V21.S4, V22.S4, V23.S4]
	STOREKEEPSIGN
	SUBS $16, R2
	BGT  loop
	RET

// func bf16NEON(dst, src *byte, n int)
TEXT ·bf16NEON(SB), NOSPLIT, $0-24
	BLOCKS(dst+0(FP), src+8(FP), n+16(FP))
	MOVD $0xFE00, R3
	VDUP R3, V30.H8
	VEOR V31.B16, V31.B16, V31.B16

loop:
	VLD1.P 32(R1), [V0.H8, V1.H8]
	VZIP1  V0.H8, V31.H8, V20.H8 // zeros below, BF16 above
	VZIP2  V0.H8, V31.H8, V21.H8
	VZIP1  V1.H8, V31.H8, V22.H8
	VZIP2  V1.H8, V31.H8, V23.H8
	STOREKEEPSIGN
	SUBS $16, R2
	BGT  loop
	RET

// func q4_0NEON(dst, src *byte, n int) (done int)
TEXT ·q4_0NEON(SB), NOSPLIT, $0-32
	BLOCKS(dst+0(FP), src+8(FP), n+16(FP))
	VMOVI $15, V31.B16
	VMOVI $8, V30.B16

loop:
	CBZ R2, stop
	HALF(0, F0, V0, stop)
	ADD    $2, R1
	VLD1.P 16(R1), [V2.B16]
	VAND   V31.B16, V2.B16, V1.B16
	VUSHR  $4, V2.B16, V2.B16
	VSUB   V30.B16, V1.B16, V1.B16
	VSUB   V30.B16, V2.B16, V2.B16
	PRODUCT(1, 0)
	PRODUCT(2, 0)
	SUB $1, R2
	B   loop

stop:
	SUB  R2, R6
	MOVD R6, done+24(FP)
	RET

// func q8_0NEON(dst, src *byte, n int) (done int)
TEXT ·q8_0NEON(SB), NOSPLIT, $0-32
	BLOCKS(dst+0(FP), src+8(FP), n+16(FP))

loop:
	CBZ R2, stop
	HALF(0, F0, V0, stop)
	ADD    $2, R1
	VLD1.P 32(R1), [V1.B16, V2.B16]
	PRODUCT(1, 0)
	PRODUCT(2, 0)
	SUB $1, R2
	B   loop

stop:
	SUB  R2, R6
	MOVD R6, done+24(FP)
	RET

// SIXBITS turns 8 unsigned bytes in Rr into F32 times Vd, in Va and Vb (numbers a, b).
#define SIXBITS(r, d, a, va, b, vb) \
	VMOV   r, V16.D[0]     \
	VUXTL  V16.B8, V16.H8  \
	VUXTL  V16.H4, va.S4   \
	VUXTL2 V16.H8, vb.S4   \
	UCVTF(a, a)   \
	UCVTF(b, b)   \
	FMUL(d, a, a) \
	FMUL(d, b, b)

// SUBBLOCKS decodes two sub-blocks of Q4_K from 32 bytes at R1: low nibbles with lane i of the scales vs and the
// minima vm, high nibbles with lane j.
#define SUBBLOCKS(vs, vm, i, j) \
	VLD1.P 32(R1), [V1.B16, V2.B16] \
	VDUP  vs.S[i], V16.S4           \
	VDUP  vm.S[i], V17.S4           \
	VAND  V31.B16, V1.B16, V3.B16   \
	NIBBLES                         \
	VAND  V31.B16, V2.B16, V3.B16   \
	NIBBLES                         \
	VDUP  vs.S[j], V16.S4           \
	VDUP  vm.S[j], V17.S4           \
	VUSHR $4, V1.B16, V3.B16        \
	NIBBLES                         \
	VUSHR $4, V2.B16, V3.B16        \
	NIBBLES

// NIBBLES decodes the bytes of V3 with scale V16 and minimum V17.
#define NIBBLES \
	FLOATS(3)      \
	EACH(FMUL, 16) \
	EACH(FSUB, 17) \
	STORE

// func q4_KNEON(dst, src *byte, n int) (done int)
TEXT ·q4_KNEON(SB), NOSPLIT, $0-32
	BLOCKS(dst+0(FP), src+8(FP), n+16(FP))
	VMOVI $15, V31.B16
	MOVD  $0x0F0F0F0F, R13
	MOVD  $0x3F3F3F3F, R14
	MOVD  $0x30303030, R15

loop:
	CBZ R2, stop
	HALF(0, F4, V4, stop)
	HALF(2, F5, V5, stop)

	// Eight scales in R10, eight minima in R11; see scaleMin.
	MOVWU 4(R1), R7
	MOVWU 8(R1), R8
	MOVWU 12(R1), R9
	AND   R14, R7, R10
	AND   R14, R8, R11
	AND   R7>>2, R15, R7 // the upper two bits of each byte, as bits 4 and 5
	AND   R8>>2, R15, R8
	AND   R9, R13, R12
	ORR   R12, R7, R7
	AND   R9>>4, R13, R12
	ORR   R12, R8, R8
	ORR   R7<<32, R10, R10
	ORR   R8<<32, R11, R11
	SIXBITS(R10, 4, 8, V8, 9, V9)
	SIXBITS(R11, 5, 10, V10, 11, V11)

	ADD $16, R1
	SUBBLOCKS(V8, V10, 0, 1)
	SUBBLOCKS(V8, V10, 2, 3)
	SUBBLOCKS(V9, V11, 0, 1)
	SUBBLOCKS(V9, V11, 2, 3)
	SUB $1, R2
	B   loop

stop:
	SUB  R2, R6
	MOVD R6, done+24(FP)
	RET

// SIXTEEN decodes a sub-block of Q6_K: V16 has the lower four bits, V17 the upper two in place, lane i of vs the scale.
#define SIXTEEN(vs, i) \
	VORR V17.B16, V16.B16, V16.B16 \
	VSUB V29.B16, V16.B16, V16.B16 \
	VDUP vs.S[i], V18.S4           \
	PRODUCT(16, 18)

// QUARTERS decodes 128 elements of Q6_K: 64 bytes of ql in V0 to V3, 32 of qh in V4 and V5, eight scales in va and vb.
#define QUARTERS(va, vb) \
	VAND  V31.B16, V0.B16, V16.B16 \
	VSHL  $4, V4.B16, V17.B16      \
	VAND  V30.B16, V17.B16, V17.B16 \
	SIXTEEN(va, 0)                 \
	VAND  V31.B16, V1.B16, V16.B16 \
	VSHL  $4, V5.B16, V17.B16      \
	VAND  V30.B16, V17.B16, V17.B16 \
	SIXTEEN(va, 1)                 \
	VAND  V31.B16, V2.B16, V16.B16 \
	VSHL  $2, V4.B16, V17.B16      \
	VAND  V30.B16, V17.B16, V17.B16 \
	SIXTEEN(va, 2)                 \
	VAND  V31.B16, V3.B16, V16.B16 \
	VSHL  $2, V5.B16, V17.B16      \
	VAND  V30.B16, V17.B16, V17.B16 \
	SIXTEEN(va, 3)                 \
	VUSHR $4, V0.B16, V16.B16      \
	VAND  V30.B16, V4.B16, V17.B16 \
	SIXTEEN(vb, 0)                 \
	VUSHR $4, V1.B16, V16.B16      \
	VAND  V30.B16, V5.B16, V17.B16 \
	SIXTEEN(vb, 1)                 \
	VUSHR $4, V2.B16, V16.B16      \
	VUSHR $2, V4.B16, V17.B16      \
	VAND  V30.B16, V17.B16, V17.B16 \
	SIXTEEN(vb, 2)                 \
	VUSHR $4, V3.B16, V16.B16      \
	VUSHR $2, V5.B16, V17.B16      \
	VAND  V30.B16, V17.B16, V17.B16 \
	SIXTEEN(vb, 3)

// func q6_KNEON(dst, src *byte, n int) (done int)
TEXT ·q6_KNEON(SB), NOSPLIT, $0-32
	BLOCKS(dst+0(FP), src+8(FP), n+16(FP))
	VMOVI $15, V31.B16
	VMOVI $48, V30.B16
	VMOVI $32, V29.B16

loop:
	CBZ R2, stop
	HALF(208, F7, V7, stop)
	ADD  $128, R1, R8
	ADD  $192, R1, R9
	VLD1 (R9), [V6.B16]
	FLOATS(6)
	EACH(FMUL, 7)
	VMOV V20.B16, V8.B16
	VMOV V21.B16, V9.B16
	VMOV V22.B16, V10.B16
	VMOV V23.B16, V11.B16

	VLD1.P 64(R1), [V0.B16, V1.B16, V2.B16, V3.B16]
	VLD1.P 32(R8), [V4.B16, V5.B16]
	QUARTERS(V8, V9)
	VLD1.P 64(R1), [V0.B16, V1.B16, V2.B16, V3.B16]
	VLD1.P 32(R8), [V4.B16, V5.B16]
	QUARTERS(V10, V11)

	ADD $82, R1
	SUB $1, R2
	B   loop

stop:
	SUB  R2, R6
	MOVD R6, done+24(FP)
	RET

// FINITE jumps if the F32 with the bits in R7 is infinite or NaN. R14 holds the exponent's mask.
#define FINITE(stop) \
	AND R14, R7, R8 \
	CMP R14, R8     \
	BEQ stop

// func affineNEON(dst, codes, scales, biases *byte, n, group, bits, kind int, unpack *affineUnpack) (done int)
TEXT ·affineNEON(SB), NOSPLIT, $0-80
	BLOCKS(dst+0(FP), codes+8(FP), n+32(FP))
	MOVD scales+16(FP), R3
	MOVD biases+24(FP), R4
	MOVD group+40(FP), R5
	MOVD bits+48(FP), R9
	MOVD kind+56(FP), R10
	MOVD unpack+64(FP), R11
	VLD1 (R11), [V29.B16, V30.B16, V31.B16] // windows, shifts, mask
	MOVD $0x7F800000, R14

loop:
	CBZ R2, stop

	// Scale to V1 and bias to V2, in F32.
	CMP $1, R10
	BEQ bf16
	BGT f32
	MOVHU.P 2(R3), R7
	FMOVS   R7, F1
	FCVTHS  F1, F1
	FMOVS   F1, R7
	FINITE(stop)
	MOVHU.P 2(R4), R7
	FMOVS   R7, F2
	FCVTHS  F2, F2
	FMOVS   F2, R7
	FINITE(stop)
	B       group

bf16:
	MOVHU.P 2(R3), R7
	LSL     $16, R7
	FMOVS   R7, F1
	FINITE(stop)
	MOVHU.P 2(R4), R7
	LSL     $16, R7
	FMOVS   R7, F2
	FINITE(stop)
	B       group

f32:
	MOVWU.P 4(R3), R7
	FMOVS   R7, F1
	FINITE(stop)
	MOVWU.P 4(R4), R7
	FMOVS   R7, F2
	FINITE(stop)

group:
	VDUP V1.S[0], V1.S4
	VDUP V2.S[0], V2.S4
	MOVD R5, R12

codes:
	FMOVD (R1), F0
	ADD   R9, R1
	VTBL  V29.B16, [V0.B16], V3.B16
	USHL(30, 3, 3)
	VAND  V31.B16, V3.B16, V3.B16
	VUXTL  V3.H4, V20.S4
	VUXTL2 V3.H8, V21.S4
	UCVTF(20, 20)
	UCVTF(21, 21)
	FMUL(1, 20, 20)
	FMUL(1, 21, 21)
	FADD(2, 20, 20)
	FADD(2, 21, 21)
	FCVTN(20, 24)
	FCVTN2(21, 24)
	VST1.P [V24.H8], 16(R0)
	SUBS $8, R12
	BGT  codes

	SUB $1, R2
	B   loop

stop:
	SUB  R2, R6
	MOVD R6, done+72(FP)
	RET
