// The decoders of groups, to half or to F32; see kernel_blocks_arm64.h.

// FINITE jumps if the F32 with the bits in R7 is infinite or NaN. R14 holds the exponent's mask.
#define FINITE(stop) \
	AND R14, R7, R8 \
	CMP R14, R8     \
	BEQ stop

// AFFINENEON: func(dst, codes, scales, biases *byte, n, group, bits, kind int, unpack *affineUnpack) (done int)
TEXT AFFINENEON(SB), NOSPLIT, $0-80
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
	STORE8
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

// MX4NEON: func(dst, codes, scales *byte, n int, elements *[2][16]byte, exponents *[256]float32)
TEXT MX4NEON(SB), NOSPLIT, $0-48
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
