//go:build !purego

#include "textflag.h"
#include "kernel_arm64.h"

#define AFFINENEON ·affineNEON
#define MX4NEON ·mx4NEON

#include "kernel_groups_arm64.h"

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
