//go:build !purego

#include "textflag.h"

#include "kernel_arm64.h"

#define CMGT(m, n, d) WORD $(0x4EA03400 | (m)<<16 | (n)<<5 | (d)) // cmgt  Vd.4s, Vn.4s, Vm.4s
#define FCMEQZ(n, d) WORD $(0x4EA0D800 | (n)<<5 | (d))            // fcmeq Vd.4s, Vn.4s, #0.0
#define FCMGEZ(n, d) WORD $(0x6EA0C800 | (n)<<5 | (d))            // fcmge Vd.4s, Vn.4s, #0.0
#define FCMGTZ(n, d) WORD $(0x4EA0C800 | (n)<<5 | (d))            // fcmgt Vd.4s, Vn.4s, #0.0

// TWO makes of runs of eight numbers at R0, in V0 and V1, what the body leaves there. R2 are the runs that are left.
#define TWO(body) \
loop:                                  \
	VLD1   (R0), [V0.S4, V1.S4]        \
	body                               \
	VST1.P [V0.S4, V1.S4], 32(R0)      \
	SUBS   $1, R2                      \
	BNE    loop                        \
	RET

// OTHER has the second operands, at R1, in V2 and V3.
#define OTHER VLD1.P 32(R1), [V2.S4, V3.S4]

#define ADDS \
	OTHER         \
	FADD(2, 0, 0) \
	FADD(3, 1, 1)

// func addNEON(dst, src *byte, runs int)
TEXT ·addNEON(SB), NOSPLIT, $0-24
	BLOCKS(dst+0(FP), src+8(FP), runs+16(FP))
	TWO(ADDS)

#define SUBTRACTS \
	OTHER         \
	FSUB(2, 0, 0) \
	FSUB(3, 1, 1)

// func subtractNEON(dst, src *byte, runs int)
TEXT ·subtractNEON(SB), NOSPLIT, $0-24
	BLOCKS(dst+0(FP), src+8(FP), runs+16(FP))
	TWO(SUBTRACTS)

#define DIVIDES \
	OTHER                        \
	FCMEQZ(2, 4)                 \
	FCMEQZ(3, 5)                 \
	VBIT V4.B16, V31.B16, V2.B16 \
	VBIT V5.B16, V31.B16, V3.B16 \
	FDIV(2, 0, 0)                \
	FDIV(3, 1, 1)

// func divideEachNEON(dst, src *byte, runs int)
TEXT ·divideEachNEON(SB), NOSPLIT, $0-24
	BLOCKS(dst+0(FP), src+8(FP), runs+16(FP))
	MOVD $0x3F800000, R3
	VDUP R3, V31.S4
	TWO(DIVIDES)

// ONE has what is the same for all numbers in all lanes of V2.
#define ONE(dst, by, runs) \
	MOVD  dst, R0     \
	MOVWU by, R1      \
	MOVD  runs, R2    \
	VDUP  R1, V2.S4

#define MULTIPLY \
	FMUL(2, 0, 0) \
	FMUL(2, 1, 1)

// func multiplyNEON(dst *byte, by float32, runs int)
TEXT ·multiplyNEON(SB), NOSPLIT, $0-24
	ONE(dst+0(FP), by+8(FP), runs+16(FP))
	TWO(MULTIPLY)

#define DIVIDE \
	FDIV(2, 0, 0) \
	FDIV(2, 1, 1)

// func divideNEON(dst *byte, by float32, runs int)
TEXT ·divideNEON(SB), NOSPLIT, $0-24
	ONE(dst+0(FP), by+8(FP), runs+16(FP))
	TWO(DIVIDE)

#define LARGER \
	VAND V30.B16, V0.B16, V4.B16 \
	VAND V30.B16, V1.B16, V5.B16 \
	CMGT(2, 4, 4)                \
	CMGT(2, 5, 5)                \
	VAND V4.B16, V0.B16, V0.B16  \
	VAND V5.B16, V1.B16, V1.B16

