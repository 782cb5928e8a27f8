// The block decoders, to half or, with SINGLE defined, to F32. Who includes this defines their names, which are in
// capitals here, and includes kernel_arm64.h.

// Q4_0NEON: func(dst, src *byte, n int) (done int)
TEXT Q4_0NEON(SB), NOSPLIT, $0-32
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

// Q8_0NEON: func(dst, src *byte, n int) (done int)
TEXT Q8_0NEON(SB), NOSPLIT, $0-32
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

// LEVELS decodes 16 bytes of nibbles in V2 by the levels in V30, times the scale in V0.
#define LEVELS \
	VAND  V31.B16, V2.B16, V1.B16   \
	VUSHR $4, V2.B16, V2.B16        \
	VTBL  V1.B16, [V30.B16], V1.B16 \
	VTBL  V2.B16, [V30.B16], V2.B16 \
	PRODUCT(1, 0)                   \
	PRODUCT(2, 0)

// IQ4_NLNEON: func(dst, src *byte, n int, levels *[16]int8) (done int)
TEXT IQ4_NLNEON(SB), NOSPLIT, $0-40
	BLOCKS(dst+0(FP), src+8(FP), n+16(FP))
	MOVD  levels+24(FP), R7
	VLD1  (R7), [V30.B16]
	VMOVI $15, V31.B16

loop:
	CBZ R2, stop
	HALF(0, F0, V0, stop)
	ADD    $2, R1
	VLD1.P 16(R1), [V2.B16]
	LEVELS
	SUB $1, R2
	B   loop

stop:
	SUB  R2, R6
	MOVD R6, done+32(FP)
	RET

// MXFP4NEON: func(dst, src *byte, n int, levels *[16]int8, scales *[256]float32)
TEXT MXFP4NEON(SB), NOSPLIT, $0-40
	BLOCKS(dst+0(FP), src+8(FP), n+16(FP))
	MOVD  levels+24(FP), R7
	MOVD  scales+32(FP), R8
	VLD1  (R7), [V30.B16]
	VMOVI $15, V31.B16

loop:
	MOVBU.P 1(R1), R3
	FMOVS   (R8)(R3<<2), F0
	VDUP    V0.S[0], V0.S4
	VLD1.P  16(R1), [V2.B16]
	LEVELS
	SUBS $1, R2
	BGT  loop
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

// SUBBLOCKS decodes two sub-blocks of Q4_K or Q5_K from 32 bytes at R1: low nibbles with lane i of the scales vs and
// the minima vm, high nibbles with lane j. fifth adds the fifth bits to V3.
#define SUBBLOCKS(vs, vm, i, j, fifth) \
	VLD1.P 32(R1), [V1.B16, V2.B16] \
	VDUP  vs.S[i], V16.S4           \
	VDUP  vm.S[i], V17.S4           \
	VAND  V31.B16, V1.B16, V3.B16   \
	fifth(V6)                       \
	CODES                           \
	VAND  V31.B16, V2.B16, V3.B16   \
	fifth(V7)                       \
	CODES                           \
	VDUP  vs.S[j], V16.S4           \
	VDUP  vm.S[j], V17.S4           \
	VUSHR $4, V1.B16, V3.B16        \
	fifth(V6)                       \
	CODES                           \
	VUSHR $4, V2.B16, V3.B16        \
	fifth(V7)                       \
	CODES

// CODES decodes the bytes of V3 with scale V16 and minimum V17.
#define CODES \
	FLOATS(3)      \
	EACH(FMUL, 16) \
	EACH(FSUB, 17) \
	STORE

#define NOFIFTH(qh) \

// FIFTH takes the lowest bit of each byte of qh. V30 is 1 in each.
#define FIFTH(qh) \
	VAND  V30.B16, qh.B16, V18.B16 \
	VSHL  $4, V18.B16, V18.B16     \
	VORR  V18.B16, V3.B16, V3.B16  \
	VUSHR $1, qh.B16, qh.B16

// SCALES leaves the eight scales of a block of Q4_K or Q5_K in V8 and V9 and the minima in V10 and V11, all times d or
// dmin; see scaleMin. MASKS sets what it needs.
#define SCALES(stop) \
	HALF(0, F4, V4, stop)          \
	HALF(2, F5, V5, stop)          \
	MOVWU 4(R1), R7                \
	MOVWU 8(R1), R8                \
	MOVWU 12(R1), R9               \
	AND   R14, R7, R10             \
	AND   R14, R8, R11             \
	AND   R7>>2, R15, R7           \ // the upper two bits of each byte, as bits 4 and 5
	AND   R8>>2, R15, R8           \
	AND   R9, R13, R12             \
	ORR   R12, R7, R7              \
	AND   R9>>4, R13, R12          \
	ORR   R12, R8, R8              \
	ORR   R7<<32, R10, R10         \
	ORR   R8<<32, R11, R11         \
	SIXBITS(R10, 4, 8, V8, 9, V9)  \
	SIXBITS(R11, 5, 10, V10, 11, V11)

#define MASKS \
	VMOVI $15, V31.B16    \
	MOVD  $0x0F0F0F0F, R13 \
	MOVD  $0x3F3F3F3F, R14 \
	MOVD  $0x30303030, R15

// Q4_KNEON: func(dst, src *byte, n int) (done int)
TEXT Q4_KNEON(SB), NOSPLIT, $0-32
	BLOCKS(dst+0(FP), src+8(FP), n+16(FP))
	MASKS

loop:
	CBZ R2, stop
	SCALES(stop)
	ADD $16, R1
	SUBBLOCKS(V8, V10, 0, 1, NOFIFTH)
	SUBBLOCKS(V8, V10, 2, 3, NOFIFTH)
	SUBBLOCKS(V9, V11, 0, 1, NOFIFTH)
	SUBBLOCKS(V9, V11, 2, 3, NOFIFTH)
	SUB $1, R2
	B   loop

stop:
	SUB  R2, R6
	MOVD R6, done+24(FP)
	RET

// Q5_KNEON: func(dst, src *byte, n int) (done int)
TEXT Q5_KNEON(SB), NOSPLIT, $0-32
	BLOCKS(dst+0(FP), src+8(FP), n+16(FP))
	MASKS
	VMOVI $1, V30.B16

loop:
	CBZ R2, stop
	SCALES(stop)
	ADD $16, R1
	VLD1.P 32(R1), [V6.B16, V7.B16]
	SUBBLOCKS(V8, V10, 0, 1, FIFTH)
	SUBBLOCKS(V8, V10, 2, 3, FIFTH)
	SUBBLOCKS(V9, V11, 0, 1, FIFTH)
	SUBBLOCKS(V9, V11, 2, 3, FIFTH)
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

// Q6_KNEON: func(dst, src *byte, n int) (done int)
TEXT Q6_KNEON(SB), NOSPLIT, $0-32
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
