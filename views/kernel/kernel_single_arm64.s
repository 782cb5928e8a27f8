//go:build !purego

#include "textflag.h"

#define SINGLE
#include "kernel_arm64.h"

#define Q4_0NEON ·q4_0SingleNEON
#define Q8_0NEON ·q8_0SingleNEON
#define IQ4_NLNEON ·iq4_NLSingleNEON
#define MXFP4NEON ·mxfp4SingleNEON
#define Q4_KNEON ·q4_KSingleNEON
#define Q5_KNEON ·q5_KSingleNEON
#define Q6_KNEON ·q6_KSingleNEON
#define AFFINENEON ·affineSingleNEON
#define MX4NEON ·mx4SingleNEON

#include "kernel_blocks_arm64.h"
#include "kernel_groups_arm64.h"

// func f16SingleNEON(dst, src *byte, n int)
TEXT ·f16SingleNEON(SB), NOSPLIT, $0-24
	BLOCKS(dst+0(FP), src+8(FP), n+16(FP))

loop:
	VLD1.P 32(R1), [V0.H8, V1.H8]
	FCVTL(0, 20)
	FCVTL2(0, 21)
	FCVTL(1, 22)
	FCVTL2(1, 23)
	STORE
	SUBS $16, R2
	BGT  loop
	RET

// func bf16SingleNEON(dst, src *byte, n int)
TEXT ·bf16SingleNEON(SB), NOSPLIT, $0-24
	BLOCKS(dst+0(FP), src+8(FP), n+16(FP))
	VEOR V31.B16, V31.B16, V31.B16

loop:
	VLD1.P 32(R1), [V0.H8, V1.H8]
	VZIP1  V0.H8, V31.H8, V20.H8 // zeros below, BF16 above
	VZIP2  V0.H8, V31.H8, V21.H8
	VZIP1  V1.H8, V31.H8, V22.H8
	VZIP2  V1.H8, V31.H8, V23.H8
	STORE
	SUBS $16, R2
	BGT  loop
	RET

// ROUND leaves the F32 in Va, rounded to BF16, in its upper halves. V28 is 1, V29 0x7FFF and V30 the quiet bit of NaN.
#define ROUND(a, va) \
	FCMEQ(a, a, 16)                  \ // all ones but for NaN
	VORR  V30.B16, va.B16, V17.B16   \
	EVEN(va)                         \
	VBIF  V16.B16, V17.B16, va.B16

// func toBF16NEON(dst, src *byte, n int)
TEXT ·toBF16NEON(SB), NOSPLIT, $0-24
	BLOCKS(dst+0(FP), src+8(FP), n+16(FP))
	MOVD $1, R3
	VDUP R3, V28.S4
	MOVD $0x7FFF, R3
	VDUP R3, V29.S4
	MOVD $0x400000, R3
	VDUP R3, V30.S4

loop:
	VLD1.P 64(R1), [V20.S4, V21.S4, V22.S4, V23.S4]
	ROUND(20, V20)
	ROUND(21, V21)
	ROUND(22, V22)
	ROUND(23, V23)
	VUZP2  V21.H8, V20.H8, V24.H8
	VUZP2  V23.H8, V22.H8, V25.H8
	VST1.P [V24.H8, V25.H8], 32(R0)
	SUBS $16, R2
	BGT  loop
	RET
