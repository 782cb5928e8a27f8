//go:build !purego

#include "textflag.h"

#include "kernel_arm64.h"

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

#define Q4_0NEON ·q4_0NEON
#define Q8_0NEON ·q8_0NEON
#define IQ4_NLNEON ·iq4_NLNEON
#define MXFP4NEON ·mxfp4NEON
#define Q4_KNEON ·q4_KNEON
#define Q5_KNEON ·q5_KNEON
#define Q6_KNEON ·q6_KNEON

#include "kernel_blocks_arm64.h"
