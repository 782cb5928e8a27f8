package kernel

import "encoding/binary"

// Blocks of 32 elements with a half d and, in the _1 types, a minimum m. In a nibble array qs byte j holds element j
// in its low and element j+16 in its high nibble; bit i of qh is the fifth bit of element i.
//
//	Q4_0   d  qs[16]           d * (q - 8)
//	Q4_1   d  m  qs[16]        d * q + m
//	Q5_0   d  qh u32  qs[16]   d * (q - 16)
//	Q5_1   d  m  qh u32  qs[16]   d * q + m
//	Q6_0   d  qh[8]  qs[16]    d * (q - 32), see there
//	Q8_0   d  qs i8[32]        d * q
//	Q8_1   d  s  qs i8[32]     d * q; s is a sum for dot products

func q4_0(dst, src []byte, to Float) {
	var v [32]float32
	for ; len(src) > 0; src = src[18:] {
		d := wide(src)
		for j, b := range src[2:18] {
			v[j] = d * float32(int(b&15)-8)
			v[j+16] = d * float32(int(b>>4)-8)
		}
		dst = to.put(dst, v[:])
	}
}

func q4_1(dst, src []byte, to Float) {
	var v [32]float32
	for ; len(src) > 0; src = src[20:] {
		d, m := wide(src), wide(src[2:])
		for j, b := range src[4:20] {
			v[j] = float32(d*float32(b&15)) + m
			v[j+16] = float32(d*float32(b>>4)) + m
		}
		dst = to.put(dst, v[:])
	}
}

func q5_0(dst, src []byte, to Float) {
	var v [32]float32
	for ; len(src) > 0; src = src[22:] {
		d, qh := wide(src), binary.LittleEndian.Uint32(src[2:])
		for j, b := range src[6:22] {
			v[j] = d * float32(int(b&15)+int(qh>>j&1)<<4-16)
			v[j+16] = d * float32(int(b>>4)+int(qh>>(j+16)&1)<<4-16)
		}
		dst = to.put(dst, v[:])
	}
}

func q5_1(dst, src []byte, to Float) {
	var v [32]float32
	for ; len(src) > 0; src = src[24:] {
		d, m, qh := wide(src), wide(src[2:]), binary.LittleEndian.Uint32(src[4:])
		for j, b := range src[8:24] {
			v[j] = float32(d*float32(int(b&15)+int(qh>>j&1)<<4)) + m
			v[j+16] = float32(d*float32(int(b>>4)+int(qh>>(j+16)&1)<<4)) + m
		}
		dst = to.put(dst, v[:])
	}
}

// q6_0 is ik_llama's: byte j%8 of qh has two bits each for elements j and j+16 in its low (j < 8) or high nibble.
func q6_0(dst, src []byte, to Float) {
	var v [32]float32
	for ; len(src) > 0; src = src[26:] {
		d, qh := wide(src), src[2:10]
		for j, b := range src[10:26] {
			x := qh[j%8] >> (4 * (j / 8))
			v[j] = d * float32(int(b&15|x&3<<4)-32)
			v[j+16] = d * float32(int(b>>4|x>>2&3<<4)-32)
		}
		dst = to.put(dst, v[:])
	}
}

func q8_0(dst, src []byte, to Float) {
	var v [32]float32
	for ; len(src) > 0; src = src[34:] {
		d := wide(src)
		for j, b := range src[2:34] {
			v[j] = d * float32(int8(b))
		}
		dst = to.put(dst, v[:])
	}
}

func q8_1(dst, src []byte, to Float) {
	var v [32]float32
	for ; len(src) > 0; src = src[36:] {
		d := wide(src)
		for j, b := range src[4:36] {
			v[j] = d * float32(int8(b))
		}
		dst = to.put(dst, v[:])
	}
}
