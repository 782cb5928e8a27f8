package kernel

import "math"

// ggml's blocks of 4-bit floats. The levels are doubled so that they are whole, the scales halved.
//
//	MXFP4  32   e  qs[16]           2^(e-128) * level; nibbles as in Q4_0
//	NVFP4  64   scale[4]  qs[32]    16 elements a scale and 8 bytes: low nibbles, then high nibbles

// fp4Levels is twice the E2M1 value, but code 8 is plain zero.
var fp4Levels = [16]float32{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}

// ue4m3Half is half the value of an unsigned E4M3. Bit 7 is ignored and 0x7F is zero, but ggml lets 0xFF through.
var ue4m3Half = func() (t [256]float32) {
	for c := range t {
		t[c] = float8(c&0x7F, 3, 7) / 2
	}
	t[0x7F] = 0
	return t
}()

func mxfp4(dst, src []byte, to Float) {
	var v [32]float32
	for ; len(src) > 0; src = src[17:] {
		d := float32(math.Ldexp(1, int(src[0])-128))
		for j, b := range src[1:17] {
			v[j] = d * fp4Levels[b&15]
			v[j+16] = d * fp4Levels[b>>4]
		}
		dst = to.put(dst, v[:])
	}
}

func nvfp4(dst, src []byte, to Float) {
	var v [64]float32
	for ; len(src) > 0; src = src[36:] {
		for s, scale := range src[:4] {
			d := ue4m3Half[scale]
			for j, b := range src[4+8*s:][:8] {
				v[16*s+j] = d * fp4Levels[b&15]
				v[16*s+j+8] = d * fp4Levels[b>>4]
			}
		}
		dst = to.put(dst, v[:])
	}
}
