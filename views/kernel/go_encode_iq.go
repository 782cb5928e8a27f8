package kernel

import "encoding/binary"

// Encoders of IQ4_NL and IQ4_XS (quantize_row_iq4_nl_impl in ggml-quants.c, as llama-quantize calls it: scales are
// searched, unlike in its reference functions); the blocks are drawn in go_iq.go.

// iq4Next has the index of the level next to v at floor(2*v) + 254: the number from which on a level is next is a
// multiple of a half.
var iq4Next = func() (next [480]uint8) {
	for i := range next {
		for code := 1; code < 16 && float32(i-254) >= iq4Levels[code-1]+iq4Levels[code]; code++ {
			next[i] = uint8(code)
		}
	}
	return next
}()

// nearestLevel returns the index of the level of IQ4 that is next to v, the upper one of two, and the last for a NaN.
func nearestLevel(v float32) uint8 {
	if v <= iq4Levels[0] {
		return 0
	}
	if !(v < iq4Levels[15]) {
		return 15
	}
	return iq4Next[int32(v*0x1p22)>>21+254] // only cuts off fractions of numbers that are next to a single level
}

// fitLevels returns sums of w*q*x and w*q*q of the levels q that are next to x times a factor.
func fitLevels(x, w []float32, inverse float32) (product, square float32) {
	for i, v := range x {
		q := iq4Levels[nearestLevel(float32(inverse*v))]
		wq := float32(w[i] * q)
		product += float32(wq * v)
		square += float32(wq * q)
	}
	return product, square
}

// searchLevels finds the scale of 32 numbers as levels of IQ4.
func searchLevels(x, w []float32) float32 {
	largest, magnitude := peak(x)
	if magnitude < tiny {
		return 0
	}
	scale := float32(0)
	product, square := fitLevels(x, w, 1/(-largest/-127))
	if square > 0 {
		scale = product / square
	}
	best := scale * product
	for k := -7; k <= 7; k++ {
		product, square := fitLevels(x, w, (float32(k)+-127)/largest)
		if square > 0 && float32(product*product) > float32(best*square) {
			scale = product / square
			best = scale * product
		}
	}
	return scale
}

// levels sets 16 bytes to the codes of 32 numbers times a factor, the first 16 in the low nibbles.
func levels(dst []byte, x []float32, id float32) {
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
	sigma := float32(0)
	if importance != nil {
		sigma = addSquares(x) * (2.0 / 32)
	}
	levelWeights(w[:], x, importance, sigma)
	d := searchLevels(x, w[:])
	round(dst, []float32{d})
	levels(dst[2:18], x, inverse(d))
}

func toIQ4_XS(dst []byte, x, importance []float32, _ float32) {
	var w [32]float32
	var scales [8]float32
	sigma := float32(0)
	if importance != nil {
		sigma = addSquares(x) * (2.0 / 256)
	}
	for s := range scales {
		var of []float32
		if importance != nil {
			of = importance[32*s:][:32]
		}
		levelWeights(w[:], x[32*s:][:32], of, sigma)
		scales[s] = searchLevels(x[32*s:][:32], w[:])
	}
	headIQ4_XS(dst, &scales)
	for s, id := range scales {
		levels(dst[8+16*s:][:16], x[32*s:][:32], id)
	}
}

// headIQ4_XS stores the scales of the sub-blocks, and turns them into the factors that map
// numbers to levels.
func headIQ4_XS(dst []byte, scales *[8]float32) {
	largest, _ := peak(scales[:])
	d := -largest / 32
	round(dst, []float32{d})
	id := inverse(d)
	high := uint16(0)
	clear(dst[4:8])
	for s, v := range scales {
		l := clamp(nearest(float32(id*v)), -32, 31)
		scales[s] = inverse(d * float32(l))
		code := uint8(l + 32)
		dst[4+s/2] |= code & 15 << (s % 2 * 4)
		high |= uint16(code>>4) << (2 * s)
	}
	binary.LittleEndian.PutUint16(dst[2:], high)
}
