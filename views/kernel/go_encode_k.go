package kernel

import (
	"encoding/binary"
	"math"
	"sync"
)

// Encoders of ggml's K types (quantize_row_q2_K_ref and so on, and quantize_row_q2_K_impl
// and so on with an importance matrix); the blocks are drawn in go_k.go. Scales of
// sub-blocks are computed first, then they are quantised themselves, and the codes are
// chosen again for the quantised scales.

// superBlock is how 256 numbers become a block of a K type.
type superBlock struct {
	subs        int                  // sub-blocks, of 256/subs numbers each
	least, most int32                // its codes, which are counted from the least
	sigma       float32              // how many mean squares the weights take that have an importance; 0: they are the importance
	weights     func(w, x []float32) // sets weights that have none

	// search finds the scale, the minimum if the type has one, and the codes of a sub-block.
	search func(codes []uint8, x, w []float32, weighted bool) (scale, minimum float32)

	// head stores the scales and minima of sub-blocks, and leaves what they have become. It is false for a block that is whole so.
	head func(dst []byte, b *subBlocks, weighted bool) bool
	pack func(dst []byte, codes *[256]uint8)
}

// subBlocks is what is found of the sub-blocks of 256 numbers.
type subBlocks struct {
	codes          [256]uint8
	scales, minima [16]float32
	weights        [16]float32 // sums of the weights of their numbers, if these have an importance
	w              [32]float32 // weights of the numbers of one
}

// subBlocksOfCalls are used again: calls by a value would put them on the heap each time.
var subBlocksOfCalls = sync.Pool{New: func() any { return new(subBlocks) }}

func (k *superBlock) encode(dst []byte, x, importance []float32, _ float32) {
	b := subBlocksOfCalls.Get().(*subBlocks)
	defer subBlocksOfCalls.Put(b)
	n := 256 / k.subs
	w := b.w[:n]
	sigma := float32(0)
	if importance != nil && k.sigma != 0 {
		sigma = k.meanSquare(addSquares(x))
	}
	for s := range k.subs {
		sub := x[n*s:][:n]
		switch {
		case importance == nil:
			k.weights(w, sub)
		case k.sigma == 0:
			copy(w, importance[n*s:])
		default:
			weigh(w, importance[n*s:], sub, sigma)
		}
		if importance != nil {
			b.weights[s] = add(w)
		}
		b.scales[s], b.minima[s] = k.search(b.codes[n*s:], sub, w, importance != nil)
	}
	if !k.head(dst, b, importance != nil) {
		return
	}
	for s := range k.subs {
		k.again(b.codes[n*s:], x[n*s:][:n], b.scales[s], b.minima[s])
	}
	k.pack(dst, &b.codes)
}

// meanSquare is what the sum of the squares of 256 numbers adds to each number's square in
// its weight.
func (k *superBlock) meanSquare(squares float32) float32 { return float32(k.sigma*squares) / 256 }

