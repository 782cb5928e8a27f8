package kernel

import (
	"math"
	"sync"
)

// Codes of a group are a little-endian bit stream: code i is bits [i*bits, (i+1)*bits), low bit first, so 8 codes fill
// exactly `bits` bytes.
//
//	affine   scale*code + bias; scale and bias F16, BF16 or F32; product and sum rounded separately
//	mxfp4    E2M1 * 2^(scale-127)
//	mxfp8    E4M3 * 2^(scale-127)
//	nvfp4    E2M1 * E4M3(scale) * factor
//
// As in MLX an E4M3 0x7F is 480 and an E8M0 0xFF is infinity.

// groupBody is a groupFunc for numbers of either format.
type groupBody = func(dst, codes, scales, biases []byte, factor float32, group int, to Float)

// goGroups is the plain Go implementation, and the list of what exists; goSingles is the same for [Single].
var (
	goGroups  = sync.OnceValue(func() map[groupKey]groupFunc { return groupsTo(Half) })
	goSingles = sync.OnceValue(func() map[groupKey]groupFunc { return groupsTo(Single) })
)

func groupsTo(to Float) map[groupKey]groupFunc {
	bodies := groupBodies()
	t := make(map[groupKey]groupFunc, len(bodies))
	for key, body := range bodies {
		t[key] = func(dst, codes, scales, biases []byte, factor float32, group int) {
			body(dst, codes, scales, biases, factor, group, to)
		}
	}
	return t
}

// groupBodies returns the bodies of both.
func groupBodies() map[groupKey]groupBody {
	t := map[groupKey]groupBody{
		{"mxfp4", 4, "U8"}: mx4,
		{"mxfp8", 8, "U8"}: mx8,
		{"nvfp4", 4, "U8"}: nv4,
	}
	for _, bits := range []int{2, 3, 4, 5, 6, 8} {
		for _, scale := range types() {
			if scale.isAffine() {
				t[groupKey{"affine", bits, scale.Name}] = affine(bits, scale.Bytes, scale.Number)
			}
		}
	}
	return t
}

// affine returns the decoder for a width of codes and a way to read scales and biases of size bytes.
func affine(bits, size int, read func(b []byte) float32) groupBody {
	mask := uint64(1)<<bits - 1
	return func(dst, codes, scales, biases []byte, _ float32, group int, to Float) {
		var v [8]float32
		for ; len(scales) > 0; scales, biases = scales[size:], biases[size:] {
			s, b := read(scales), read(biases)
			for range group / 8 {
				w := uint64(0)
				for k, c := range codes[:bits] {
					w |= uint64(c) << (8 * k)
				}
				for j := range v {
					v[j] = float32(s*float32(uint32(w&mask))) + b
					w >>= bits
				}
				dst, codes = to.put(dst, v[:]), codes[bits:]
			}
		}
	}
}

// e2m1 is the 4-bit float; unlike in ggml's tables, code 8 is minus zero.
var e2m1 = [16]float32{0, 0.5, 1, 1.5, 2, 3, 4, 6, float32(math.Copysign(0, -1)), -0.5, -1, -1.5, -2, -3, -4, -6}

func mx4(dst, codes, scales, _ []byte, _ float32, _ int, to Float) {
	var v [32]float32
	for _, s := range scales {
		for j, c := range codes[:16] {
			v[2*j] = e2m1[c&15] * e8m0[s]
			v[2*j+1] = e2m1[c>>4] * e8m0[s]
		}
		dst, codes = to.put(dst, v[:]), codes[16:]
	}
}

func mx8(dst, codes, scales, _ []byte, _ float32, _ int, to Float) {
	var v [32]float32
	for _, s := range scales {
		for j, c := range codes[:32] {
			v[j] = e4m3MLX[c] * e8m0[s]
		}
		dst, codes = to.put(dst, v[:]), codes[32:]
	}
}

func nv4(dst, codes, scales, _ []byte, factor float32, _ int, to Float) {
	var v [16]float32
	for _, s := range scales {
		for j, c := range codes[:8] {
			v[2*j] = float32(e2m1[c&15]*e4m3MLX[s]) * factor
			v[2*j+1] = float32(e2m1[c>>4]*e4m3MLX[s]) * factor
		}
		dst, codes = to.put(dst, v[:]), codes[8:]
	}
}
