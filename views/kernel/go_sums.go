package kernel

import (
	"encoding/binary"
	"math"
)

// add is the specification of Moments.Add. Conversions of products keep compilers from fusing
// them with sums.
func (m *Moments) add(b []byte) {
	for ; len(b) >= 16; b = b[16:] {
		m.four(b[:16:16])
	}
	for i := 0; len(b) > 0; i, b = i+1, b[4:] {
		m.one(i, numberF32(b))
	}
}

func (m *Moments) four(b []byte) {
	v0, v1, v2, v3 := numberF32(b), numberF32(b[4:]), numberF32(b[8:]), numberF32(b[12:])
	d0, d1, d2, d3 := float64(v0)-m.shift, float64(v1)-m.shift, float64(v2)-m.shift, float64(v3)-m.shift
	m.sum[0] += d0
	m.sum[1] += d1
	m.sum[2] += d2
	m.sum[3] += d3
	m.squares[0] += float64(d0 * d0)
	m.squares[1] += float64(d1 * d1)
	m.squares[2] += float64(d2 * d2)
	m.squares[3] += float64(d3 * d3)
	m.extremes(0, v0)
	m.extremes(1, v1)
	m.extremes(2, v2)
	m.extremes(3, v3)
}

func (m *Moments) one(lane int, v float32) {
	d := float64(v) - m.shift
	m.sum[lane] += d
	m.squares[lane] += float64(d * d)
	m.extremes(lane, v)
}

func (m *Moments) extremes(lane int, v float32) {
	if v < m.least[lane] {
		m.least[lane] = v
	}
	if v > m.most[lane] {
		m.most[lane] = v
	}
	if v == 0 {
		m.zeros[lane]++
	}
}

// add is the specification of Distances.Add.
func (d *Distances) add(x, y []byte) {
	for i := 0; len(x) > 0; i, x, y = (i+1)%4, x[4:], y[4:] {
		u, w := binary.LittleEndian.Uint32(x), binary.LittleEndian.Uint32(y)
		d.largest[i] = max(d.largest[i], u&math.MaxInt32, w&math.MaxInt32)
		a, b := float64(math.Float32frombits(u)), float64(math.Float32frombits(w))
		e := math.Abs(a - b)
		if e == 0 {
			d.equal[i]++
		}
		if e > d.most[i] {
			d.most[i] = e
		}
		d.sum[i] += e
		d.squares[i] += float64(e * e)
		d.x[i] += float64(a * a)
		d.y[i] += float64(b * b)
		d.dot[i] += float64(a * b)
	}
}
