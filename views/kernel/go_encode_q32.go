package kernel

import (
	"encoding/binary"
	"math"
)

// Encoders of ggml's blocks of 32 with a minimum, of 5 bits, and of its blocks of MXFP4 and of ternary digits; the
// blocks are drawn in go_q32.go, go_fp4.go and go_ternary.go.

// extent returns the smallest and the largest of some numbers.
func extent(x []float32) (low, high float32) {
	low, high = math.MaxFloat32, -math.MaxFloat32
	for _, v := range x {
		if v < low {
			low = v
		}
		if v > high {
			high = v
		}
	}
	return low, high
}

// putNibbles stores 32 codes of 4 bits, the first 16 in the low nibbles.
func putNibbles(dst []byte, codes *[32]uint8) {
	for j := 0; j < 16; j += 8 {
		low, high := binary.LittleEndian.Uint64(codes[j:]), binary.LittleEndian.Uint64(codes[j+16:])
		putEight(dst[j:], low&(15*ofEach)|high&(15*ofEach)<<4)
	}
}

// putFifths stores the fifth bits of 32 codes.
func putFifths(dst []byte, codes *[32]uint8) {
	fifths := uint32(0)
	for j, c := range codes {
		fifths |= uint32(c>>4&1) << j
	}
	binary.LittleEndian.PutUint32(dst, fifths)
}

// weightsOf returns the weights of 32 numbers of a row whose mean square is sigma.
func weightsOf(x, importance []float32, sigma float32) (w [32]float32) {
	weigh(w[:], importance, x, sigma)
	return w
}

func importantQ4_0(dst []byte, x, importance []float32, sigma float32) {
	var codes [32]uint8
	w := weightsOf(x, importance, sigma)
	round(dst, []float32{searchSigned(codes[:], 8, x, w[:])})
	putNibbles(dst[2:18], &codes)
}

func toQ5_0(dst []byte, x, importance []float32, sigma float32) {
	var codes [32]uint8
	var d float32
	if importance != nil {
		w := weightsOf(x, importance, sigma)
		d = searchSigned(codes[:], 16, x, w[:])
	} else {
		largest, _ := peak(x)
		d = largest / -16
		id := inverse(d)
		for j, v := range x {
			codes[j] = min(lowByte(float32(v*id)+16.5), 31)
		}
	}
	round(dst, []float32{d})
	putFifths(dst[2:6], &codes)
	putNibbles(dst[6:22], &codes)
}

// withMinimum finds the codes, the scale and the minimum of 32 numbers.
func withMinimum(codes *[32]uint8, x, importance []float32, sigma float32, most int32) (d, m float32) {
	if importance != nil {
		w := weightsOf(x, importance, sigma)
		d, m = searchMin(codes[:], x, w[:], importantGrid(most))
		return d, -m
	}
	low, high := extent(x)
	d = (high - low) / float32(most)
	id := inverse(d)
	for j, v := range x {
		codes[j] = lowByte(float32((v-low)*id) + 0.5)
	}
	return d, low
}

func toQ4_1(dst []byte, x, importance []float32, sigma float32) {
	var codes [32]uint8
	d, m := withMinimum(&codes, x, importance, sigma, 15)
	for j, c := range codes {
		codes[j] = min(c, 15)
	}
	round(dst, []float32{d, m})
	putNibbles(dst[4:20], &codes)
}

func toQ5_1(dst []byte, x, importance []float32, sigma float32) {
	var codes [32]uint8
	d, m := withMinimum(&codes, x, importance, sigma, 31)
	round(dst, []float32{d, m})
	putFifths(dst[4:8], &codes)
	putNibbles(dst[8:24], &codes)
}

// toMXFP4 takes the exponent of the largest number, and the first of the levels that are next. Levels and scale are
// as in go_fp4.go.
func toMXFP4(dst []byte, x, _ []float32, _ float32) {
	e := byte(0)
	if _, magnitude := peak(x); magnitude > 0 {
		e = byte(int(math.Floor(float64(float32(math.Log2(float64(magnitude)))))) - 2 + 127)
	}
	dst[0] = e
	d := float32(math.Ldexp(1, int(e)-128))
	var codes [32]uint8
	for j, v := range x {
		least := magnitudeOf(float32(fp4Levels[0]*d) - v)
		for c := 1; c < 16; c++ {
			if e := magnitudeOf(float32(fp4Levels[c]*d) - v); e < least {
				least, codes[j] = e, uint8(c)
			}
		}
	}
	putNibbles(dst[1:17], &codes)
}

// trits sets digits to the numbers divided by the largest magnitude, rounded and plus one, and returns it.
func trits(digits *[256]uint8, x []float32) float32 {
	_, largest := peak(x)
	id := inverse(largest)
	for i, v := range x {
		v = float32(v * id)
		half := math.Float32frombits(0x3EFF_FFFF | math.Float32bits(v)&0x8000_0000) // see toQ8_0
		digits[i] = lowByte(v+half) + 1
	}
	return largest
}

func toTQ1_0(dst []byte, x, _ []float32, _ float32) {
	var digits [256]uint8
	d := trits(&digits, x)
	// A byte holds the digits of columns that are so far apart, the first the most significant.
	pack := func(dst []byte, digits []uint8, columns, n int) {
		for j := range columns {
			q := uint8(0)
			for k := range 5 {
				q *= 3
				if k < n {
					q += digits[j+columns*k]
				}
			}
			dst[j] = uint8((uint16(q)*256 + 242) / 243)
		}
	}
	pack(dst, digits[:160], 32, 5)
	pack(dst[32:], digits[160:240], 16, 5)
	pack(dst[48:], digits[240:], 4, 4)
	round(dst[52:], []float32{d})
}

func toTQ2_0(dst []byte, x, _ []float32, _ float32) {
	var digits [256]uint8
	d := trits(&digits, x)
	for i := range digits {
		digits[i] &= 3
	}
	putTwoBits(dst[:64], &digits)
	round(dst[64:], []float32{d})
}
