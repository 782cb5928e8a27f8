package kernel

import "math"

// Encoders of ggml's K types (quantize_row_q2_K_ref and so on, and quantize_row_q2_K_impl and so on with an importance
// matrix); the blocks are drawn in go_k.go. Scales of sub-blocks are found first, then they are quantised themselves,
// and the codes are chosen anew for what became of them.

// subBlocks is what is found of the sub-blocks of 256 numbers.
type subBlocks struct {
	codes          [256]uint8
	scales, minima [16]float32
	weights        [16]float32 // sums of the weights of their numbers
	w              [32]float32 // weights of the numbers of one
}

// largestOf returns the largest of some numbers, at least 0.
func largestOf(x []float32) (largest float32) {
	for _, v := range x {
		if v > largest {
			largest = v
		}
	}
	return largest
}

// halved returns d as it is stored at b: as a half.
func halved(b []byte, d float32) float32 {
	round(b, []float32{d})
	return wide(b)
}

// again chooses the codes of a sub-block by the scale and the minimum that are stored.
func again(codes []uint8, x []float32, scale, minimum float32, most int32) {
	if scale == 0 {
		return
	}
	for i, v := range x {
		codes[i] = uint8(clamp(nearest(float32(v+minimum)/scale), 0, most))
	}
}

// againSigned is again for codes from -m to m-1, which are stored plus m.
func againSigned(codes []uint8, x []float32, scale float32, m int32) {
	if scale == 0 {
		return
	}
	for i, v := range x {
		codes[i] = uint8(clamp(nearest(v/scale), -m, m-1) + m)
	}
}

// importantGrid is what is tried for codes up to most where columns have an importance.
func importantGrid(most int32) grid { return grid{most, -0.9, 0.05, 36, false} }

// partsOf sets codes to multiples of an nth part of the largest of x, and returns that part of it.
func partsOf(codes []uint8, x []float32, n float32) float32 {
	largest := largestOf(x)
	inverse := float32(0)
	if largest > 0 {
		inverse = n / largest
	}
	for i, v := range x {
		codes[i] = uint8(nearest(float32(inverse * v)))
	}
	return largest / n
}

// putTwoBits stores two bits of each of 256 codes.
func putTwoBits(qs []byte, codes *[256]uint8) {
	for h := range 2 {
		c := codes[128*h:]
		for j := range 32 {
			qs[32*h+j] = c[j]&3 | c[j+32]&3<<2 | c[j+64]&3<<4 | c[j+96]&3<<6
		}
	}
}

func toQ2_K(dst []byte, x, importance []float32, _ float32) {
	var b subBlocks
	w := b.w[:16]
	sigma := float32(0)
	if importance != nil {
		sigma = addSquares(x) / 256
	}
	for s := range 16 {
		sub, codes := x[16*s:][:16], b.codes[16*s:]
		if importance != nil {
			weigh(w, importance[16*s:], sub, sigma)
			b.weights[s] = add(w)
			b.scales[s], b.minima[s] = searchMin(codes, sub, w, importantGrid(3))
			continue
		}
		for j, v := range sub {
			w[j] = magnitudeOf(v)
		}
		b.scales[s], b.minima[s] = searchMin(codes, sub, w, grid{3, -0.5, 0.1, 15, true})
	}
	var scales, minima [16]uint8
	var d, dmin float32
	if importance != nil {
		d, dmin = searchPositive(scales[:], 15, b.scales[:], b.weights[:]), searchPositive(minima[:], 15, b.minima[:], b.weights[:])
	} else {
		d, dmin = partsOf(scales[:], b.scales[:], 15), partsOf(minima[:], b.minima[:], 15)
	}
	d, dmin = halved(dst[80:], d), halved(dst[82:], dmin)
	for s := range 16 {
		dst[s] = scales[s] | minima[s]<<4
		again(b.codes[16*s:], x[16*s:][:16], d*float32(dst[s]&15), dmin*float32(dst[s]>>4), 3)
	}
	putTwoBits(dst[16:80], &b.codes)
}

func toQ3_K(dst []byte, x, importance []float32, _ float32) {
	var b subBlocks
	w := b.w[:16]
	sigma := float32(0)
	if importance != nil {
		sigma = float32(2*addSquares(x)) / 256
	}
	for s := range 16 {
		sub, codes := x[16*s:][:16], b.codes[16*s:]
		if importance == nil {
			b.scales[s] = searchQ3(codes, sub)
			continue
		}
		weigh(w, importance[16*s:], sub, sigma)
		b.weights[s] = add(w)
		b.scales[s] = searchSigned(codes, 4, sub, w)
	}
	var scales [16]uint8 // from 0 to 63
	d := float32(0)
	if importance != nil {
		d = searchSigned(scales[:], 32, b.scales[:], b.weights[:])
	} else if largest, _ := peak(b.scales[:]); largest != 0 {
		inverse := -32 / largest
		for s, v := range b.scales {
			scales[s] = uint8(clamp(int32(int8(nearest(float32(inverse*v)))), -32, 31) + 32)
		}
		d = 1 / inverse
	}
	d = halved(dst[108:], d)
	packed := dst[96:108]
	clear(packed)
	for s, l := range scales {
		packed[s%8] |= l & 15 << (s / 8 * 4)
		packed[8+s%4] |= l >> 4 << (s / 4 * 2)
	}
	for s := range 16 {
		low, high := packed[s%8]>>(s/8*4)&15, packed[8+s%4]>>(s/4*2)&3
		againSigned(b.codes[16*s:], x[16*s:][:16], d*float32(int(low|high<<4)-32), 4)
	}
	hmask := dst[:32]
	clear(hmask)
	for i, c := range b.codes {
		hmask[i%32] |= c >> 2 & 1 << (i / 32)
	}
	putTwoBits(dst[32:96], &b.codes)
}

