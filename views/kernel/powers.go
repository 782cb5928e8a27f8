package kernel

import (
	"fmt"
	"math"
)

// Powers are sums of the powers of F32 numbers. Numbers that are not finite are counted and
// left out of the sums. Every implementation adds number i to lane i%8, so that the sums
// have the same bits everywhere; x and x*x are exact as F64, and x*x*x*x is added by a
// fused operation, rounded once.
//
// The zero value is not ready: see [NewPowers].
type Powers struct {
	sum, square, four [8]float64
	least, most       [8]float32
	zeros             [8]uint32
	any               uint32
	nonFinite         int64
}

// NewPowers returns empty sums.
func NewPowers() (p Powers) {
	for i := range p.least {
		p.least[i], p.most[i] = float32(math.Inf(1)), float32(math.Inf(-1))
	}
	return p
}

// Add adds the numbers in b, less than 2^32 before the results are asked for, and to each number of columns the square
// of the number in that place.
func (p *Powers) Add(b []byte, columns []float64) {
	mustBeF32(b)
	if len(b) != 4*len(columns) {
		panic(fmt.Sprintf("kernel: %d bytes of F32 and %d columns", len(b), len(columns)))
	}
	n := nativePowers(p, b, columns)
	p.add(b[n:], columns[n/4:])
}

// Sum is the sum of the numbers, Square of their squares and Four of their fourth powers.
func (p *Powers) Sum() float64 { return eightLanes(&p.sum) }

// Square is the sum of the squares.
func (p *Powers) Square() float64 { return eightLanes(&p.square) }

// Four is the sum of the fourth powers.
func (p *Powers) Four() float64 { return eightLanes(&p.four) }

// Least is the least number, infinite without numbers. 0 has no sign.
func (p *Powers) Least() float32 { return leastOf(&p.least) }

// Most is the greatest number: see Least.
func (p *Powers) Most() float32 { return mostOf(&p.most) }

// Zeros is how many of the numbers are 0 or -0.
func (p *Powers) Zeros() int64 { return totalOf(&p.zeros) }

// NonFinite is how many are infinite or NaN.
func (p *Powers) NonFinite() int64 { return p.nonFinite }

// Any has the bits that any of the numbers has, finite or not.
func (p *Powers) Any() uint32 { return p.any }

func eightLanes(v *[8]float64) float64 {
	return lanes(&[4]float64{v[0] + v[4], v[1] + v[5], v[2] + v[6], v[3] + v[7]})
}

// Losses are sums of the squares of what Q4_0 and Q8_0 change: of the F32 difference between a number and the one that is
// decoded from its block, squared exactly as F64. Number i of a block is added to lane i%4. The zero value is ready.
type Losses struct{ q4, q8 [4]float64 }

// Add adds blocks of 32 F32 numbers.
func (l *Losses) Add(b []byte) {
	if len(b)%128 != 0 {
		panic(fmt.Sprintf("kernel: %d bytes are no whole blocks", len(b)))
	}
	for len(b) > 0 {
		n := nativeLosses(l, b)
		if b = b[n:]; len(b) > 0 { // a block that is left
			l.add(b[:128])
			b = b[128:]
		}
	}
}

// Q4 is the sum for Q4_0. Where a number is not finite, or the scale of a block is no finite half, it is neither.
func (l *Losses) Q4() float64 { return lanes(&l.q4) }

// Q8 is the sum for Q8_0: see Q4.
func (l *Losses) Q8() float64 { return lanes(&l.q8) }
