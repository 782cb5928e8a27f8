package mix

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/views/kernel"
)

// tasks is what task_arithmetic and ties share: weighted differences from a base.
type tasks struct {
	base    int
	others  []int     // inputs without the base, in order
	weights []float32 // of the other models, in D
	lambda  float32
	upper   bool // D has only the upper halves of F32
	form
}

func tasksOf(m *Merge, f form) (*tasks, error) {
	x := &tasks{base: -1, lambda: float32(m.Lambda), upper: m.DType == tensorfs.BF16, form: f}
	for i, in := range m.Inputs {
		if in.Base {
			x.base = i
			continue
		}
		x.others, x.weights = append(x.others, i), append(x.weights, x.rounded(float32(in.Weight)))
	}
	if x.base < 0 || len(x.others) == 0 {
		return nil, fmt.Errorf("%s wants a base and other tensors", m.Method)
	}
	return x, nil
}

// rounded is one number in D.
func (x *tasks) rounded(v float32) float32 {
	var b [4]byte
	putFloat32(b[:], v)
	x.round(b[:])
	return float32At(b[:])
}

// differ makes R(x - base) of an input.
func (x *tasks) differ(in, base []byte) {
	kernel.Subtract(in, base)
	x.round(in)
}

// weigh makes R(x * w) of numbers.
func (x *tasks) weigh(in []byte, w float32) {
	kernel.Multiply(in, w)
	x.round(in)
}

// finish makes the merged numbers of the sum of the differences and the base's.
func (x *tasks) finish(dst, base []byte) {
	if x.lambda != 1 {
		x.weigh(dst, x.lambda)
	}
	kernel.Add(dst, base)
}

func task(m *Merge, _ []tensorfs.Data, f form) (func() (combine, error), error) {
	x, err := tasksOf(m, f)
	if err != nil {
		return nil, err
	}
	total := float32(0)
	for _, w := range x.weights {
		total += w
	}
	if total = x.rounded(total); math.Abs(float64(total)) < 1e-8 {
		total = 1
	}
	return once(f.combine(func(dst []byte, in [][]byte, _ int64) {
		clear(dst)
		for k, other := range x.others {
			x.differ(in[other], in[x.base])
			x.weigh(in[other], x.weights[k])
			kernel.Add(dst, in[other])
		}
		x.round(dst)
		if m.Normalize {
			kernel.Divide(dst, total)
			x.round(dst)
		}
		x.finish(dst, in[x.base])
	})), nil
}

func ties(m *Merge, parts []tensorfs.Data, f form) (func() (combine, error), error) {
	x, err := tasksOf(m, f)
	if err != nil {
		return nil, err
	}
	return func() (combine, error) {
		cuts := make([]cut, len(x.others))
		for k, other := range x.others {
			d := difference{x, []tensorfs.Data{parts[x.base], parts[other]}}
			if cuts[k], err = d.cut(m.Inputs[other].Density, m.Rescale); err != nil {
				return nil, err
			}
		}
		return f.combine(func(dst []byte, in [][]byte, first int64) {
			clear(dst)
			for k, other := range x.others {
				x.differ(in[other], in[x.base])
				cuts[k].apply(in[other], first)
				if cuts[k].factor != 1 {
					x.weigh(in[other], cuts[k].factor)
				}
				x.weigh(in[other], x.weights[k])
				kernel.Add(dst, in[other])
			}
			x.round(dst)
			x.elect(dst, in, m.Normalize)
			x.finish(dst, in[x.base])
		}), nil
	}, nil
}

// elections has memory for the signs and the weights of an election.
var elections = sync.Pool{New: func() any { return new([2][chunk]byte) }}

// elect reduces sums of weighted differences to the differences with the sign of the sum,
// or, if normalize is true, to their weighted mean.
func (x *tasks) elect(dst []byte, in [][]byte, normalize bool) {
	b := elections.Get().(*[2][chunk]byte)
	defer elections.Put(b)
	signs, weights := b[0][:len(dst)], b[1][:len(dst)]
	copy(signs, dst)
	clear(dst)
	clear(weights)
	for k, other := range x.others { // one after the other, so that each sum goes up in their order
		kernel.Elect(dst, weights, in[other][:len(dst)], signs, x.weights[k])
	}
	x.round(dst)
	if !normalize {
		return
	}
	x.round(weights)
	kernel.DivideEach(dst, weights)
	x.round(dst)
}

