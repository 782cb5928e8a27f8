package kernel

import (
	"slices"
	"sync"
)

// lowRankKernel adds to groups of four rows of a panel.
type lowRankKernel struct {
	name  string
	widen func(dst *float64, src *float32, rank int) // a panel
	add   func(dst *byte, left, right *float64, rank, pitch, groups int, factor float32)
}

// lowRankBuffers have rows of the tall matrix as F64, and a panel of the wide one. Zeros fill up the rows to whole groups, and
// the rank to what the kernels do in one go: they change no sum, as none is -0.
type lowRankBuffers struct {
	left, right []float64
	part        [4][4 * panel]byte // rows of a panel that is only needed in part
}

var lowRankPool = sync.Pool{New: func() any { return new(lowRankBuffers) }}

// native is Add with a kernel.
func (m *LowRank) native(kernel *lowRankKernel, dst []byte, row, rows, column, n int) {
	b := lowRankPool.Get().(*lowRankBuffers)
	defer lowRankPool.Put(b)
	groups, rank := (rows+3)/4, (m.Rank+3)&^3
	b.left = slices.Grow(b.left[:0], 4*groups*rank)[:4*groups*rank]
	clear(b.left)
	for r := range rows {
		to := b.left[r*rank:][:m.Rank]
		for k, l := range m.Left[(row+r)*m.Rank:][:m.Rank] {
			to[k] = float64(l)
		}
	}
	b.right = slices.Grow(b.right[:0], panel*rank)[:panel*rank]
	clear(b.right[panel*m.Rank:])
	for at := 0; at < n; {
		from := (column + at) % panel
		columns := min(panel-from, n-at)
		right := m.Right[(column+at-from)*m.Rank:][:panel*m.Rank]
		kernel.widen(&b.right[0], &right[0], m.Rank)
		whole := 0 // groups that are added to in place
		if columns == panel && rows >= 4 {
			whole = rows / 4
			kernel.add(&dst[4*at], &b.left[0], &b.right[0], rank, 4*n, whole, m.Factor)
		}
		for g := whole; g < groups; g++ {
			part := &b.part
			own := dst[4*(4*g*n+at):]
			for r := range min(4, rows-4*g) {
				copy(part[r][4*from:], own[4*r*n:][:4*columns])
			}
			kernel.add(&part[0][0], &b.left[4*g*rank], &b.right[0], rank, 4*panel, 1, m.Factor)
			for r := range min(4, rows-4*g) {
				copy(own[4*r*n:][:4*columns], part[r][4*from:])
			}
		}
		at += columns
	}
}
