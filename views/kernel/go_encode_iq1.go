package kernel

import "encoding/binary"

// Encoders of IQ1_S and IQ1_M (quantize_row_iq1_s_impl and quantize_row_iq1_m_impl in
// ggml-quants.c); the blocks are drawn in go_iq.go. A number is a scale times -1, 0 or 1, to
// which an eighth is added, or from which it is taken in a whole group. Numbers of a sub-block
// are sorted, and all pairs of places are tried at which one level ends and the next one starts.

// deltas are the levels with an eighth more and with an eighth less.
var deltas = [2][3]float32{{-0.875, 0.125, 1.125}, {-1.125, -0.125, 0.875}}

// sorted sets order to the numbers' places by their size, equal ones as they come.
func sorted(order []uint8, x []float32) {
	for i, v := range x {
		j := i
		for ; j > 0 && x[order[j-1]] > v; j-- {
			order[j] = order[j-1]
		}
		order[j] = uint8(i)
	}
}

// largestMagnitude returns it as ggml's MAX does.
func largestMagnitude(x []float32) float32 {
	largest := magnitudeOf(x[0])
	for _, v := range x[1:] {
		if a := magnitudeOf(v); !(largest > a) {
			largest = a
		}
	}
	return largest
}

// split is how the sorted numbers of a sub-block are divided, and the signs of the eighths. It is the best
// split so far.
type split struct {
	scale       float32
	score       float32
	first, next int // where levels 1 and 2 start
	signs       int // of the eighths: indexes of deltas; negative before any split
}

// noSplit is worse than any split.
var noSplit = split{score: -largestF32, signs: -1}

// isWorse reports whether a split with these sums of w*q*x and w*q*q is better.
func (s *split) isWorse(product, square float32) bool {
	return square > 0 && float32(product*product) > float32(s.score*square)
}

// become makes it another split.
func (s *split) become(product, square float32, first, next, signs int) {
	scale := product / square
	*s = split{scale, scale * product, first, next, signs}
}

// iq1Rows finds the rows of the levels of a sub-block. delta has the levels of each group. A
// group whose levels are not a row gets the row that costs least, and the scale is then computed
// again.
func iq1Rows(rows []int32, levels []uint8, x, w []float32, scale float32, delta func(group int) *[3]float32) float32 {
	book := codebookIQ1()
	all := true
	for g := range rows {
		index, digit := int32(0), int32(1)
		for _, l := range levels[8*g:][:8] {
			index += int32(l) * digit
			digit *= 3
		}
		row := book.byIndex[index]
		if rows[g] = row; row >= 0 {
			continue
		}
		all = false
		var of costs
		for i, v := range x[8*g:][:8] {
			for l, q := range delta(g) {
				difference := float32(scale*q) - v
				of[8*i+l] = float32(float32(w[8*g+i]*difference) * difference)
			}
		}
		rows[g] = book.cheapest(book.neighbours(row), &of, true) // an importance may be negative
	}
	if all {
		return scale
	}
	var product, square float32
	for g, row := range rows {
		p, s := iq1Sums(book, row, x[8*g:][:8], w[8*g:][:8], delta(g), 1, product, square)
		product, square = p, s
	}
	if product > 0 && square > 0 {
		scale = product / square
	}
	return scale
}

// iq1Sums adds a row's products to sums: w*q*x, and w*q*q, for its levels q times a factor.
func iq1Sums(book *codebook, row int32, x, w []float32, delta *[3]float32, factor, product, square float32) (p, s float32) {
	for i, at := range book.rows[row] {
		q := delta[at&7] * factor
		wq := float32(w[i] * q)
		product += float32(wq * x[i])
		square += float32(wq * q)
	}
	return product, square
}

// setLevels gives the numbers of a sub-block the levels of a split.
func (s *split) setLevels(levels, order []uint8) {
	for j, i := range order {
		switch {
		case j < s.first:
			levels[i] = 0
		case j < s.next:
			levels[i] = 1
		default:
			levels[i] = 2
		}
	}
}

// iq1Weights sets the weights of the numbers of a sub-block.
func iq1Weights(w, x, importance []float32, sigma float32) {
	if importance == nil {
		squares(w, x)
	} else {
		weigh(w, importance, x, sigma)
	}
}

