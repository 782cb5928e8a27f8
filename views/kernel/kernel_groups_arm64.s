//go:build !purego

#include "textflag.h"
#include "kernel_arm64.h"

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

// E2M1 decodes the 16 codes in V3, times the scale in V0. V28 is zero.
#define E2M1 \
	VTBL  V3.B16, [V29.B16], V4.B16 \
	VTBL  V3.B16, [V30.B16], V5.B16 \
	VZIP1 V5.B16, V4.B16, V6.B16    \
	VZIP2 V5.B16, V4.B16, V7.B16    \
	VZIP1 V6.H8, V28.H8, V20.H8     \
	VZIP2 V6.H8, V28.H8, V21.H8     \
	VZIP1 V7.H8, V28.H8, V22.H8     \
	VZIP2 V7.H8, V28.H8, V23.H8     \
	EACH(FMUL, 0)                   \
	STORE

// func mx4NEON(dst, codes, scales *byte, n int, elements *[2][16]byte, exponents *[256]float32)
TEXT ·mx4NEON(SB), NOSPLIT, $0-48
	BLOCKS(dst+0(FP), codes+8(FP), n+24(FP))
	MOVD  scales+16(FP), R3
	MOVD  elements+32(FP), R7
	MOVD  exponents+40(FP), R8
	VLD1  (R7), [V29.B16, V30.B16] // lower and upper byte of each element as BF16
	VMOVI $15, V31.B16
	VEOR  V28.B16, V28.B16, V28.B16

loop:
	MOVBU.P 1(R3), R4
	FMOVS   (R8)(R4<<2), F0
	VDUP    V0.S[0], V0.S4
	VLD1.P  16(R1), [V2.B16]
	VAND    V31.B16, V2.B16, V1.B16
	VUSHR   $4, V2.B16, V2.B16
	VZIP1   V2.B16, V1.B16, V3.B16 // low nibble first
	E2M1
	VZIP2   V2.B16, V1.B16, V3.B16
	E2M1
	SUBS $1, R2
	BGT  loop
	RET

// func e4m3NEON(dst, src *byte, n int, scale float32)
//
// An E4M3 code, its exponent and mantissa moved to where a half has them, is 2^-8 of the value; scale makes up for it.
TEXT ·e4m3NEON(SB), NOSPLIT, $0-28
	BLOCKS(dst+0(FP), src+8(FP), n+16(FP))
	FMOVS scale+24(FP), F0
	VDUP  V0.S[0], V0.S4
	VEOR  V28.B16, V28.B16, V28.B16
	MOVD  $0xBFFF, R3
	VDUP  R3, V29.H8
	MOVD  $0x3F80, R3
	VDUP  R3, V30.H8
	MOVD  $0x7E00, R3
	VDUP  R3, V31.H8

loop:
	VLD1.P 16(R1), [V1.B16]
	VZIP1  V1.B16, V28.B16, V2.B16 // code above, zeros below
	VZIP2  V1.B16, V28.B16, V3.B16
	SSHR1(2, 2)                    // sign twice, exponent, mantissa
	SSHR1(3, 3)
	VAND   V29.B16, V2.B16, V2.B16
	VAND   V29.B16, V3.B16, V3.B16
	FCVTL(2, 20)
	FCVTL2(2, 21)
	FCVTL(3, 22)
	FCVTL2(3, 23)
	EACH(FMUL, 0)
	FCVTN(20, 24)
	FCVTN2(21, 24)
	FCVTN(22, 25)
	FCVTN2(23, 25)
	VAND   V30.B16, V2.B16, V2.B16 // NaN where all of exponent and mantissa is set
	VAND   V30.B16, V3.B16, V3.B16
	VCMEQ  V30.H8, V2.H8, V2.H8
	VCMEQ  V30.H8, V3.H8, V3.H8
	VBIT   V2.B16, V31.B16, V24.B16
	VBIT   V3.B16, V31.B16, V25.B16
	VST1.P [V24.H8, V25.H8], 32(R0)
	SUBS   $16, R2
	BGT    loop
	RET

// PICK stores the halves that the two lowest bits of the bytes of Vc choose; V30 has their lower bytes, V31 the upper.
#define PICK(vc, out) \
	VAND   V29.B16, vc.B16, V1.B16   \
	VTBL   V1.B16, [V30.B16], V2.B16 \
	VTBL   V1.B16, [V31.B16], V3.B16 \
	VZIP1  V3.B16, V2.B16, V4.B16    \
	VZIP2  V3.B16, V2.B16, V5.B16    \
	VST1.P [V4.B16, V5.B16], 32(out)

// func picksNEON(dst, src *byte, blocks, n int, h uint64)
TEXT ·picksNEON(SB), NOSPLIT, $0-40
	BLOCKS(dst+0(FP), src+8(FP), blocks+16(FP))
	MOVD  n+24(FP), R3
	MOVD  h+32(FP), R4
	VMOV  R4, V0.D[0]
	VUZP1 V0.B16, V0.B16, V30.B16
	VUZP2 V0.B16, V0.B16, V31.B16
	VMOVI $3, V29.B16

block:
	ADD  R3<<1, R0, R8 // the four quarters of the output
	ADD  R3<<1, R8, R9
	ADD  R3<<1, R9, R10
	MOVD R3, R5

bytes:
	VLD1.P 16(R1), [V0.B16]
	VUSHR  $6, V0.B16, V6.B16
	PICK(V6, R0)
	VUSHR  $4, V0.B16, V6.B16
	PICK(V6, R8)
	VUSHR  $2, V0.B16, V6.B16
	PICK(V6, R9)
	PICK(V0, R10)
	SUBS $16, R5
	BGT  bytes

	MOVD R10, R0
	SUBS $1, R2
	BGT  block
	RET
