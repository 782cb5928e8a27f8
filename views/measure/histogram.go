package measure

import (
	"context"

	"github.com/tensorfs/tensorfs"
)

// Bins are a histogram: how many numbers are in each of len(Counts) intervals of
// one length between From and To, both included, and how many are beyond.
type Bins struct {
	From, To     float64
	Below, Above int64 // infinities too
	Counts       []int64
}

// Histogram counts the numbers of a tensor, NaN left out, in n intervals. add is
// told how many bytes of numbers were read; it may be nil.
func Histogram(ctx context.Context, numbers Numbers, from, to float64, n int, add func(int64)) (Bins, error) {
	h := Bins{From: from, To: to, Counts: make([]int64, n)}
	scale := float64(n) / (to - from) // +Inf where all numbers are equal: the first interval has them
	r := newRun(ctx, add)
	err := r.each(1, func(int) error {
		parts, err := stretches(r, numbers.Name, numbers.Count(), func(b *buffer, first, count int64) (Bins, error) {
			p := Bins{From: from, To: to, Counts: make([]int64, n)}
			w := numbers.width()
			for end := first + count; first < end; first += piece {
				bytes, err := r.read(numbers.Data, &b.a, first*w, min(piece, end-first)*w)
				if err != nil {
					return p, err
				}
				if numbers.DType == tensorfs.F32 {
					p.single(bytes, scale)
				} else {
					numbers.each(bytes, func(v float64) { p.count(v, scale) })
				}
			}
			return p, nil
		})
		for _, p := range parts {
			h.Below += p.Below
			h.Above += p.Above
			for i, c := range p.Counts {
				h.Counts[i] += c
			}
		}
		return err
	})
	return h, err
}

// count puts a number into its interval.
func (h *Bins) count(v, scale float64) {
	switch {
	case v < h.From:
		h.Below++
	case v > h.To:
		h.Above++
	case v == h.From:
		h.Counts[0]++
	case v <= h.To: // not NaN
		h.Counts[min(int((v-h.From)*scale), len(h.Counts)-1)]++
	}
}

// single counts F32 numbers.
func (h *Bins) single(b []byte, scale float64) {
	from, n := h.From, float64(len(h.Counts))
	for ; len(b) >= 4; b = b[4:] {
		v := float64(float32At(b))
		if at := (v - from) * scale; at > 0 && at < n {
			h.Counts[int(at)]++
		} else {
			h.count(v, scale)
		}
	}
}
