package kernel

import (
	"encoding/binary"
	"math"
	"sync"
)

// Encoders of IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS and IQ3_S (quantize_row_iq2_xxs_impl and so on
// in ggml-quants.c); the blocks are drawn in go_iq.go. The magnitudes of a sub-block become odd
// multiples of a scale, whose halves are the levels of a codebook's rows. Scales are tried, and
// a group of numbers whose levels are not a row gets the row that costs least for that scale.

// latticeType describes how 256 numbers become a block of one of these types.
type latticeType struct {
	book  func() *codebook
	size  int     // numbers of a sub-block
	sigma float32 // how many mean squares the weights take

	// unweighted sets the weights of numbers whose columns have no importance. It is nil if
	// ggml makes no such blocks.
	unweighted func(w, x []float32, sigma float32)

	least    float32 // a smaller largest magnitude is taken for zeros
	tries    int     // on both sides of the first scale
	step     float32
	first    func(codes []uint8, x, w []float32, largest float32) (divisor, scale float32) // nil: largest
	again    bool                                                                          // all groups get another row for the scale that was found, not only those without one
	evenOnly bool                                                                          // an even number of a group's signs are negative, or its smallest number changes its sign
	fudge    float32                                                                       // times the stored scale
	kept     bool                                                                          // rows and signs are stored even if all scales are 0

	// put stores the row of a group, and the signs of its numbers. stored is how many sub-blocks that are not zeros came before.
	put func(dst []byte, sub, stored, group, row int, sign uint8)
	// putScale stores the scale of a sub-block, from 0 to 15.
	putScale func(dst []byte, sub int, scale uint8)
}

var (
	latticeIQ2_XXS = latticeType{book: codebookIQ2_XXS, size: 32, sigma: 1, least: tiny, tries: 6, step: 0.1, again: true, evenOnly: true, fudge: 1, first: firstIQ2_XXS,
		put: func(dst []byte, sub, _, group, row int, sign uint8) {
			dst[2+8*sub+group] = uint8(row)
			at := dst[6+8*sub:]
			binary.LittleEndian.PutUint32(at, binary.LittleEndian.Uint32(at)|uint32(sign&127)<<(7*group))
		},
		putScale: func(dst []byte, sub int, scale uint8) { dst[9+8*sub] |= scale << 4 },
	}
	latticeIQ2_XS = latticeType{book: codebookIQ2_XS, size: 16, sigma: 1, least: tiny, tries: 9, step: 0.1, evenOnly: true, fudge: 1,
		put: func(dst []byte, sub, _, group, row int, sign uint8) {
			binary.LittleEndian.PutUint16(dst[2+4*sub+2*group:], uint16(row)|uint16(sign&127)<<9)
		},
		putScale: func(dst []byte, sub int, scale uint8) { dst[66+sub/2] |= scale << (sub % 2 * 4) },
	}
	latticeIQ2_S = latticeType{book: codebookIQ2_S, size: 16, sigma: 2, least: 1e-8, tries: 9, step: 0.1, fudge: 0.9875, kept: true,
		unweighted: func(w, x []float32, sigma float32) {
			for i, v := range x {
				w[i] = float32(0.25*sigma) + float32(v*v)
			}
		},
		put: func(dst []byte, sub, _, group, row int, sign uint8) {
			g := 2*sub + group
			dst[2+g] = uint8(row)
			dst[34+g] = sign
			dst[66+g/4] |= uint8(row>>8) << (g % 4 * 2)
		},
		putScale: func(dst []byte, sub int, scale uint8) { dst[74+sub/2] |= scale << (sub % 2 * 4) },
	}
	latticeIQ3_XXS = latticeType{book: codebookIQ3_XXS, size: 32, sigma: 2, least: 1e-8, tries: 15, step: 0.2, evenOnly: true, fudge: 1.0125, unweighted: squaresOnly,
		put: func(dst []byte, sub, _, group, row int, sign uint8) {
			dst[2+8*sub+group] = uint8(row)
			if group%2 == 0 {
				at := dst[66+4*sub:]
				binary.LittleEndian.PutUint32(at, binary.LittleEndian.Uint32(at)|uint32(sign&127)<<(7*group/2))
			}
		},
		putScale: func(dst []byte, sub int, scale uint8) { dst[69+4*sub] |= scale << 4 },
	}
	latticeIQ3_S = latticeType{book: codebookIQ3_S, size: 32, sigma: 2, least: math.SmallestNonzeroFloat32, tries: 9, step: 0.2, again: true, fudge: 1.033, kept: true, unweighted: squaresOnly,
		put: func(dst []byte, sub, stored, group, row int, sign uint8) {
			dst[2+8*stored+group] = uint8(row) // ggml goes on after zeros where it was, but not for the high bits
			dst[66+sub] |= uint8(row>>8) << group
			if group%2 == 0 {
				dst[74+4*stored+group/2] = sign
			}
		},
		putScale: func(dst []byte, sub int, scale uint8) { dst[106+sub/2] |= scale << (sub % 2 * 4) },
	}
)