// func keepLargerNEON(dst *byte, bits int32, runs int)
TEXT ·keepLargerNEON(SB), NOSPLIT, $0-24
	ONE(dst+0(FP), bits+8(FP), runs+16(FP))
	MOVD  $0x7FFFFFFF, R3
	VDUP  R3, V30.S4
	TWO(LARGER)

// ELECT leaves the number in vx, and in vm the weight of V28, where the number has the sign of that in vm; else 0. V30 are signs.
#define ELECT(x, vx, m, vm) \
	FCMGEZ(m, m)                 \
	VAND V30.B16, vm.B16, vm.B16 \
	VEOR V30.B16, vm.B16, vm.B16 \ // the sign alone, where it is not at least 0
	VEOR vx.B16, vm.B16, vm.B16  \
	FCMGTZ(m, m)                 \
	VAND vm.B16, vx.B16, vx.B16  \
	VAND vm.B16, V28.B16, vm.B16

// func electNEON(sums, weights, src, signs *byte, weight float32, runs int)
TEXT ·electNEON(SB), NOSPLIT, $0-48
	MOVD  sums+0(FP), R0
	MOVD  weights+8(FP), R1
	MOVD  src+16(FP), R3
	MOVD  signs+24(FP), R4
	MOVWU weight+32(FP), R5
	MOVD  runs+40(FP), R2
	VDUP  R5, V28.S4
	MOVD  $0x80000000, R5
	VDUP  R5, V30.S4

loop:
	VLD1.P 32(R3), [V2.S4, V3.S4]
	VLD1.P 32(R4), [V4.S4, V5.S4]
	ELECT(2, V2, 4, V4)
	ELECT(3, V3, 5, V5)
	VLD1   (R0), [V0.S4, V1.S4]
	VLD1   (R1), [V6.S4, V7.S4]
	FADD(2, 0, 0)
	FADD(3, 1, 1)
	FADD(4, 6, 6)
	FADD(5, 7, 7)
	VST1.P [V0.S4, V1.S4], 32(R0)
	VST1.P [V6.S4, V7.S4], 32(R1)
	SUBS   $1, R2
	BNE    loop
	RET

#define TOF32 \
	QUIET(0, V0) \
	QUIET(1, V1)

// func roundF32NEON(dst *byte, runs int)
TEXT ·roundF32NEON(SB), NOSPLIT, $0-16
	MOVD dst+0(FP), R0
	MOVD runs+8(FP), R2
	MOVD $0x7FC00000, R3
	VDUP R3, V31.S4
	TWO(TOF32)

#define TOF16 \
	TOF32        \
	FCVTN(0, 2)  \
	FCVTN2(1, 2) \
	FCVTL(2, 0)  \
	FCVTL2(2, 1)

// func roundF16NEON(dst *byte, runs int)
TEXT ·roundF16NEON(SB), NOSPLIT, $0-16
	MOVD dst+0(FP), R0
	MOVD runs+8(FP), R2
	MOVD $0x7FC00000, R3
	VDUP R3, V31.S4
	TWO(TOF16)

#define TOBF16 \
	TOF32    \
	EVEN(V0) \
	EVEN(V1) \
	VAND V30.B16, V0.B16, V0.B16 \
	VAND V30.B16, V1.B16, V1.B16

// func roundBF16NEON(dst *byte, runs int)
TEXT ·roundBF16NEON(SB), NOSPLIT, $0-16
	MOVD dst+0(FP), R0
	MOVD runs+8(FP), R2
	MOVD $0x7FC00000, R3
	VDUP R3, V31.S4
	MOVD $1, R3
	VDUP R3, V28.S4
	MOVD $0x7FFF, R3
	VDUP R3, V29.S4
	MOVD $0xFFFF0000, R3
	VDUP R3, V30.S4
	TWO(TOBF16)
