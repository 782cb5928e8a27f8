//go:build !purego

#include "textflag.h"

#include "kernel_arm64.h"

#define FCVTLD(n, d) WORD $(0x0E617800 | (n)<<5 | (d))            // fcvtl  Vd.2d, Vn.2s
#define FCVTLD2(n, d) WORD $(0x4E617800 | (n)<<5 | (d))           // fcvtl2 Vd.2d, Vn.4s
#define FCVTND(n, d) WORD $(0x0E616800 | (n)<<5 | (d))            // fcvtn  Vd.2s, Vn.2d
#define FCVTND2(n, d) WORD $(0x4E616800 | (n)<<5 | (d))           // fcvtn2 Vd.4s, Vn.2d

// func widenPanelNEON(dst *float64, src *float32, rank int)
TEXT ·widenPanelNEON(SB), NOSPLIT, $0-24
	MOVD dst+0(FP), R0
	MOVD src+8(FP), R1
	MOVD rank+16(FP), R2
	LSL  $1, R2, R2

half: // 16 numbers
	VLD1.P 64(R1), [V0.S4, V1.S4, V2.S4, V3.S4]
	FCVTLD(0, 16)
	FCVTLD2(0, 17)
	FCVTLD(1, 18)
	FCVTLD2(1, 19)
	FCVTLD(2, 20)
	FCVTLD2(2, 21)
	FCVTLD(3, 22)
	FCVTLD2(3, 23)
	VST1.P [V16.D2, V17.D2, V18.D2, V19.D2], 64(R0)
	VST1.P [V20.D2, V21.D2, V22.D2, V23.D2], 64(R0)
	SUBS $1, R2
	BNE  half
	RET

// PRODUCTS adds a number of a row, in all lanes of V20, times those of eight columns to the sums.
#define PRODUCTS(r, a, b, c, d) \
	VLD1R.P 8(r), [V20.D2]        \
	VFMLA   V16.D2, V20.D2, a.D2  \
	VFMLA   V17.D2, V20.D2, b.D2  \
	VFMLA   V18.D2, V20.D2, c.D2  \
	VFMLA   V19.D2, V20.D2, d.D2

// FINISH adds the sums of a row to its eight numbers at R14. V30 is the factor, V31 the NaN.
#define FINISH(a, b, c, d) \
	FCVTND(a, 20)                     \
	FCVTND2(b, 20)                    \
	FCVTND(c, 21)                     \
	FCVTND2(d, 21)                    \
	FMUL(30, 20, 20)                  \
	FMUL(30, 21, 21)                  \
	VLD1 (R14), [V22.S4, V23.S4]      \
	FADD(20, 22, 22)                  \
	FADD(21, 23, 23)                  \
	FCMEQ(22, 22, 24)                 \
	FCMEQ(23, 23, 25)                 \
	VBIF V24.B16, V31.B16, V22.B16    \
	VBIF V25.B16, V31.B16, V23.B16    \
	VST1 [V22.S4, V23.S4], (R14)      \
	ADD  R4, R14

// func lowRankNEON(dst *byte, left, right *float64, rank, pitch, groups int, factor float32)
TEXT ·lowRankNEON(SB), NOSPLIT, $0-52
	MOVD  dst+0(FP), R0
	MOVD  left+8(FP), R1
	MOVD  right+16(FP), R2
	MOVD  rank+24(FP), R3
	MOVD  pitch+32(FP), R4
	MOVD  groups+40(FP), R5
	FMOVS factor+48(FP), F30
	VDUP  V30.S[0], V30.S4
	MOVD  $0x7FC00000, R6
	VDUP  R6, V31.S4

group: // of four rows
	MOVD $0, R7 // bytes of F64 before the eight columns