func squaresOnly(w, x []float32, _ float32) { squares(w, x) }

// firstIQ2_XXS returns what the scales that are tried are parts of: the largest number for the
// scale of codes from 0 to 4, 0 if that is not positive.
func firstIQ2_XXS(codes []uint8, x, w []float32, _ float32) (divisor, scale float32) {
	scale = searchPositive(codes, 4, x, w)
	return scale * 3, scale
}

// lattice is what is found of the numbers of a sub-block.
type lattice struct {
	x, w, root [32]float32 // magnitudes, their weights, and the roots of these
	codes      [32]uint8   // of the first scale
	signs      [4]uint8    // of 8 numbers each

	// Products of each number and each level, 8 to a number: weight*x*(2*level+1), and
	// weight*(2*level+1)*(2*level+1).
	products, squares [256]float32

	rows, best [8]int32 // a row for each group
	found      [8]bool  // whether the levels of the best rows were rows at once
}

// lattices are used again: calls by a value would put them on the heap each time.
var lattices = sync.Pool{New: func() any { return new(lattice) }}

func (k *latticeType) encode(dst []byte, x, importance []float32, _ float32) {
	b := lattices.Get().(*lattice)
	defer lattices.Put(b)
	var (
		scales [16]float32
		most   float32
		stored int
		book   = k.book()
		sigma  = float32(float32(k.sigma*addSquares(x)) / 256)
		w      = b.w[:k.size]
	)
	clear(dst)
	for s := range 256 / k.size {
		sub := x[k.size*s:][:k.size]
		if importance == nil {
			k.unweighted(w, sub, sigma)
		} else {
			weigh(w, importance[k.size*s:], sub, sigma)
		}
		scale, ok := k.search(b, sub, book)
		if !ok {
			continue
		}
		if scale < 0 { // the levels are never negative
			scale = -scale
			for i, signs := range b.signs {
				b.signs[i] = ^signs
			}
		}
		for g := range k.size / book.width {
			k.put(dst, s, stored, g, int(b.best[g]), b.signs[g*book.width/8])
		}
		stored++
		scales[s] = scale
		if scale > most {
			most = scale
		}
	}
	if most == 0 {
		if !k.kept {
			clear(dst)
		}
		return
	}
	d := most / 31
	round(dst, []float32{d * k.fudge})
	inverse := 1 / d
	for s, scale := range scales[:256/k.size] {
		k.putScale(dst, s, uint8(clamp(nearest(float32(0.5*(float32(inverse*scale)-1))), 0, 15)))
	}
}

// search finds the scale of a sub-block and a row for each of its groups. It is false for numbers that are
// taken for zeros.
func (k *latticeType) search(b *lattice, sub []float32, book *codebook) (scale float32, ok bool) {
	x, w := b.x[:k.size], b.w[:k.size]
	for i, w := range w {
		b.root[i] = float32(math.Sqrt(float64(w)))
	}
	k.setSigns(b, sub)
	largest := x[0]
	for _, v := range x[1:] {
		if !(largest > v) {
			largest = v
		}
	}
	if largest < k.least {
		return 0, false
	}
	groups := k.size / book.width
	divisor := largest
	top := float32(2*book.base - 1)
	scale = largest / top
	if k.first != nil {
		divisor, scale = k.first(b.codes[:k.size], x, w, largest)
		if divisor <= 0 {
			return 0, false
		}
	}
	b.setProducts(k.size, book.base)
	clear(b.best[:groups])
	for g := range groups {
		b.best[g] = book.byIndex[0] // all levels are 0
		b.found[g] = true
	}
	accepted := false
	best := float32(0)
	for try := -k.tries; try <= k.tries; try++ {
		inverse := (top + float32(float32(try)*k.step)) / divisor
		found := k.choose(b, book, inverse, 1/inverse, ^uint32(0))
		product, square := b.sums(book, groups, &b.rows)
		if square > 0 && float32(product*product) > float32(best*square) {
			scale = product / square
			best = scale * product
			copy(b.best[:groups], b.rows[:groups])
			for g := range groups {
				b.found[g] = found>>g&1 != 0
			}
			accepted = true
		}
	}
	which := uint32(0)
	for g, found := range b.found[:groups] {
		if !found {
			which |= 1 << g
		}
	}
	if k.again && (which != 0 || k.first != nil || !accepted) {
		which = ^uint32(0)
	}
	if which != 0 && scale > 0 {
		copy(b.rows[:groups], b.best[:groups])
		k.choose(b, book, 1/scale, scale, which)
		copy(b.best[:groups], b.rows[:groups])
		if product, square := b.sums(book, groups, &b.best); square > 0 {
			scale = product / square
		}
	}
	return scale, true
}

