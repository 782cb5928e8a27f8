package kernel

// Blocks of one to two bits per element with a half d.
//
//	Q1_0   128   d  qs[16]          bit i%8 of byte i/8: 1 is d, 0 is -d
//	Q2_0    64   d  qs[16]          two bits, four elements a byte, low bits first: d * (q - 1)
//	PQ2_0  128   d  qs[32]          as Q2_0, with a scale for twice as many elements
//	TQ2_0  256   qs[64]  d          d * (q - 1); each half of the block is 32 bytes, two bits per 32 elements
//	TQ1_0  256   qs[48]  qh[4]  d   five (qh: four) base-3 digits a byte: d * (digit - 1)

func q1_0(dst, src []byte, to Float) {
	var v [128]float32
	for ; len(src) > 0; src = src[18:] {
		d := wide(src)
		for i := range v {
			v[i] = flip(d, ^src[2+i/8], i%8)
		}
		dst = to.put(dst, v[:])
	}
}

func q2_0(dst, src []byte, to Float) { twoBits(dst, src, to, 64) }

func pq2_0(dst, src []byte, to Float) { twoBits(dst, src, to, 128) }

// twoBits decodes blocks of n elements, n at most 128: a scale and two bits an element.
func twoBits(dst, src []byte, to Float, n int) {
	var v [128]float32
	for size := 2 + n/4; len(src) > 0; src = src[size:] {
		d := wide(src)
		for i := range n {
			v[i] = d * float32(int(src[2+i/4]>>(2*(i%4))&3)-1)
		}
		dst = to.put(dst, v[:n])
	}
}

// tq1_0: the byte is the fraction of digits n0 n1 n2 .. in base 3, scaled by 256 and rounded up. Multiplying by 3^n
// modulo 256 brings digit n to the front; three times that, the carry out of the byte is the digit.
func tq1_0(dst, src []byte, to Float) {
	var v [256]float32
	for ; len(src) > 0; src = src[54:] {
		d := wide(src[52:])
		digits := func(v []float32, qs []byte, n int) []float32 {
			for pow := byte(1); n > 0; n, pow = n-1, pow*3 {
				for j, b := range qs {
					v[j] = d * float32(int(b*pow)*3>>8-1)
				}
				v = v[len(qs):]
			}
			return v
		}
		digits(digits(digits(v[:], src[:32], 5), src[32:48], 5), src[48:52], 4)
		dst = to.put(dst, v[:])
	}
}

func tq2_0(dst, src []byte, to Float) {
	var v [256]float32
	for ; len(src) > 0; src = src[66:] {
		d := wide(src[64:])
		for i := range v {
			v[i] = d * float32(int(src[i/128*32+i%32]>>(i%128/32*2)&3)-1)
		}
		dst = to.put(dst, v[:])
	}
}
