package measure

import (
	"context"
	"encoding/binary"
	"math"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/views/kernel"
)

// Numbers are the numbers of a tensor: F32, or integers as they are stored, both
// little-endian.
type Numbers struct {
	Name  string         // for errors
	DType tensorfs.DType // F32, or a row of Integers
	Data  tensorfs.Data
}

// Integers convert one stored integer to a float64, which rounds integers beyond 2^53.
var Integers = map[tensorfs.DType]func(b []byte) float64{
	tensorfs.Bool: func(b []byte) float64 { return float64(b[0]) },
	tensorfs.I8:   func(b []byte) float64 { return float64(int8(b[0])) },
	tensorfs.U8:   func(b []byte) float64 { return float64(b[0]) },
	tensorfs.I16:  func(b []byte) float64 { return float64(int16(binary.LittleEndian.Uint16(b))) },
	tensorfs.U16:  func(b []byte) float64 { return float64(binary.LittleEndian.Uint16(b)) },
	tensorfs.I32:  func(b []byte) float64 { return float64(int32(binary.LittleEndian.Uint32(b))) },
	tensorfs.U32:  func(b []byte) float64 { return float64(binary.LittleEndian.Uint32(b)) },
	tensorfs.I64:  func(b []byte) float64 { return float64(int64(binary.LittleEndian.Uint64(b))) },
	tensorfs.U64:  func(b []byte) float64 { return float64(binary.LittleEndian.Uint64(b)) },
}

// width is the number of bytes of one number.
func (n Numbers) width() int64 {
	_, bytes := n.DType.Block()
	return bytes
}

// Count is how many numbers there are.
func (n Numbers) Count() int64 { return n.Data.Size() / n.width() }

// Head returns at most the first max numbers.
func (n Numbers) Head(max int64) ([]float64, error) {
	b := make([]byte, min(max, n.Count())*n.width())
	if err := tensorfs.ReadFull(n.Data, b, 0); err != nil {
		return nil, err
	}
	values := make([]float64, 0, max)
	n.each(b, func(v float64) { values = append(values, v) })
	return values, nil
}

// each calls f with every number in b.
func (n Numbers) each(b []byte, f func(v float64)) {
	one, ok := Integers[n.DType]
	if !ok {
		one = func(b []byte) float64 { return float64(float32At(b)) }
	}
	for w := n.width(); len(b) > 0; b = b[w:] {
		f(one(b))
	}
}

// float32At is the number at the start of b.
func float32At(b []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b)) }

// Stats describe the numbers of a tensor. Min to Std are of the finite
// numbers, and 0 if no number is finite.
type Stats struct {
	Count  int64 // of all numbers
	Finite int64
	Zeros  int64 // of either sign
	NaN    int64
	PosInf int64
	NegInf int64

	Min, Max float64
	Mean     float64
	Std      float64 // of the numbers themselves: the square root of the mean square distance from Mean
}

// Describe measures tensors. add is told how many bytes of numbers were read; it
// may be nil.
func Describe(ctx context.Context, list []Numbers, add func(int64)) ([]Stats, error) {
	r := newRun(ctx, add)
	all := make([]Stats, len(list))
	err := r.each(len(list), func(i int) error {
		parts, err := stretches(r, list[i].Name, list[i].Count(), func(b *buffer, first, n int64) (moments, error) {
			return r.moments(list[i], b, first, n)
		})
		if err == nil {
			all[i] = total(parts).stats()
		}
		return err
	})
	return all, err
}

// moments are the stats of some numbers. The sums are of distances from shift, one
// of the numbers, so that they are exact for numbers far from 0 too.
type moments struct {
	Stats
	shift, sum, squares float64
}

// moments reads a stretch.
func (r *run) moments(numbers Numbers, b *buffer, first, n int64) (m moments, err error) {
	w := numbers.width()
	for end := first + n; first < end; first += piece {
		p, err := r.read(numbers.Data, &b.a, first*w, min(piece, end-first)*w)
		if err != nil {
			return m, err
		}
		if numbers.DType != tensorfs.F32 {
			numbers.each(p, m.add)
			continue
		}
		for len(p) > 0 {
			at := p[:min(len(p), 4*block)]
			if !m.finite(at) {
				numbers.each(at, m.add)
			}
			p = p[len(at):]
		}
	}
	return m, nil
}

// add counts one number.
func (m *moments) add(v float64) {
	m.Count++
	switch {
	case math.IsNaN(v):
		m.NaN++
		return
	case math.IsInf(v, 1):
		m.PosInf++
		return
	case math.IsInf(v, -1):
		m.NegInf++
		return
	case v == 0:
		m.Zeros++
	}
	if m.Finite++; m.Finite == 1 {
		m.Min, m.Max, m.shift = v, v, v
	}
	m.Min, m.Max = min(m.Min, v), max(m.Max, v)
	d := v - m.shift
	m.sum += d
	m.squares += d * d
}

// finite counts F32 numbers if all are finite, and otherwise none.
func (m *moments) finite(b []byte) bool {
	shift := m.shift
	if m.Finite == 0 {
		shift = float64(float32At(b))
	}
	k := kernel.NewMoments(shift)
	k.Add(b)
	if !isFinite(k.Sum()) {
		return false
	}
	if m.Finite == 0 {
		m.Min, m.Max, m.shift = shift, shift, shift
	}
	n := int64(len(b) / 4)
	m.Count += n
	m.Finite += n
	m.Zeros += k.Zeros()
	m.Min, m.Max = min(m.Min, float64(k.Least())), max(m.Max, float64(k.Most()))
	m.sum += k.Sum()
	m.squares += k.Squares()
	return true
}

func isFinite(v float64) bool { return v-v == 0 }

// mean and spread are what the finite numbers have: spread is the sum of squared
// distances from the mean.
func (m *moments) mean() float64 { return m.shift + m.sum/float64(m.Finite) }

func (m *moments) spread() float64 { return max(m.squares-m.sum*m.sum/float64(m.Finite), 0) }

// total puts stretches together, in order.
func total(parts []moments) (t moments) {
	for _, p := range parts {
		t.Count += p.Count
		t.Zeros += p.Zeros
		t.NaN += p.NaN
		t.PosInf += p.PosInf
		t.NegInf += p.NegInf
		switch {
		case p.Finite == 0:
			continue
		case t.Finite == 0:
			t.Finite, t.Min, t.Max, t.Mean, t.squares = p.Finite, p.Min, p.Max, p.mean(), p.spread()
			continue
		}
		n, k := float64(t.Finite), float64(p.Finite)
		d := p.mean() - t.Mean
		t.squares += p.spread() + d*d*n*k/(n+k)
		t.Mean += d * k / (n + k)
		t.Finite += p.Finite
		t.Min, t.Max = min(t.Min, p.Min), max(t.Max, p.Max)
	}
	return t
}

// stats finishes the sums of all numbers.
func (m moments) stats() Stats {
	if m.Finite > 0 {
		m.Std = math.Sqrt(m.squares / float64(m.Finite))
	}
	return m.Stats
}
