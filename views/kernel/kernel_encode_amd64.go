//go:build !purego

package kernel

import "encoding/binary"

func avx2ToBF16(dst, src []byte) {
	if n := len(src) / 128; n > 0 {
		_ = dst[64*n-1]
		toBF16AVX2(&dst[0], &src[0], n)
		dst, src = dst[64*n:], src[128*n:]
	}
	toBF16(dst, src)
}

// avx2Quantiser encodes with k, and with plain Go the blocks that k leaves.
func avx2Quantiser(name, from string, k blockKernel) func(dst, src []byte) {
	in, out := 32*typeOf(from).Bytes, 34
	if name == "Q4_0" {
		out = 18
	}
	return func(dst, src []byte) {
		for len(src) > 0 {
			n := len(src) / in
			_ = dst[n*out-1]
			done := n - k(&dst[0], &src[0], n)
			dst, src = dst[done*out:], src[done*in:]
			if done < n {
				quantise(name, from, dst[:out], src[:in])
				dst, src = dst[out:], src[in:]
			}
		}
	}
}

// quantise encodes a block in plain Go. Calls by name let it stay on the stack.
func quantise(name, from string, dst, src []byte) {
	var b [128]byte
	switch from {
	case "F16":
		f16(b[:], src, Single)
	case "BF16":
		bf16(b[:], src, Single)
	default:
		copy(b[:], src)
	}
	if name == "Q4_0" {
		toQ4_0(dst, b[:])
	} else {
		toQ8_0(dst, b[:])
	}
}

// affineRepackAVX2 chooses the kernel for groups of 32*chunks elements. Calls by name let scales stay on the stack.
func affineRepackAVX2(bits int, dst, codes, scales, biases *byte, groups, chunks int) {
	switch bits {
	case 2:
		affine2RepackAVX2(dst, codes, scales, biases, groups, chunks)
	case 3:
		affine3RepackAVX2(dst, codes, scales, biases, groups, chunks)
	case 4:
		affine4RepackAVX2(dst, codes, scales, biases, groups, chunks)
	case 5:
		affine5RepackAVX2(dst, codes, scales, biases, groups, chunks)
	}
}

// avx2Affine repacks groups whose scales and biases are halves, and all other groups one by
// one in plain Go.
func avx2Affine(bits int, scale string) repackFunc {
	const most = 128 // groups whose scales are made halves at a time
	plain, size, block := goRepacks()[groupKey{"affine", bits, scale}], scaleBytes(scale), 20
	if bits == 5 {
		block = 24
	}
	return func(dst, codes, scales, biases []byte, group int) (done int) {
		in, out := group*bits/8, group/32*block
		var d, m [2 * most]byte
		for len(scales) > 0 {
			n := min(len(scales)/size, most)
			good := exactHalvesAVX2(scale, scales[:n*size])
			good = exactHalvesAVX2(scale, biases[:good*size])
			if good > 0 {
				s, b := &scales[0], &biases[0]
				if scale != "F16" {
					halvesAVX2(d[:], scales[:good*size], scale)
					halvesAVX2(m[:], biases[:good*size], scale)
					s, b = &d[0], &m[0]
				}
				_, _ = dst[good*out-1], codes[good*in-1]
				affineRepackAVX2(bits, &dst[0], &codes[0], s, b, good, group/32)
				done += good
				dst, codes, scales, biases = dst[good*out:], codes[good*in:], scales[good*size:], biases[good*size:]
			}
			if good < n {
				if plain(dst[:out], codes[:in], scales[:size], biases[:size], group) == 0 {
					return done
				}
				done++
				dst, codes, scales, biases = dst[out:], codes[in:], scales[size:], biases[size:]
			}
		}
		return done
	}
}

// halvesAVX2 writes scales that are no halves yet as such.
func halvesAVX2(dst, src []byte, scale string) {
	if scale == "BF16" {
		if n := len(src) / 64; n > 0 {
			bf16AVX2(&dst[0], &src[0], n)
			dst, src = dst[64*n:], src[64*n:]
		}
		for i := 0; i < len(src); i += 2 {
			binary.LittleEndian.PutUint16(dst[i:], half(uint32(binary.LittleEndian.Uint16(src[i:]))<<16))
		}
		return
	}
	if n := len(src) / 128; n > 0 {
		f32AVX2(&dst[0], &src[0], n)
		dst, src = dst[64*n:], src[128*n:]
	}
	for i := 0; i < len(src); i += 4 {
		binary.LittleEndian.PutUint16(dst[i/2:], half(binary.LittleEndian.Uint32(src[i:])))
	}
}

func avx2MXFP4(dst, codes, scales, _ []byte, _ int) int {
	n := within(scales, 0, 0xFE)
	if n > 0 {
		_, _ = dst[17*n-1], codes[16*n-1]
		mxfp4RepackAVX2(&dst[0], &codes[0], &scales[0], &scales[0], n, 1)
	}
	return n
}

func avx2NVFP4(dst, codes, scales, _ []byte, _ int) int {
	n := within(scales, 0, 0x7E) / 4
	if n > 0 {
		_, _ = dst[36*n-1], codes[32*n-1]
		nvfp4RepackAVX2(&dst[0], &codes[0], &scales[0], &scales[0], n, 1)
	}
	return n
}

// avx2MXFP8 leaves groups whose scale can make a number below 2^-126, which is not one of the floats that scale and
// code become, to plain Go.
func avx2MXFP8(dst, codes, scales, _ []byte, group int) int {
	done := 0
	for done < len(scales) {
		if n := within(scales[done:], normalMXFP8, 0xFE); n > 0 {
			_, _ = dst[64*(done+n)-1], codes[32*(done+n)-1]
			mxfp8RepackAVX2(&dst[64*done], &codes[32*done], &scales[done], &scales[done], n, 1)
			done += n
			continue
		}
		if repackMXFP8(dst[64*done:][:64], codes[32*done:][:32], scales[done:][:1], nil, group) == 0 {
			break
		}
		done++
	}
	return done
}

// exactHalvesAVX2 is exactHalves: where a kernel stops, plain Go looks at the block that it stopped at.
func exactHalvesAVX2(dtype string, b []byte) int {
	size := 2
	switch dtype {
	case "F16":
		return len(b) / 2
	case "F32":
		size = 4
	}
	done := 0
	for len(b)-done >= 64 {
		n := (len(b) - done) / 64
		if size == 4 {
			done += 64 * (n - exactF32AVX2(&b[done], n))
		} else {
			done += 64 * (n - exactBF16AVX2(&b[done], n))
		}
		if len(b)-done < 64 {
			break
		}
		if good := goExactHalves(dtype, b[done:][:64]); good < 64/size {
			return done/size + good
		}
		done += 64
	}
	return done/size + goExactHalves(dtype, b[done:])
}

// avx2Split runs a kernel on blocks of so many bytes.
func avx2Split(block int, kernel func(dst, src *byte, blocks int)) func(dst, src []byte) {
	return func(dst, src []byte) {
		if len(src) > 0 {
			kernel(&dst[0], &src[0], len(src)/block)
		}
	}
}
