//go:build !purego

package kernel

import (
	"sync"
	"unsafe"
)

// laneRows are sixteen sub-blocks side by side, one in each lane of two registers: rows of numbers, of weights and of codes
// that are being tried, then what is found, then what only the kernels use.
type laneRows [112][16]float32

// The rows that Go looks at; _asm/search.go has the same.
const (
	rowX, rowW, rowL                                  = 0, 32, 64
	rowScale, rowMinimum, rowWeight, rowSigma, rowOdd = 96, 97, 98, 99, 100
)

// notFinite is the bits of infinity. Numbers that are not finite are left to plain Go.
const notFinite = 0x7F80_0000

// load puts numbers of two times eight sub-blocks of n into rows. It is false if one of
// them is not finite.
func (l *laneRows) load(row int, first, second []float32, n int) bool {
	_, _ = first[8*n-1], second[8*n-1]
	return transposeAVX2(&l[row][0], &first[0], &second[0], n) < notFinite
}

// loadAll loads the numbers of sub-blocks of n, at most sixteen, and their importance unless that is nil.
func (l *laneRows) loadAll(x, importance []float32, n int) bool {
	first, second := halves(x, n)
	if !l.load(rowX, first, second, n) {
		return false
	}
	if importance == nil {
		return true
	}
	first, second = halves(importance, n)
	return l.load(rowW, first, second, n)
}

// spread sets some lanes of a row to a value.
func (l *laneRows) spread(row, lane, count int, v float32) {
	for i := range count {
		l[row][lane+i] = v
	}
}

// column copies what rows have in a lane.
func (l *laneRows) column(dst []float32, row, lane int) {
	for i := range dst {
		dst[i] = l[row+i][lane]
	}
}

// stepsOf are the steps that searchMin tries.
func stepsOf(g grid) (steps []float32) {
	for k := 0; k <= g.last; k++ {
		steps = append(steps, (g.first+float32(g.step*float32(k)))+float32(g.most))
	}
	return steps
}

// signedSteps are what searchSigned divides by the largest number, for codes from -m.
func signedSteps(m int32) []float32 {
	steps := []float32{float32(-m)}
	for k := int32(-9); k <= 9; k++ {
		if k != 0 {
			steps = append(steps, -(float32(m) + float32(float32(0.1)*float32(k))))
		}
	}
	return steps
}

// searchLanes searches sub-blocks of n side by side.
type searchLanes = func(l *laneRows, n int)

// minLanes is searchMin.
func minLanes(g grid) searchLanes {
	steps := stepsOf(g)
	if g.absolute {
		return func(l *laneRows, n int) { searchMinMagnitudesAVX2(&l[0][0], n, float32(g.most), &steps[0], len(steps)) }
	}
	return func(l *laneRows, n int) { searchMinSquaresAVX2(&l[0][0], n, float32(g.most), &steps[0], len(steps)) }
}

// signedLanes is searchSigned.
func signedLanes(m int32) searchLanes {
	steps := signedSteps(m)
	return func(l *laneRows, n int) {
		searchSignedAVX2(&l[0][0], n, float32(m), &steps[0], len(steps))
		l[rowMinimum] = [16]float32{}
	}
}

// avx2SuperBlock is superBlock with lanes.
type avx2SuperBlock struct {
	*superBlock
	bytes            int
	weights          func(p *float32, n int) // of sub-blocks of n that have no importance
	search, weighted searchLanes
}

// work is what encoding needs: calls by a value would put it on the heap each time.
type work struct {
	lanes      laneRows
	x          [512]float32
	importance [512]float32
	blocks     [2]subBlocks
	scales     [2][16]float32 // of every sixteen numbers
	codes      [512]uint8
}

var works = sync.Pool{New: func() any { return new(work) }}