// cut selects the differences that ties keeps: all of a larger magnitude, and of an equal
// magnitude the ones up to an element.
type cut struct {
	magnitude uint32 // bits of an F32 without its sign
	last      int64
	factor    float32 // by which those kept are rescaled
}

// none keeps no difference.
var none = cut{magnitude: 1<<31 - 1, last: -1, factor: 1}

// apply makes the differences that are not kept 0. first is the number of the first one.
func (c *cut) apply(d []byte, first int64) {
	equal := min(max(c.last+1-first, 0), int64(len(d)/4)) // of these, equal ones are kept
	kernel.KeepLarger(d[:4*equal], int32(c.magnitude)-1)
	kernel.KeepLarger(d[4*equal:], int32(c.magnitude))
}

// magnitude is a number without its sign, whose bits are in the order of the numbers.
func magnitude(p []byte) uint32 { return binary.LittleEndian.Uint32(p) &^ (1 << 31) }

// difference is R(x - base), of two tensors.
type difference struct {
	*tasks
	data []tensorfs.Data // base, x
}

// each calls f with all differences, and the number of the first of these.
func (d difference) each(f func(b []byte, first int64)) error {
	return d.walk(d.data, func(in [][]byte, first int64) {
		d.differ(in[1], in[0])
		f(in[1], first)
	})
}

// cut finds the cut that keeps a part of the differences. Magnitudes are counted by their
// upper half, then magnitudes with the upper half of the cut by their lower one: nothing is
// sorted.
func (d difference) cut(density float64, rescale bool) (c cut, err error) {
	n := d.data[0].Size() / d.bytes
	c = cut{last: n, factor: 1}
	if density >= 1 {
		return c, nil
	}
	if density <= 0 {
		return none, nil
	}
	keep := max(1, int64(float64(density*float64(n))))
	var counts [1 << 15]int64
	err = d.each(func(b []byte, _ int64) {
		for ; len(b) >= 4; b = b[4:] {
			counts[magnitude(b)>>16]++
		}
	})
	if err != nil {
		return c, err
	}
	above, upper := largest(counts[:], keep)
	equal, lower := counts[upper], uint32(0)
	if !d.upper {
		var counts [1 << 16]int64
		err = d.each(func(b []byte, _ int64) {
			for ; len(b) >= 4; b = b[4:] {
				if bits := magnitude(b); bits>>16 == upper {
					counts[bits&0xFFFF]++
				}
			}
		})
		if err != nil {
			return c, err
		}
		var more int64
		more, lower = largest(counts[:], keep-above)
		above, equal = above+more, counts[lower]
	}
	c.magnitude = upper<<16 | lower
	left := keep - above // so many of the cut's own magnitude are kept
	if left < equal || rescale {
		err = d.finish(&c, left, equal, rescale)
	}
	return c, err
}

// finish finds the last kept difference among equals of the cut's own magnitude, and the
// factor: the sum of all magnitudes divided by the sum of the kept ones.
func (d difference) finish(c *cut, some, of int64, rescale bool) error {
	var all, kept float64
	left := some
	err := d.each(func(b []byte, first int64) {
		for at := 0; some < of && left > 0 && at < len(b); at += 4 {
			if magnitude(b[at:]) == c.magnitude {
				if left--; left == 0 {
					c.last = first + int64(at/4)
				}
			}
		}
		if rescale {
			all += magnitudes(b)
			kernel.KeepLarger(b, int32(c.magnitude))
			kept += magnitudes(b)
		}
	})
	kept += float64(float64(some) * float64(math.Float32frombits(c.magnitude)))
	if err == nil && rescale && kept > 0 {
		c.factor = d.rounded(d.rounded(float32(all)) / d.rounded(float32(kept)))
	}
	return err
}

// magnitudes is the sum of the magnitudes of numbers, of every fourth one on its own so that none
// waits for the last.
func magnitudes(b []byte) float64 {
	var sums [4]float64
	for ; len(b) >= 16; b = b[16:] {
		for i := range sums {
			sums[i] += float64(math.Float32frombits(magnitude(b[4*i:])))
		}
	}
	for ; len(b) >= 4; b = b[4:] {
		sums[0] += float64(math.Float32frombits(magnitude(b)))
	}
	return (sums[0] + sums[1]) + (sums[2] + sums[3])
}

// largest finds the class in which the keep-th largest is, and how many are above it.
func largest(counts []int64, keep int64) (above int64, class uint32) {
	for i, n := range slices.Backward(counts) {
		if above+n >= keep {
			return above, uint32(i)
		}
		above += n
	}
	return above, 0
}