func toIQ1_S(dst []byte, x, importance []float32, _ float32) {
	var (
		w      [32]float32
		scales [8]float32
		minus  [8]bool
		most   float32
		sigma  = float32(float32(2*addSquares(x)) / 256)
	)
	clear(dst)
	for s := range scales {
		sub := x[32*s:][:32]
		weigh(w[:], importance[32*s:], sub, sigma)
		if largestMagnitude(sub) < 1e-12 {
			continue
		}
		var (
			order, levels [32]uint8
			rows          [4]int32
		)
		sorted(order[:], sub)
		best := splitIQ1_S(&order, sub, &w)
		if best.signs < 0 {
			continue
		}
		best.setLevels(levels[:], order[:])
		if best.scale < 0 {
			for i, l := range levels {
				levels[i] = 2 - l
			}
			best.scale = -best.scale
			best.signs = 1 - best.signs
		}
		scale := iq1Rows(rows[:], levels[:], sub, w[:], best.scale, func(int) *[3]float32 { return &deltas[best.signs] })
		high := uint16(0)
		for g, row := range rows {
			dst[2+4*s+g] = uint8(row)
			high |= uint16(row>>8) << (3 * g)
		}
		binary.LittleEndian.PutUint16(dst[34+2*s:], high)
		scales[s], minus[s] = scale, best.signs == 1
		if scale > most {
			most = scale
		}
	}
	if most == 0 {
		return
	}
	d := most / 15
	round(dst, []float32{d * 1.125})
	inverse := 1 / d
	for s, scale := range scales {
		l := uint16(clamp(nearest(float32(0.5*(float32(inverse*scale)-1))), 0, 7))
		if minus[s] {
			l |= 8
		}
		at := dst[34+2*s:]
		binary.LittleEndian.PutUint16(at, binary.LittleEndian.Uint16(at)|l<<12)
	}
}

// splitIQ1_S finds the split of 32 sorted numbers, noSplit if all weights are 0.
func splitIQ1_S(order *[32]uint8, x []float32, w *[32]float32) split {
	best := noSplit
	var sumX, sumW [33]float32
	for j, i := range order {
		sumX[j+1] = sumX[j] + float32(w[i]*x[i])
		sumW[j+1] = sumW[j] + w[i]
	}
	// What the last level adds for each place where it starts, with both signs of the eighth.
	var lastX, lastW [2][33]float32
	for sign, q := range deltas {
		for j := range lastX[sign] {
			lastX[sign][j] = float32((sumX[32] - sumX[j]) * q[2])
			lastW[sign][j] = float32(float32((sumW[32]-sumW[j])*q[2]) * q[2])
		}
	}
	for first := range 33 {
		var firstX, firstW [2]float32
		for sign, q := range deltas {
			firstX[sign] = float32((sumX[first] - sumX[0]) * q[0])
			firstW[sign] = float32(float32((sumW[first]-sumW[0])*q[0]) * q[0])
		}
		for next := first; next <= 32; next++ {
			for sign := range deltas {
				q := deltas[sign][1]
				product := firstX[sign] + float32((sumX[next]-sumX[first])*q) + lastX[sign][next]
				square := firstW[sign] + float32(float32((sumW[next]-sumW[first])*q)*q) + lastW[sign][next]
				if best.isWorse(product, square) {
					best.become(product, square, first, next, sign)
				}
			}
		}
	}
	return best
}