// inTurns passes on the numbers of blocks of some elements and bytes, at most most blocks
// at a time, with the importance of each. A turn's numbers are in x of the work.
func inTurns(dst, src []byte, importance []float32, elems, bytes, most int, encode func(w *work, dst []byte, importance []float32, count int)) {
	w := works.Get().(*work)
	defer works.Put(w)
	at := 0 // column
	for len(src) > 0 {
		count := min(most, len(src)/(4*elems))
		if importance != nil {
			if at == len(importance) {
				at = 0
			}
			count = min(count, (len(importance)-at)/elems)
		}
		copy(unsafe.Slice((*byte)(unsafe.Pointer(&w.x[0])), 4*len(w.x)), src[:4*elems*count])
		var of []float32
		if importance != nil {
			of = importance[at:][:elems*count]
			at += elems * count
		}
		encode(w, dst[:bytes*count], of, count)
		dst, src = dst[bytes*count:], src[4*elems*count:]
	}
}

func (k *avx2SuperBlock) encode(dst, src []byte) { k.weigh(dst, src, nil) }

// weigh encodes rows, with the importance of their columns unless that is nil.
func (k *avx2SuperBlock) weigh(dst, src []byte, importance []float32) {
	inTurns(dst, src, importance, 256, k.bytes, 16/k.subs, k.blocks)
}

// halves returns where the first and the second eight sub-blocks of n are, which are the same if there are no more.
func halves(x []float32, n int) (first, second []float32) {
	if len(x) < 16*n {
		return x, x
	}
	return x[:8*n], x[8*n:]
}

// blocks encodes one block, or two if each has eight sub-blocks.
func (k *avx2SuperBlock) blocks(w *work, dst []byte, importance []float32, count int) {
	n, l := 256/k.subs, &w.lanes
	if !l.loadAll(w.x[:256*count], importance, n) {
		eachBlock(k.superBlock.encode, dst, w.x[:256*count], importance, k.bytes, 256)
		return
	}
	if importance == nil {
		k.weights(&l[0][0], n)
		k.search(l, n)
	} else {
		if k.sigma != 0 {
			for i := range count {
				l.spread(rowSigma, k.subs*i, k.subs, k.meanSquare(addSquares(w.x[256*i:][:256])))
			}
			weighAVX2(&l[0][0], n)
		}
		k.weighted(l, n)
	}
	for i := range count {
		k.block(w, dst[k.bytes*i:][:k.bytes], i, importance != nil)
	}
}

// block makes a block of what was found.
func (k *avx2SuperBlock) block(w *work, dst []byte, i int, weighted bool) {
	n, lane, l, b, x := 256/k.subs, k.subs*i, &w.lanes, &w.blocks[i], w.x[256*i:][:256]
	copy(b.scales[:], l[rowScale][lane:][:k.subs])
	copy(b.minima[:], l[rowMinimum][lane:][:k.subs])
	copy(b.weights[:], l[rowWeight][lane:][:k.subs])
	for s, odd := range l[rowOdd][lane:][:k.subs] {
		if odd != 0 {
			l.column(b.w[:n], rowW, lane+s)
			b.scales[s], b.minima[s] = k.superBlock.search(b.codes[n*s:], x[n*s:][:n], b.w[:n], weighted)
		}
	}
	if !k.head(dst, b, weighted) {
		return
	}
	runs := 16 / k.subs
	for s := range k.subs {
		for r := range runs {
			w.scales[0][runs*s+r], w.scales[1][runs*s+r] = b.scales[s], b.minima[s]
		}
	}
	againAVX2(&b.codes[0], &x[0], &w.scales[0][0], &w.scales[1][0], k.least, k.most)
	for s, scale := range b.scales[:k.subs] {
		if scale == 0 { // the codes of the search stay
			l.column(b.w[:n], rowW, lane+s)
			k.superBlock.search(b.codes[n*s:], x[n*s:][:n], b.w[:n], weighted)
		}
	}
	k.pack(dst, &b.codes)
}

// q3Lanes is searchQ3.
func q3Lanes(l *laneRows, _ int) {
	searchQ3AVX2(&l[0][0])
	l[rowMinimum] = [16]float32{}
}

