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

// load puts numbers of two times eight sub-blocks of n into rows. It is false where one of them is not finite.
func (l *laneRows) load(row int, first, second []float32, n int) bool {
	_, _ = first[8*n-1], second[8*n-1]
	return transposeAVX2(&l[row][0], &first[0], &second[0], n) < notFinite
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
	lanes  laneRows
	x      [512]float32
	blocks [2]subBlocks
	scales [2][16]float32 // of every sixteen numbers
}

var works = sync.Pool{New: func() any { return new(work) }}

// fill copies numbers as they are stored.
func (w *work) fill(src []byte) {
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&w.x[0])), len(w.x)*4), src)
}

func (k *avx2SuperBlock) encode(dst, src []byte) { k.weigh(dst, src, nil) }

// weigh encodes rows, with the importance of their columns unless that is nil.
func (k *avx2SuperBlock) weigh(dst, src []byte, importance []float32) {
	w := works.Get().(*work)
	defer works.Put(w)
	at := 0 // column
	for len(src) > 0 {
		count := min(16/k.subs, len(src)/1024)
		w.fill(src[:1024*count])
		var of [2][]float32
		if importance != nil {
			for i := range count {
				of[i] = importance[at:][:256]
				at = (at + 256) % len(importance)
			}
		}
		k.blocks(w, dst[:k.bytes*count], of, count)
		dst, src = dst[k.bytes*count:], src[1024*count:]
	}
}

// blocks encodes one or two blocks.
func (k *avx2SuperBlock) blocks(w *work, dst []byte, importance [2][]float32, count int) {
	n, l := 256/k.subs, &w.lanes
	// With sixteen sub-blocks a block has both halves of the lanes, else each has one, and a single block both.
	halves := func(x0, x1 []float32) (first, second []float32) {
		switch {
		case k.subs == 16:
			return x0[:8*n], x0[8*n:]
		case count == 1:
			return x0, x0
		}
		return x0, x1
	}
	weighted := importance[0] != nil
	first, second := halves(w.x[:256], w.x[256:])
	ordinary := l.load(rowX, first, second, n)
	if ordinary && weighted {
		first, second = halves(importance[0], importance[1])
		ordinary = l.load(rowW, first, second, n)
	}
	if !ordinary {
		for i := range count {
			k.superBlock.encode(dst[k.bytes*i:][:k.bytes], w.x[256*i:][:256], importance[i], 0)
		}
		return
	}
	switch {
	case !weighted:
		k.weights(&l[0][0], n)
		k.search(l, n)
	default:
		if k.sigma != 0 {
			for i := range count {
				sigma := k.meanSquare(addSquares(w.x[256*i:][:256]))
				for s := range k.subs {
					l[rowSigma][(k.subs*i+s)%16] = sigma
				}
			}
			weighAVX2(&l[0][0], n)
		}
		k.weighted(l, n)
	}
	for i := range count {
		k.block(w, dst[k.bytes*i:][:k.bytes], i, weighted)
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

// avx2SuperBlocks are the K types.
func avx2SuperBlocks() map[string]*avx2SuperBlock {
	return map[string]*avx2SuperBlock{
		"Q2_K": {&superQ2_K, 84, magnitudesAVX2, minLanes(gridQ2_K), minLanes(importantGrid(3))},
		"Q4_K": {&superQ4_K, 144, magnitudesAndMeanAVX2, minLanes(gridQ4_K), minLanes(importantGrid(15))},
		"Q5_K": {&superQ5_K, 176, magnitudesAndMeanAVX2, minLanes(gridQ5_K), minLanes(importantGrid(31))},
		"Q6_K": {&superQ6_K, 210, squaresAVX2, signedLanes(32), signedLanes(32)},
	}
}