// toQ45_K fills the head of a block of Q4_K or Q5_K, d, dmin and scales, and sets the codes.
func toQ45_K(dst []byte, b *subBlocks, x, importance []float32, g grid) {
	w := b.w[:]
	sigma := float32(0)
	if importance != nil {
		sigma = float32(2*addSquares(x)) / 256
		g = importantGrid(g.most)
	}
	for s := range 8 {
		sub := x[32*s:][:32]
		if importance != nil {
			weigh(w, importance[32*s:], sub, sigma)
			b.weights[s] = add(w)
		} else {
			mean := float32(math.Sqrt(float64(addSquares(sub) / 32)))
			for j, v := range sub {
				w[j] = mean + magnitudeOf(v)
			}
		}
		b.scales[s], b.minima[s] = searchMin(b.codes[32*s:], sub, w, g)
	}
	var scales, minima [8]uint8
	var d, dmin float32
	if importance != nil {
		d = searchPositive(scales[:], 63, b.scales[:8], b.weights[:8])
		dmin = searchPositive(minima[:], 63, b.minima[:8], b.weights[:8])
	} else {
		d, dmin = partsOf(scales[:], b.scales[:8], 63), partsOf(minima[:], b.minima[:8], 63)
	}
	if importance == nil || g.most == 31 { // bytes above 63 stay in Q4_K
		for s := range 8 {
			scales[s], minima[s] = min(scales[s], 63), min(minima[s], 63)
		}
	}
	packed := dst[4:16]
	for s := range 4 {
		packed[s], packed[s+4] = scales[s], minima[s]
	}
	for s := 4; s < 8; s++ {
		packed[s+4] = scales[s]&15 | minima[s]&15<<4
		packed[s-4] |= scales[s] >> 4 << 6
		packed[s] |= minima[s] >> 4 << 6
	}
	d, dmin = halved(dst, d), halved(dst[2:], dmin)
	for s := range 8 {
		scale, minimum := scaleMin(packed, s)
		again(b.codes[32*s:], x[32*s:][:32], d*scale, dmin*minimum, g.most)
	}
}

func toQ4_K(dst []byte, x, importance []float32, _ float32) {
	var b subBlocks
	toQ45_K(dst, &b, x, importance, grid{15, -1, 0.1, 20, false})
	for s := range 4 {
		for j := range 32 {
			dst[16+32*s+j] = b.codes[64*s+j] | b.codes[64*s+32+j]<<4
		}
	}
}

func toQ5_K(dst []byte, x, importance []float32, _ float32) {
	var b subBlocks
	toQ45_K(dst, &b, x, importance, grid{31, -0.5, 0.1, 15, false})
	qh := dst[16:48]
	clear(qh)
	for i, c := range b.codes {
		qh[i%32] |= c >> 4 << (i / 32)
	}
	for s := range 4 {
		for j := range 32 {
			dst[48+32*s+j] = b.codes[64*s+j]&15 | b.codes[64*s+32+j]<<4
		}
	}
}

func toQ6_K(dst []byte, x, importance []float32, _ float32) {
	var b subBlocks
	for s := range 16 {
		sub := x[16*s:][:16]
		w := b.w[:16]
		if importance != nil {
			w = importance[16*s:][:16]
		} else {
			squares(w, sub)
		}
		b.scales[s] = searchSigned(b.codes[16*s:], 32, sub, w)
	}
	largest, magnitude := peak(b.scales[:])
	if magnitude < tiny {
		clear(dst[:210])
		return
	}
	inverse := -128 / largest
	d := halved(dst[208:], 1/inverse)
	for s, v := range b.scales {
		scale := int8(min(127, nearest(float32(inverse*v))))
		dst[192+s] = byte(scale)
		againSigned(b.codes[16*s:], x[16*s:][:16], d*float32(scale), 32)
	}
	for h := range 2 {
		c := b.codes[128*h:]
		ql, qh := dst[64*h:][:64], dst[128+32*h:][:32]
		for j := range 32 {
			ql[j] = c[j]&15 | c[j+64]<<4
			ql[j+32] = c[j+32]&15 | c[j+96]<<4
			qh[j] = c[j]>>4 | c[j+32]>>4<<2 | c[j+64]>>4<<4 | c[j+96]>>4<<6
		}
	}
}