// avx2SuperBlocks are the K types.
func avx2SuperBlocks() map[string]*avx2SuperBlock {
	return map[string]*avx2SuperBlock{
		"Q2_K": {&superQ2_K, 84, magnitudesAVX2, minLanes(gridQ2_K), minLanes(importantGrid(3))},
		"Q3_K": {&superQ3_K, 110, squaresAVX2, q3Lanes, signedLanes(4)},
		"Q4_K": {&superQ4_K, 144, magnitudesAndMeanAVX2, minLanes(gridQ4_K), minLanes(importantGrid(15))},
		"Q5_K": {&superQ5_K, 176, magnitudesAndMeanAVX2, minLanes(gridQ5_K), minLanes(importantGrid(31))},
		"Q6_K": {&superQ6_K, 210, squaresAVX2, signedLanes(32), signedLanes(32)},
	}
}

// levelSteps are what searchLevels divides by the largest number.
var levelSteps = func() (steps []float32) {
	for k := -7; k <= 7; k++ {
		steps = append(steps, float32(k)+-127)
	}
	return steps
}()

// searchLevelLanes searches the scales of sixteen times 32 numbers. With an importance sigmas are of so many of them each.
func (w *work) searchLevelLanes(x, importance []float32, per int) {
	l := &w.lanes
	if importance == nil {
		squaresAVX2(&l[0][0], 32)
	} else {
		for i := 0; i < len(x); i += per {
			l.spread(rowSigma, i/32, per/32, addSquares(x[i:][:per])*(2/float32(per)))
		}
		weighAVX2(&l[0][0], 32)
	}
	searchLevelsAVX2(&l[0][0], &levelSteps[0], len(levelSteps))
}

// chooseLevels chooses the codes of x, by the factors of its blocks of 32.
func (w *work) chooseLevels(x []float32, factors []float32) {
	runs := w.lanes[rowL : rowL+2] // of sixteen numbers each
	for i, id := range factors {
		runs[i/8][i%8*2], runs[i/8][i%8*2+1] = id, id
	}
	levelsAVX2(&w.codes[0], &x[0], &runs[0][0], 2*len(factors))
}

func avx2IQ4_XS(dst, src []byte, importance []float32) {
	inTurns(dst, src, importance, 256, 136, 2, func(w *work, dst []byte, importance []float32, count int) {
		x := w.x[:256*count]
		if !w.lanes.loadAll(x, importance, 32) {
			eachBlock(toIQ4_XS, dst, x, importance, 136, 256)
			return
		}
		w.searchLevelLanes(x, importance, 256)
		scales := w.lanes[rowScale]
		for i := range count {
			headIQ4_XS(dst[136*i:], (*[8]float32)(scales[8*i:]))
		}
		w.chooseLevels(x, scales[:8*count])
		for i := range 8 * count {
			putNibbles(dst[i/8*136+8+i%8*16:][:16], (*[32]uint8)(w.codes[32*i:]))
		}
	})
}

func avx2IQ4_NL(dst, src []byte, importance []float32) {
	inTurns(dst, src, importance, 32, 18, 16, func(w *work, dst []byte, importance []float32, count int) {
		x := w.x[:32*count]
		clear(w.x[32*count:]) // the other lanes
		of := importance
		if importance != nil && count < 16 {
			of = w.importance[:]
			clear(of[copy(of, importance):])
		}
		if !w.lanes.loadAll(w.x[:], of, 32) {
			eachBlock(toIQ4_NL, dst, x, importance, 18, 32)
			return
		}
		w.searchLevelLanes(x, importance, 32)
		factors := w.lanes[rowScale]
		for i, d := range factors[:count] {
			round(dst[18*i:], []float32{d})
			factors[i] = inverse(d)
		}
		w.chooseLevels(x, factors[:count])
		for i := range count {
			putNibbles(dst[18*i+2:][:16], (*[32]uint8)(w.codes[32*i:]))
		}
	})
}

// eachBlock encodes blocks in plain Go.
func eachBlock(encode blockEncoder, dst []byte, x, importance []float32, bytes, elems int) {
	for ; len(x) > 0; dst, x = dst[bytes:], x[elems:] {
		var of []float32
		if importance != nil {
			of, importance = importance[:elems], importance[elems:]
		}
		encode(dst[:bytes], x[:elems], of, 0)
	}
}
