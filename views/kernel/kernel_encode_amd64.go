//go:build !purego

package kernel

import "encoding/binary"

// nativeSingle returns what there is for F32.
func nativeSingle() *implementation {
	if accelerated == nil {
		return nil
	}
	impl := &implementation{name: "avx2", types: map[string]func(dst, src []byte){}, scaled: map[string]scaledFunc{
		"F8_E4M3": avx2Scaled(Single, "F8_E4M3", 256, scaledE4M3SingleAVX2), "F8_E5M2": avx2Scaled(Single, "F8_E5M2", 1, scaledE5M2SingleAVX2),
	}}
	for _, t := range decodersTo(Single) {
		if k := map[string]blockKernel{"F16": f16SingleAVX2, "BF16": bf16SingleAVX2}[t.Name]; k != nil {
			impl.types[t.Name] = avx2Blocks(t, k)
		}
	}
	return impl
}

// avx2Encoder encodes with k, and with plain Go the blocks that k leaves and the last few of single elements.
func avx2Encoder(name string, k blockKernel) func(dst, src []byte) {
	var e Encoder
	for _, e = range encoderTypes {
		if e.Name == name {
			break
		}
	}
	perCall := 32 / e.Elems
	in, out := 128, perCall*e.Bytes
	return func(dst, src []byte) {
		for len(src) >= in {
			n := len(src) / in
			_ = dst[n*out-1]
			done := n - k(&dst[0], &src[0], n)
			dst, src = dst[done*out:], src[done*in:]
			if done < n {
				e.Encode(dst[:out], src[:in])
				dst, src = dst[out:], src[in:]
			}
		}
		if len(src) > 0 {
			e.Encode(dst, src)
		}
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

// avx2Affine repacks groups whose scales and biases are halves, and the others one by one in plain Go.
func avx2Affine(bits int, scale string) repackFunc {
	const most = 128 // groups whose scales are made halves at a time
	plain, size, block := goRepacks[groupKey{"affine", bits, scale}], scaleBytes(scale), 20
	if bits == 5 {
		block = 24
	}
	return func(dst, codes, scales, biases []byte, group int) (done int) {
		in, out := group*bits/8, group/32*block
		var d, m [2 * most]byte
		for len(scales) > 0 {
			n := min(len(scales)/size, most)
			good := exactHalves(scale, scales[:n*size])
			good = exactHalves(scale, biases[:good*size])
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
