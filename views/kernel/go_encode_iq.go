package kernel

import "encoding/binary"

// Encoders of IQ4_NL and IQ4_XS (quantize_row_iq4_nl_impl in ggml-quants.c, as llama-quantize calls it: scales are
// searched, unlike in its reference functions); the blocks are drawn in go_iq.go.

// nearestLevel returns the index of the level of IQ4 that is next to v, the upper one of two.
func nearestLevel(v float32) uint8 {
	if v <= iq4Levels[0] {
		return 0
	}
	if v >= iq4Levels[15] {
		return 15
	}
	low, high := 0, 15
	for high-low > 1 {
		if middle := (low + high) / 2; v < iq4Levels[middle] {
			high = middle
		} else {
			low = middle
		}
	}
	if v-iq4Levels[low] < iq4Levels[high]-v {
		return uint8(low)
	}
	return uint8(high)
}

// searchLevels finds the scale of 32 numbers as levels of IQ4.
func searchLevels(x, w []float32) float32 {
	largest, magnitude := peak(x)
	if magnitude < tiny {
		return 0
	}
	fit := func(inverse float32) (product, square float32) {
		for i, v := range x {
			q := iq4Levels[nearestLevel(float32(inverse*v))]
			product += float32(float32(w[i]*q) * v)
			square += float32(float32(w[i]*q) * q)
		}
		return product, square
	}
	scale := float32(0)
	product, square := fit(1 / (-largest / -127))
	if square > 0 {
		scale = product / square
	}
	best := scale * product
	for k := -7; k <= 7; k++ {
		product, square := fit((float32(k) + -127) / largest)
		if square > 0 && float32(product*product) > float32(best*square) {
			scale = product / square
			best = scale * product
		}
	}
	return scale
}

// levels sets 16 bytes to the codes of 32 numbers, the first 16 in the low nibbles.
func levels(dst []byte, x []float32, scale float32) {
	id := inverse(scale)
	var codes [32]uint8
	for j, v := range x {
		codes[j] = nearestLevel(float32(id * v))
	}
	putNibbles(dst, &codes)
}

// levelWeights sets the weights of 32 of the numbers whose mean square, twice, is sigma.
func levelWeights(w, x, importance []float32, sigma float32) {
	if importance == nil {
		squares(w, x)
		return
	}
	weigh(w, importance, x, sigma)
}

func toIQ4_NL(dst []byte, x, importance []float32, _ float32) {
	var w [32]float32
	levelWeights(w[:], x, importance, addSquares(x)*(2.0/32))
	d := searchLevels(x, w[:])
	round(dst, []float32{d})
	levels(dst[2:18], x, d)
}

func toIQ4_XS(dst []byte, x, importance []float32, _ float32) {
	var w [32]float32
	var scales [8]float32
	sigma := addSquares(x) * (2.0 / 256)
	for s := range scales {
		var of []float32
		if importance != nil {
			of = importance[32*s:][:32]
		}
		levelWeights(w[:], x[32*s:][:32], of, sigma)
		scales[s] = searchLevels(x[32*s:][:32], w[:])
	}
	largest, _ := peak(scales[:])
	d := -largest / 32
	round(dst, []float32{d})
	id := inverse(d)
	high := uint16(0)
	clear(dst[4:8])
	for s, v := range scales {
		l := clamp(nearest(float32(id*v)), -32, 31)
		levels(dst[8+16*s:][:16], x[32*s:][:32], d*float32(l))
		code := uint8(l + 32)
		dst[4+s/2] |= code & 15 << (s % 2 * 4)
		high |= uint16(code>>4) << (2 * s)
	}
	binary.LittleEndian.PutUint16(dst[2:], high)
}
