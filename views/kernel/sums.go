package kernel

import (
	"fmt"
	"math"
)

// Moments are sums over F32 numbers. They are added up in four lanes, number i in lane i%4, by every implementation:
// so the result has the same bits everywhere. Where a number is infinite or NaN, Sum is not finite, and nothing
// else is of use; sums of finite numbers never overflow.
//
// The zero value is not ready: see [NewMoments].
type Moments struct {
	sum, squares [4]float64 // of the distances from shift
	least, most  [8]float32
	zeros        [8]uint32
	shift        float64
}

// NewMoments returns empty sums of the distances from shift.
func NewMoments(shift float64) (m Moments) {
	m.shift = shift
	for i := range m.least {
		m.least[i], m.most[i] = float32(math.Inf(1)), float32(math.Inf(-1))
	}
	return m
}

// Add adds the numbers in b, less than 2^32 before the results are asked for.
func (m *Moments) Add(b []byte) {
	mustBeF32(b)
	m.add(b[nativeMoments(m, b):])
}

// Sum is the sum of the distances from shift.
func (m *Moments) Sum() float64 { return lanes(&m.sum) }

// Squares is the sum of their squares.
func (m *Moments) Squares() float64 { return lanes(&m.squares) }

// Least and Most are the least and the greatest number, infinite without numbers. 0 has no
// sign.
func (m *Moments) Least() float32 { return leastOf(&m.least) }

// Most is the greatest number: see Least.
func (m *Moments) Most() float32 { return mostOf(&m.most) }

// Zeros is how many of the numbers are 0 or -0.
func (m *Moments) Zeros() int64 { return totalOf(&m.zeros) }

func leastOf(list *[8]float32) float32 {
	least := list[0]
	for _, v := range list {
		least = min(least, v)
	}
	return least + 0
}

func mostOf(list *[8]float32) float32 {
	most := list[0]
	for _, v := range list {
		most = max(most, v)
	}
	return most + 0
}

func totalOf(list *[8]uint32) (n int64) {
	for _, v := range list {
		n += int64(v)
	}
	return n
}

// Distances are sums over pairs of F32 numbers, x and y, in lanes like the sums of [Moments]. If a number is infinite
// or NaN, Finite is false, and the sums mean nothing. The zero value is ready.
type Distances struct {
	most, sum, squares, x, y, dot [4]float64
	equal                         [4]uint64
	largest                       [8]uint32 // bits of numbers without their sign, which have the order of the numbers
}

// Add adds the numbers in x and y.
func (d *Distances) Add(x, y []byte) {
	mustBeF32(x)
	if len(x) != len(y) {
		panic(fmt.Sprintf("kernel: %d bytes and %d", len(x), len(y)))
	}
	n := nativeDistances(d, x, y)
	d.add(x[n:], y[n:])
}

// Finite reports whether all numbers are finite.
func (d *Distances) Finite() bool { return d.bits() < 0x7F80_0000 }

// Largest is the greatest |x| or |y|.
func (d *Distances) Largest() float32 { return math.Float32frombits(d.bits()) }

func (d *Distances) bits() (bits uint32) {
	for _, v := range d.largest {
		bits = max(bits, v)
	}
	return bits
}

// Most is the greatest |x-y|.
func (d *Distances) Most() float64 { return max(d.most[0], d.most[1], d.most[2], d.most[3]) }

// Sum is the sum of |x-y|.
func (d *Distances) Sum() float64 { return lanes(&d.sum) }

// Squares is the sum of (x-y)^2.
func (d *Distances) Squares() float64 { return lanes(&d.squares) }

// Norms are the sums of x^2 and of y^2, and Dot the sum of x*y.
func (d *Distances) Norms() (x, y float64) { return lanes(&d.x), lanes(&d.y) }

// Dot is the sum of x*y.
func (d *Distances) Dot() float64 { return lanes(&d.dot) }

// Equal is how many pairs are equal.
func (d *Distances) Equal() int64 { return int64(d.equal[0] + d.equal[1] + d.equal[2] + d.equal[3]) }

func lanes(v *[4]float64) float64 { return v[0] + v[1] + (v[2] + v[3]) }

// mustBeF32 panics unless b holds whole numbers.
func mustBeF32(b []byte) {
	if len(b)%4 != 0 {
		panic(fmt.Sprintf("kernel: %d bytes of F32", len(b)))
	}
}
