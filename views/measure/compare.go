package measure

import (
	"bytes"
	"context"
	"math"
	"sync/atomic"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/views/kernel"
)

// Pair is two tensors of the same shape.
type Pair struct {
	Name string // for errors
	// StoredA and StoredB are the stored bytes if both are stored in the same way: then
	// equal bytes are equal numbers, and nothing is decoded. Without numbers only these
	// bytes are compared.
	StoredA, StoredB tensorfs.Data
	A, B             tensorfs.Data // the numbers as F32; may be nil
}

// Bytes is how many bytes are read at most to compare a pair.
func (p Pair) Bytes() (n int64) {
	for _, d := range []tensorfs.Data{p.StoredA, p.StoredB, p.A, p.B} {
		if d != nil {
			n += d.Size()
		}
	}
	return n
}

// Difference is how far two tensors are apart.
//
// Numbers that are not finite are left out of all sums. Two NaN are equal,
// whatever their bits; so are two infinities of the same sign, and 0 and -0.
type Difference struct {
	Equal   bool
	Numbers bool  // the rest is known: the tensors are equal, or have numbers
	Count   int64 // of numbers in each
	Differ  int64 // how many are not equal
	Odd     int64 // how many of these are NaN, or infinite, in one tensor only or with another sign

	Max     float64 // the greatest |a - b|
	Mean    float64 // the mean of |a - b|
	Largest float64 // the greatest |a| or |b|
	NMSE    float64 // the sum of (a - b)^2 divided by the sum of a^2; +Inf if a is 0 and b is not
	Cosine  float64 // of the two as vectors: 1 if both are equal, NaN if one is 0
}

// Relative is the root of the NMSE: the RMS of a - b divided by a's. It is NaN if numbers
// are not known.
func (d *Difference) Relative() float64 {
	if !d.Numbers {
		return math.NaN()
	}
	return math.Sqrt(d.NMSE)
}

// Compare compares pairs. add is told how many bytes were read, or need not be; it
// may be nil.
func Compare(ctx context.Context, pairs []Pair, add func(int64)) ([]Difference, error) {
	r := newRun(ctx, add)
	all := make([]Difference, len(pairs))
	err := r.each(len(pairs), func(i int) (err error) {
		all[i], err = r.compare(pairs[i])
		return err
	})
	return all, err
}

func (r *run) compare(p Pair) (Difference, error) {
	d := Difference{Cosine: 1}
	if p.A != nil {
		d.Count = p.A.Size() / 4
	}
	if p.StoredA != nil {
		same, err := r.sameBytes(p.Name, p.StoredA, p.StoredB)
		if err != nil {
			return d, err
		}
		if same || p.A == nil {
			d.Equal, d.Numbers = same, same
			if p.A != nil {
				r.add(p.A.Size() + p.B.Size())
			}
			return d, nil
		}
	}
	parts, err := stretches(r, p.Name, d.Count, func(b *buffer, first, n int64) (s distances, err error) {
		for end := first + n; first < end; first += piece {
			n := min(piece, end-first)
			x, err := r.read(p.A, &b.a, 4*first, 4*n)
			if err != nil {
				return s, err
			}
			y, err := r.read(p.B, &b.b, 4*first, 4*n)
			if err != nil {
				return s, err
			}
			for len(x) > 0 {
				at := min(len(x), 4*block)
				if bx, by := x[:at], y[:at]; !s.finite(bx, by) {
					s.each(bx, by)
				}
				x, y = x[at:], y[at:]
			}
		}
		return s, nil
	})
	var t distances
	for _, s := range parts {
		t.put(s)
	}
	return t.difference(d), err
}

// sameBytes reports whether two Data hold the same. It stops at the first
// difference.
func (r *run) sameBytes(name string, a, b tensorfs.Data) (bool, error) {
	size := a.Size()
	if b.Size() != size {
		r.add(size + b.Size())
		return false, nil
	}
	var differ atomic.Bool
	const step = 4 * piece
	// stretches counts numbers: of 4 bytes here. The last one may be shorter.
	_, err := stretches(r, name, (size+3)/4, func(buf *buffer, first, n int64) (_ struct{}, err error) {
		off, end := 4*first, min(4*(first+n), size)
		defer r.add(2 * (end - off))
		for ; off < end && !differ.Load() && err == nil; off += step {
			var same bool
			if same, err = equal(a, b, off, min(step, end-off), buf); err == nil && !same {
				differ.Store(true)
			}
		}
		return struct{}{}, err
	})
	return !differ.Load(), err
}

// equal compares the bytes [off, off+n), without copying them if they are mapped.
func equal(a, b tensorfs.Data, off, n int64, buf *buffer) (same bool, err error) {
	x, in, err := tensorfs.View(a, off, n, &buf.a)
	if err != nil {
		return false, err
	}
	y, of, err := tensorfs.View(b, off, n, &buf.b)
	if err != nil {
		return false, err
	}
	err = tensorfs.Guard(func() error {
		same = bytes.Equal(x, y)
		return nil
	}, in, of)
	return same, err
}

// distances are the sums of a stretch.
type distances struct {
	differ, odd                            int64
	max, largest                           float64
	sum, squares, squaresA, squaresB, dots float64
}

// put adds the sums of another stretch.
func (s *distances) put(o distances) {
	s.differ += o.differ
	s.odd += o.odd
	s.max, s.largest = max(s.max, o.max), max(s.largest, o.largest)
	s.sum += o.sum
	s.squares += o.squares
	s.squaresA += o.squaresA
	s.squaresB += o.squaresB
	s.dots += o.dots
}

// each adds numbers of any kind, one by one.
func (s *distances) each(a, b []byte) {
	for ; len(a) > 0; a, b = a[4:], b[4:] {
		x, y := float64(float32At(a)), float64(float32At(b))
		switch {
		case isFinite(x) && isFinite(y):
			s.one(x, y)
		case x != y && !(x != x && y != y):
			s.differ++
			s.odd++
		}
	}
}

// one adds two finite numbers.
func (s *distances) one(x, y float64) {
	d := math.Abs(x - y)
	if d > 0 {
		s.differ++
	}
	s.max = max(s.max, d)
	s.largest = max(s.largest, math.Abs(x), math.Abs(y))
	s.sum += d
	s.squares += d * d
	s.squaresA += x * x
	s.squaresB += y * y
	s.dots += x * y
}

// finite adds numbers if all are finite, and otherwise none.
func (s *distances) finite(a, b []byte) bool {
	var k kernel.Distances
	k.Add(a, b)
	if !k.Finite() {
		return false
	}
	x, y := k.Norms()
	s.put(distances{
		differ: int64(len(a)/4) - k.Equal(), max: k.Most(), largest: float64(k.Largest()), sum: k.Sum(), squares: k.Squares(),
		squaresA: x, squaresB: y, dots: k.Dot(),
	})
	return true
}

// difference completes d.
func (s distances) difference(d Difference) Difference {
	d.Numbers, d.Equal = true, s.differ == 0
	d.Differ, d.Odd, d.Max, d.Largest = s.differ, s.odd, s.max, s.largest
	if d.Equal {
		return d
	}
	if n := d.Count; n > 0 {
		d.Mean = s.sum / float64(n)
	}
	if s.squares > 0 {
		d.NMSE = s.squares / s.squaresA
	}
	d.Cosine = s.dots / math.Sqrt(s.squaresA) / math.Sqrt(s.squaresB)
	if !math.IsNaN(d.Cosine) {
		d.Cosine = min(max(d.Cosine, -1), 1)
	}
	return d
}