// setSigns takes the signs of the numbers of a sub-block off.
func (k *latticeType) setSigns(b *lattice, sub []float32) {
	for g := range k.size / 8 {
		x, from, w := b.x[8*g:][:8], sub[8*g:][:8], b.w[8*g:][:8]
		signs, odd := uint8(0), false
		for i, v := range from {
			if v >= 0 {
				x[i] = v
			} else {
				x[i] = -v
				signs |= 1 << i
				odd = !odd
			}
		}
		if odd && k.evenOnly {
			at, least := 0, float32(float32(w[0]*from[0])*from[0])
			for i := 1; i < 8; i++ {
				if cost := float32(float32(w[i]*from[i]) * from[i]); cost < least {
					at, least = i, cost
				}
			}
			x[at] = -x[at]
			signs ^= 1 << at
		}
		b.signs[g] = signs
	}
}

// setProducts fills in the products of numbers and levels.
func (b *lattice) setProducts(n, levels int) {
	for i, w := range b.w[:n] {
		products, squares := b.products[8*i:][:8], b.squares[8*i:][:8]
		wx := float32(w * b.x[i])
		for l := range levels {
			q := float32(2*l + 1)
			products[l] = float32(wx * q)
			squares[l] = float32(float32(w*q) * q)
		}
	}
}

// sums adds the products of the levels of some rows, in the order of the numbers.
func (b *lattice) sums(book *codebook, groups int, rows *[8]int32) (product, square float32) {
	for g := range groups {
		row := &book.rows[rows[g]]
		products, squares := b.products[8*book.width*g:], b.squares[8*book.width*g:]
		for _, at := range row[:book.width] {
			product += products[at]
			square += squares[at]
		}
	}
	return product, square
}

// choose sets the rows of the groups whose bits are set in which, for a scale and about its
// inverse. A bit of the result is set if the nearest levels of the group are a row.
func (k *latticeType) choose(b *lattice, book *codebook, inverse, scale float32, which uint32) (found uint32) {
	var at [8]float32 // numbers of the levels
	for l := range at {
		at[l] = float32(scale * float32(2*l+1))
	}
	for g := range k.size / book.width {
		if which>>g&1 == 0 {
			continue
		}
		var row int32
		var isRow bool
		if book.width == 4 {
			row, isRow = book.choose4((*[4]float32)(b.x[4*g:]), (*[4]float32)(b.root[4*g:]), inverse, &at)
		} else {
			row, isRow = book.choose8((*[8]float32)(b.x[8*g:]), (*[8]float32)(b.root[8*g:]), inverse, &at)
		}
		if b.rows[g] = row; isRow {
			found |= 1 << g
		}
	}
	return found
}

// level is the level of a number that is an odd multiple of a scale.
func level(x, inverse float32, most int32) int32 {
	return clamp(nearest(float32(0.5*(float32(inverse*x)-1))), 0, most)
}

// choose4 returns the row for four numbers of eight levels, and whether their levels are that row.
func (c *codebook) choose4(x, w *[4]float32, inverse float32, at *[8]float32) (row int32, isRow bool) {
	index := level(x[0], inverse, 7) | level(x[1], inverse, 7)<<3 | level(x[2], inverse, 7)<<6 | level(x[3], inverse, 7)<<9
	if row = c.byIndex[index]; row >= 0 {
		return row, true
	}
	near := c.neighbours(row)
	row = int32(near[0]) // ggml ends its process if no neighbour costs less than the largest F32: a number is not finite, or close to that
	least := float32(largestF32)
	for _, n := range near {
		r := &c.rows[n]
		d0, d1, d2, d3 := at[r[0]&7]-x[0], at[r[1]&7]-x[1], at[r[2]&7]-x[2], at[r[3]&7]-x[3]
		sum := float32(float32(w[0]*d0) * d0)
		sum += float32(float32(w[1]*d1) * d1)
		sum += float32(float32(w[2]*d2) * d2)
		sum += float32(float32(w[3]*d3) * d3)
		if sum < least {
			row, least = int32(n), sum
		}
	}
	return row, false
}

// choose8 returns the row for eight numbers of three levels, and whether their levels are that row.
func (c *codebook) choose8(x, w *[8]float32, inverse float32, at *[8]float32) (row int32, isRow bool) {
	index := int32(0)
	for i := 7; i >= 0; i-- {
		index = 3*index + level(x[i], inverse, 2)
	}
	if row = c.byIndex[index]; row >= 0 {
		return row, true
	}
	var of costs
	for i, v := range x {
		d0, d1, d2 := at[0]-v, at[1]-v, at[2]-v
		of[8*i] = float32(float32(w[i]*d0) * d0)
		of[8*i+1] = float32(float32(w[i]*d1) * d1)
		of[8*i+2] = float32(float32(w[i]*d2) * d2)
	}
	return c.cheapest(c.neighbours(row), &of, false), false
}