columns:
	VEOR V0.B16, V0.B16, V0.B16
	VEOR V1.B16, V1.B16, V1.B16
	VEOR V2.B16, V2.B16, V2.B16
	VEOR V3.B16, V3.B16, V3.B16
	VEOR V4.B16, V4.B16, V4.B16
	VEOR V5.B16, V5.B16, V5.B16
	VEOR V6.B16, V6.B16, V6.B16
	VEOR V7.B16, V7.B16, V7.B16
	VEOR V8.B16, V8.B16, V8.B16
	VEOR V9.B16, V9.B16, V9.B16
	VEOR V10.B16, V10.B16, V10.B16
	VEOR V11.B16, V11.B16, V11.B16
	VEOR V12.B16, V12.B16, V12.B16
	VEOR V13.B16, V13.B16, V13.B16
	VEOR V14.B16, V14.B16, V14.B16
	VEOR V15.B16, V15.B16, V15.B16
	MOVD R1, R8
	ADD  R3<<3, R8, R9
	ADD  R3<<3, R9, R10
	ADD  R3<<3, R10, R11
	ADD  R7, R2, R12
	MOVD R3, R13

product:
	VLD1 (R12), [V16.D2, V17.D2, V18.D2, V19.D2]
	ADD  $256, R12
	PRODUCTS(R8, V0, V1, V2, V3)
	PRODUCTS(R9, V4, V5, V6, V7)
	PRODUCTS(R10, V8, V9, V10, V11)
	PRODUCTS(R11, V12, V13, V14, V15)
	SUBS $1, R13
	BNE  product

	ADD R7>>1, R0, R14
	FINISH(0, 1, 2, 3)
	FINISH(4, 5, 6, 7)
	FINISH(8, 9, 10, 11)
	FINISH(12, 13, 14, 15)
	ADD $64, R7
	CMP $256, R7
	BNE columns

	ADD  R4<<2, R0
	ADD  R3<<5, R1
	SUBS $1, R5
	BNE  group
	RET

// SUMS makes runs of 32 weighted sums in V0 to V7: LOAD leaves as many numbers of a source, at R8, in V16 to V23, and
// STORE puts the sums at R0. V25 is the divisor, V28 1, V29 0x7FFF, V30 0 and V31 the NaN.
#define SUMS(dst, sources, weights, n, by, runs, LOAD, STORE, bytes) \
	MOVD  dst, R0                             \
	MOVD  sources, R1                         \
	MOVD  weights, R2                         \
	MOVD  n, R3                               \
	MOVWU by, R4                              \
	MOVD  runs, R5                            \
	VDUP  R4, V25.S4                          \
	MOVD  $0x3F800000, R10                    \
	MOVD  $0x7FC00000, R6                     \
	VDUP  R6, V31.S4                          \
	MOVD  $1, R6                              \
	VDUP  R6, V28.S4                          \
	MOVD  $0x7FFF, R6                         \
	VDUP  R6, V29.S4                          \
	VEOR  V30.B16, V30.B16, V30.B16           \
	MOVD  $0, R7                              \
run:                                          \
	VEOR  V0.B16, V0.B16, V0.B16              \
	VEOR  V1.B16, V1.B16, V1.B16              \
	VEOR  V2.B16, V2.B16, V2.B16              \
	VEOR  V3.B16, V3.B16, V3.B16              \
	VEOR  V4.B16, V4.B16, V4.B16              \
	VEOR  V5.B16, V5.B16, V5.B16              \
	VEOR  V6.B16, V6.B16, V6.B16              \
	VEOR  V7.B16, V7.B16, V7.B16              \
	MOVD  R1, R11                             \
	MOVD  R2, R12                             \
	MOVD  R3, R13                             \
source:                                       \
	MOVD.P 24(R11), R8                        \ // a slice: the address, and two lengths
	ADD   R7, R8                              \
	VLD1R.P 4(R12), [V24.S4]                  \
	LOAD                                      \
	VFMLA V16.S4, V24.S4, V0.S4               \
	VFMLA V17.S4, V24.S4, V1.S4               \
	VFMLA V18.S4, V24.S4, V2.S4               \
	VFMLA V19.S4, V24.S4, V3.S4               \
	VFMLA V20.S4, V24.S4, V4.S4               \
	VFMLA V21.S4, V24.S4, V5.S4               \
	VFMLA V22.S4, V24.S4, V6.S4               \
	VFMLA V23.S4, V24.S4, V7.S4               \
	SUBS  $1, R13                             \
	BNE   source                              \
	CMPW  R10, R4                             \
	BEQ   whole                               \ // what is divided by 1 stays what it is
	FDIV(25, 0, 0)                            \
	FDIV(25, 1, 1)                            \
	FDIV(25, 2, 2)                            \
	FDIV(25, 3, 3)                            \
	FDIV(25, 4, 4)                            \
	FDIV(25, 5, 5)                            \
	FDIV(25, 6, 6)                            \
	FDIV(25, 7, 7)                            \