// again chooses the codes of a sub-block by the scale and the minimum that are stored. With a scale of 0 they stay.
func (k *superBlock) again(codes []uint8, x []float32, scale, minimum float32) {
	if scale == 0 {
		return
	}
	for i, v := range x {
		codes[i] = uint8(clamp(nearest(float32(v+minimum)/scale), k.least, k.most) - k.least)
	}
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

// magnitudes sets w to the magnitudes of x.
func magnitudes(w, x []float32) {
	for i, v := range x {
		w[i] = magnitudeOf(v)
	}
}

// magnitudesAndMean sets w to the magnitudes of x and the root of the mean square of all.
func magnitudesAndMean(w, x []float32) {
	mean := float32(math.Sqrt(float64(addSquares(x) / float32(len(x)))))
	for i, v := range x {
		w[i] = mean + magnitudeOf(v)
	}
}

// withMinima is the search of a type that has minima: in g, or with an importance in the grid of all types.
func withMinima(g grid) func(codes []uint8, x, w []float32, weighted bool) (scale, minimum float32) {
	important := importantGrid(g.most)
	return func(codes []uint8, x, w []float32, weighted bool) (scale, minimum float32) {
		if weighted {
			return searchMin(codes, x, w, important)
		}
		return searchMin(codes, x, w, g)
	}
}

var (
	gridQ2_K = grid{3, -0.5, 0.1, 15, true}
	gridQ4_K = grid{15, -1, 0.1, 20, false}
	gridQ5_K = grid{31, -0.5, 0.1, 15, false}
)

var superQ2_K = superBlock{16, 0, 3, 1, magnitudes, withMinima(gridQ2_K), headQ2_K, func(dst []byte, codes *[256]uint8) { putTwoBits(dst[16:80], codes) }}

func headQ2_K(dst []byte, b *subBlocks, weighted bool) bool {
	var scales, minima [16]uint8
	var d, dmin float32
	if weighted {
		d, dmin = searchPositive(scales[:], 15, b.scales[:], b.weights[:]), searchPositive(minima[:], 15, b.minima[:], b.weights[:])
	} else {
		d, dmin = partsOf(scales[:], b.scales[:], 15), partsOf(minima[:], b.minima[:], 15)
	}
	d, dmin = halved(dst[80:], d), halved(dst[82:], dmin)
	for s := range 16 {
		dst[s] = scales[s] | minima[s]<<4
		b.scales[s], b.minima[s] = d*float32(dst[s]&15), dmin*float32(dst[s]>>4)
	}
	return true
}

var superQ3_K = superBlock{16, -4, 3, 2, squares, func(codes []uint8, x, w []float32, weighted bool) (scale, minimum float32) {
	if weighted {
		return searchSigned(codes, 4, x, w), 0
	}
	return searchQ3(codes, x), 0
}, headQ3_K, packQ3_K}

func headQ3_K(dst []byte, b *subBlocks, weighted bool) bool {
	var scales [16]uint8 // from 0 to 63
	d := float32(0)
	if weighted {
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
		b.scales[s] = d * float32(int(low|high<<4)-32)
	}
	return true
}

var superQ4_K = superBlock{8, 0, 15, 2, magnitudesAndMean, withMinima(gridQ4_K), func(dst []byte, b *subBlocks, weighted bool) bool {
	return headQ45_K(dst, b, weighted, weighted) // bytes above 63 stay, unlike in Q5_K
}, packQ4_K}

var superQ5_K = superBlock{8, 0, 31, 2, magnitudesAndMean, withMinima(gridQ5_K), func(dst []byte, b *subBlocks, weighted bool) bool {
	return headQ45_K(dst, b, weighted, false)
}, packQ5_K}

// headQ45_K fills the head of a block of Q4_K or Q5_K: d, dmin and scales. Those above 63 are made 63 unless they stay.
func headQ45_K(dst []byte, b *subBlocks, weighted, stay bool) bool {
	var scales, minima [8]uint8
	var d, dmin float32
	if weighted {
		d = searchPositive(scales[:], 63, b.scales[:8], b.weights[:8])
		dmin = searchPositive(minima[:], 63, b.minima[:8], b.weights[:8])
	} else {
		d, dmin = partsOf(scales[:], b.scales[:8], 63), partsOf(minima[:], b.minima[:8], 63)
	}
	if !stay {
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
		b.scales[s], b.minima[s] = d*scale, dmin*minimum
	}
	return true
}

var superQ6_K = superBlock{16, -32, 31, 0, squares, func(codes []uint8, x, w []float32, _ bool) (scale, minimum float32) {
	return searchSigned(codes, 32, x, w), 0
}, headQ6_K, packQ6_K}

func headQ6_K(dst []byte, b *subBlocks, _ bool) bool {
	largest, magnitude := peak(b.scales[:])
	if magnitude < tiny {
		clear(dst[:210])
		return false
	}
	inverse := -128 / largest
	d := halved(dst[208:], 1/inverse)
	for s, v := range b.scales {
		scale := int8(min(127, nearest(float32(inverse*v))))
		dst[192+s] = byte(scale)
		b.scales[s] = d * float32(scale)
	}
	return true
}

// Codes are packed eight at a time.

// eight returns the codes from i on, the first lowest.
func eight(codes *[256]uint8, i int) uint64 { return binary.LittleEndian.Uint64(codes[i:]) }

func putEight(dst []byte, codes uint64) { binary.LittleEndian.PutUint64(dst, codes) }

// ofEach is a byte eight times.
const ofEach = 0x0101_0101_0101_0101

// putTwoBits stores two bits of each of 256 codes, which have no more.
func putTwoBits(qs []byte, codes *[256]uint8) {
	for h := 0; h < 2; h++ {
		for j := 0; j < 32; j += 8 {
			c := 128*h + j
			putEight(qs[32*h+j:], eight(codes, c)|eight(codes, c+32)<<2|eight(codes, c+64)<<4|eight(codes, c+96)<<6)
		}
	}
}

func packQ3_K(dst []byte, codes *[256]uint8) {
	for j := 0; j < 32; j += 8 {
		high := uint64(0)
		for i := range 8 {
			high |= eight(codes, 32*i+j) >> 2 & ofEach << i
		}
		putEight(dst[j:], high)
	}
	for i := 0; i < len(codes); i += 8 {
		putEight(codes[i:], eight(codes, i)&(3*ofEach))
	}
	putTwoBits(dst[32:96], codes)
}

func packQ4_K(dst []byte, codes *[256]uint8) {
	for s := range 4 {
		for j := 0; j < 32; j += 8 {
			putEight(dst[16+32*s+j:], eight(codes, 64*s+j)|eight(codes, 64*s+32+j)<<4)
		}
	}
}

func packQ5_K(dst []byte, codes *[256]uint8) {
	for j := 0; j < 32; j += 8 {
		high := uint64(0)
		for s := range 4 {
			low, next := eight(codes, 64*s+j), eight(codes, 64*s+32+j)
			high |= (low>>4&ofEach | next>>4&ofEach<<1) << (2 * s)
			putEight(dst[48+32*s+j:], low&(15*ofEach)|next&(15*ofEach)<<4)
		}
		putEight(dst[16+j:], high)
	}
}

func packQ6_K(dst []byte, codes *[256]uint8) {
	for h := range 2 {
		ql, qh := dst[64*h:][:64], dst[128+32*h:][:32]
		for j := 0; j < 32; j += 8 {
			c := 128*h + j
			c0, c1, c2, c3 := eight(codes, c), eight(codes, c+32), eight(codes, c+64), eight(codes, c+96)
			putEight(ql[j:], c0&(15*ofEach)|c2&(15*ofEach)<<4)
			putEight(ql[j+32:], c1&(15*ofEach)|c3&(15*ofEach)<<4)
			putEight(qh[j:], c0>>4&(3*ofEach)|c1>>4&(3*ofEach)<<2|c2>>4&(3*ofEach)<<4|c3>>4&(3*ofEach)<<6)
		}
	}
}