func toIQ1_M(dst []byte, x, importance []float32, _ float32) {
	var (
		w      [256]float32
		scales [16]float32
		signs  [16]uint8 // of the eighths: in bit 0 of the second group, in bit 1 of the first
		rows   [32]int32
		most   float32
		sigma  = float32(float32(2*addSquares(x)) / 256)
	)
	iq1Weights(w[:], x, importance, sigma)
	delta := func(s int) func(group int) *[3]float32 {
		return func(group int) *[3]float32 { return &deltas[signs[s]>>(1-group)&1] }
	}
	clear(dst)
	for s := range scales {
		sub, weights := x[16*s:][:16], w[16*s:][:16]
		if largestMagnitude(sub) < 1e-7 {
			continue
		}
		var order, levels [16]uint8
		sorted(order[:], sub)
		best := splitIQ1_M(&order, sub, weights)
		if best.signs < 0 {
			continue
		}
		best.setLevels(levels[:], order[:])
		if best.scale < 0 {
			for i, l := range levels {
				levels[i] = 2 - l
			}
			best.scale = -best.scale
			best.signs = 3 - best.signs
		}
		signs[s] = uint8(best.signs)
		pair := rows[2*s:][:2]
		scale := iq1Rows(pair, levels[:], sub, weights, best.scale, delta(s))
		dst[2*s], dst[2*s+1] = uint8(pair[0]), uint8(pair[1])
		dst[32+s] = uint8(pair[0]>>8) | uint8(pair[1]>>8)<<4
		scales[s] = scale
		if scale > most {
			most = scale
		}
	}
	if most == 0 {
		return
	}
	d := most / 15
	inverse := 1 / d
	var product, square float32
	packed := uint64(0) // scales
	book := codebookIQ1()
	for s, scale := range scales {
		l := clamp(nearest(float32(0.5*(float32(inverse*scale)-1))), 0, 7)
		packed |= uint64(l) << (s/4*16 + s%4*3)
		dst[32+s] |= signs[s]>>1<<3 | signs[s]&1<<7
		for g := range 2 {
			at := 16*s + 8*g
			product, square = iq1Sums(book, rows[2*s+g], x[at:][:8], w[at:][:8], delta(s)(g), float32(2*l+1), product, square)
		}
	}
	if square > 0 {
		d = product / square
	}
	var half [2]byte
	round(half[:], []float32{d * 1.1125})
	bits := uint64(binary.LittleEndian.Uint16(half[:]))
	packed |= bits&15<<12 | bits>>4&15<<28 | bits>>8&15<<44 | bits>>12<<60
	binary.LittleEndian.PutUint64(dst[48:], packed)
}

// splitIQ1_M finds the split of 16 sorted numbers, and the signs of both groups' eighths, noSplit if all weights are 0.
func splitIQ1_M(order *[16]uint8, x, w []float32) split {
	best := noSplit
	// Sums of the numbers of each group that come before a place. Levels are one apart, so that
	// a split's product is a multiple of the whole sum minus the sums at both places.
	var sumX, sumW [17][2]float32
	for j, i := range order {
		sumX[j+1], sumW[j+1] = sumX[j], sumW[j]
		sumX[j+1][i/8] += float32(w[i] * x[i])
		sumW[j+1][i/8] += w[i]
	}
	var wholeX, wholeW [2][2]float32    // of each sign and group
	var firstW, nextW [17][2][2]float32 // of each place, sign and group
	for sign, q := range deltas {
		first, next := q[0]*q[0]-q[1]*q[1], q[1]*q[1]-q[2]*q[2] // exact
		for group := range 2 {
			wholeX[sign][group] = float32(sumX[16][group] * q[2])
			wholeW[sign][group] = float32(float32(sumW[16][group]*q[2]) * q[2])
			for j := range sumW {
				firstW[j][sign][group] = float32(sumW[j][group] * first)
				nextW[j][sign][group] = float32(sumW[j][group] * next)
			}
		}
	}
	for first := range 17 {
		var partW [2][2]float32
		for sign := range deltas {
			for group := range 2 {
				partW[sign][group] = wholeW[sign][group] + firstW[first][sign][group]
			}
		}
		for next := first; next <= 16; next++ {
			x0, x1 := sumX[first][0]+sumX[next][0], sumX[first][1]+sumX[next][1]
			plus0, plus1 := wholeX[0][0]-x0, wholeX[0][1]-x1
			minus0, minus1 := wholeX[1][0]-x0, wholeX[1][1]-x1
			n := &nextW[next]
			plusW0, plusW1 := partW[0][0]+n[0][0], partW[0][1]+n[0][1]
			minusW0, minusW1 := partW[1][0]+n[1][0], partW[1][1]+n[1][1]
			if p, s := plus0+plus1, plusW0+plusW1; best.isWorse(p, s) {
				best.become(p, s, first, next, 0)
			}
			if p, s := plus0+minus1, plusW0+minusW1; best.isWorse(p, s) {
				best.become(p, s, first, next, 1)
			}
			if p, s := minus0+plus1, minusW0+plusW1; best.isWorse(p, s) {
				best.become(p, s, first, next, 2)
			}
			if p, s := minus0+minus1, minusW0+minusW1; best.isWorse(p, s) {
				best.become(p, s, first, next, 3)
			}
		}
	}
	return best
}