whole:                                        \
	QUIET(0, V0)                              \
	QUIET(1, V1)                              \
	QUIET(2, V2)                              \
	QUIET(3, V3)                              \
	QUIET(4, V4)                              \
	QUIET(5, V5)                              \
	QUIET(6, V6)                              \
	QUIET(7, V7)                              \
	STORE                                     \
	ADD   $bytes, R7                          \
	SUBS  $1, R5                              \
	BNE   run                                 \
	RET

#define LOADF32 \
	VLD1.P 64(R8), [V16.S4, V17.S4, V18.S4, V19.S4] \
	VLD1   (R8), [V20.S4, V21.S4, V22.S4, V23.S4]

#define STOREF32 \
	VST1.P [V0.S4, V1.S4, V2.S4, V3.S4], 64(R0) \
	VST1.P [V4.S4, V5.S4, V6.S4, V7.S4], 64(R0)

#define LOADF16 \
	VLD1 (R8), [V8.H8, V9.H8, V10.H8, V11.H8] \
	FCVTL(8, 16)   \
	FCVTL2(8, 17)  \
	FCVTL(9, 18)   \
	FCVTL2(9, 19)  \
	FCVTL(10, 20)  \
	FCVTL2(10, 21) \
	FCVTL(11, 22)  \
	FCVTL2(11, 23)

#define STOREF16 \
	FCVTN(0, 16)   \
	FCVTN2(1, 16)  \
	FCVTN(2, 17)   \
	FCVTN2(3, 17)  \
	FCVTN(4, 18)   \
	FCVTN2(5, 18)  \
	FCVTN(6, 19)   \
	FCVTN2(7, 19)  \
	VST1.P [V16.H8, V17.H8, V18.H8, V19.H8], 64(R0)

#define LOADBF16 \
	VLD1  (R8), [V8.H8, V9.H8, V10.H8, V11.H8] \
	VZIP1 V8.H8, V30.H8, V16.H8  \ // zeros below
	VZIP2 V8.H8, V30.H8, V17.H8  \
	VZIP1 V9.H8, V30.H8, V18.H8  \
	VZIP2 V9.H8, V30.H8, V19.H8  \
	VZIP1 V10.H8, V30.H8, V20.H8 \
	VZIP2 V10.H8, V30.H8, V21.H8 \
	VZIP1 V11.H8, V30.H8, V22.H8 \
	VZIP2 V11.H8, V30.H8, V23.H8

#define STOREBF16 \
	EVEN(V0) \
	EVEN(V1) \
	EVEN(V2) \
	EVEN(V3) \
	EVEN(V4) \
	EVEN(V5) \
	EVEN(V6) \
	EVEN(V7) \
	VUZP2 V1.H8, V0.H8, V16.H8 \
	VUZP2 V3.H8, V2.H8, V17.H8 \
	VUZP2 V5.H8, V4.H8, V18.H8 \
	VUZP2 V7.H8, V6.H8, V19.H8 \
	VST1.P [V16.H8, V17.H8, V18.H8, V19.H8], 64(R0)

// func weightedSumF32NEON(dst *byte, sources *[]byte, weights *float32, n int, by float32, runs int)
TEXT ·weightedSumF32NEON(SB), NOSPLIT, $0-48
	SUMS(dst+0(FP), sources+8(FP), weights+16(FP), n+24(FP), by+32(FP), runs+40(FP), LOADF32, STOREF32, 128)

// func weightedSumF16NEON(dst *byte, sources *[]byte, weights *float32, n int, by float32, runs int)
TEXT ·weightedSumF16NEON(SB), NOSPLIT, $0-48
	SUMS(dst+0(FP), sources+8(FP), weights+16(FP), n+24(FP), by+32(FP), runs+40(FP), LOADF16, STOREF16, 64)

// func weightedSumBF16NEON(dst *byte, sources *[]byte, weights *float32, n int, by float32, runs int)
TEXT ·weightedSumBF16NEON(SB), NOSPLIT, $0-48
	SUMS(dst+0(FP), sources+8(FP), weights+16(FP), n+24(FP), by+32(FP), runs+40(FP), LOADBF16, STOREBF16, 64)
