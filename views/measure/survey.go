package measure

import (
	"context"
	"math"
	"slices"

	"github.com/tensorfs/tensorfs/views/kernel"
)

// Profile is what a picture of a tensor shows. Figures are of the finite numbers.
type Profile struct {
	Count     int64 // of all numbers
	NonFinite int64
	Zeros     int64
	Min, Max  float64
	Mean, RMS float64
	Kurtosis  float64 // the mean of x^4 divided by the square of the mean of x^2: 3 for a normal distribution
	// Bins count numbers in equal intervals from -6 to 6 RMS; what is beyond is in none.
	Bins [61]int64
	// Columns and Rows are the ones with the largest RMS, if the tensor is a matrix;
	// otherwise nil. In stacks of matrices, rows are counted through all of them.
	Columns, Rows []Line
	// Q4 and Q8 are the RMS of what Q4_0 and Q8_0 change, by RMS; NaN where rows are no whole
	// blocks.
	Q4, Q8 float64
}

// Line is a row or a column that stands out.
type Line struct {
	Index int64   `json:"index"`
	Ratio float64 `json:"ratio"` // of its RMS to the median of all
}

// Surveyed is a tensor to be surveyed: F32 numbers of a shape.
type Surveyed struct {
	Numbers
	Rows, Cols int64 // of a matrix, or of a stack's together; 0 for others
}

// lines is how many rows and columns are kept.
const lines = 8

// maxCols bounds the sums of columns that are kept for a stretch.
const maxCols = 1 << 18

// Survey describes tensors. add receives the number of bytes read, twice every tensor's
// size; it may be nil. Numbers that are no more exact than F16 or BF16 are read once: a
// [tally] of them, which fills the bins when the RMS is known, takes little memory. Other
// numbers are read again.
//
// The figures are the same on every machine. A run is a row of a matrix, or 1024 numbers of
// another tensor, within pieces of 65536. Its sums are computed by kernel.Powers; runs are
// added in order to the sums of a stretch of 2^20 numbers, and stretches in order to the
// total. The loss of quantising is computed by kernel.Losses, from piece to piece.
func Survey(ctx context.Context, list []Surveyed, add func(int64)) ([]Profile, error) {
	r := newRun(ctx, add)
	all := make([]Profile, len(list))
	err := r.each(len(list), func(i int) (err error) {
		all[i], err = r.survey(&list[i])
		return err
	})
	return all, err
}

// powers are sums over a stretch.
type powers struct {
	nonFinite, zeros  int64
	min, max          float64
	sum, square, four float64
	cols              []float64 // sums of squares of each column
	first             int64     // row
	rows              []float64 // sums of squares of the rows from the first on
	losses            kernel.Losses
}

// quantised is how many numbers a block of Q4_0 and Q8_0 has.
const quantised = 32

func (r *run) survey(s *Surveyed) (p Profile, err error) {
	p.Count = s.Count()
	p.Q4, p.Q8 = math.NaN(), math.NaN()
	matrix := s.Rows > 1 && s.Cols > 1 && s.Cols <= maxCols && s.Rows*s.Cols == p.Count
	cols, blocks := int64(block), p.Count%quantised == 0
	if s.Cols > 0 {
		blocks = s.Cols%quantised == 0
	}
	if matrix {
		cols = s.Cols
	}
	counted := newTally(p.Count)
	parts, err := stretches(r, s.Name, p.Count, func(b *buffer, first, n int64) (q powers, err error) {
		q.min, q.max, q.first = math.Inf(1), math.Inf(-1), first/cols
		if matrix {
			q.cols = make([]float64, cols)
			q.rows = make([]float64, (first+n-1)/cols-q.first+1)
		}
		counts := counted.counts(b)
		defer counts.end()
		for end := first + n; first < end; {
			data, err := r.read(s.Data, &b.a, 4*first, 4*min(piece, end-first))
			if err != nil {
				return q, err
			}
			before, any := q.nonFinite, uint32(0)
			for rest := data; len(rest) > 0; {
				col := first % cols
				n := min(cols-col, int64(len(rest)/4))
				sums := b.cols[:min(n, block)]
				if matrix {
					sums = q.cols[col:][:n]
				}
				k := kernel.NewPowers()
				k.Add(rest[:4*n], sums)
				q.add(&k)
				any |= k.Any()
				if matrix {
					q.rows[first/cols-q.first] += k.Square()
				}
				rest, first = rest[4*n:], first+n
			}
			if blocks && q.nonFinite == before {
				q.losses.Add(data)
			}
			counts.add(data, any)
		}
		return q, nil
	})
	if err != nil {
		return p, err
	}
	total := powers{min: math.Inf(1), max: math.Inf(-1)}
	if matrix {
		total.cols, total.rows = make([]float64, cols), make([]float64, s.Rows)
	}
	for i := range parts {
		total.put(&parts[i])
	}
	total.describe(&p, s, matrix)
	if blocks && p.NonFinite == 0 && p.RMS > 0 {
		p.Q4, p.Q8 = changed(parts, p.RMS, float64(p.Count))
	}
	return p, r.bins(&p, s, counted)
}

// changed returns the RMS of quantising's changes, divided by the RMS of the n numbers; NaN
// if a scale is not a finite half.
func changed(parts []powers, rms, n float64) (q4, q8 float64) {
	for i := range parts {
		q4 += parts[i].losses.Q4()
		q8 += parts[i].losses.Q8()
	}
	q4, q8 = math.Sqrt(q4/n)/rms, math.Sqrt(q8/n)/rms
	for _, q := range []*float64{&q4, &q8} {
		if !isFinite(*q) {
			*q = math.NaN()
		}
	}
	return q4, q8
}

// add adds the sums of a run.
func (q *powers) add(k *kernel.Powers) {
	q.nonFinite += k.NonFinite()
	q.zeros += k.Zeros()
	q.min, q.max = min(q.min, float64(k.Least())), max(q.max, float64(k.Most()))
	q.sum += k.Sum()
	q.square += k.Square()
	q.four += k.Four()
}

func (q *powers) put(s *powers) {
	q.nonFinite += s.nonFinite
	q.zeros += s.zeros
	q.min, q.max = min(q.min, s.min), max(q.max, s.max)
	q.sum += s.sum
	q.square += s.square
	q.four += s.four
	for i, v := range s.cols {
		q.cols[i] += v
	}
	for i, v := range s.rows {
		q.rows[s.first+int64(i)] += v
	}
}

func (q *powers) describe(p *Profile, s *Surveyed, matrix bool) {
	p.NonFinite, p.Zeros = q.nonFinite, q.zeros
	n := float64(p.Count - q.nonFinite)
	if n == 0 {
		return
	}
	p.Min, p.Max, p.Mean = q.min, q.max, q.sum/n
	p.RMS = math.Sqrt(q.square / n)
	if q.square > 0 {
		p.Kurtosis = q.four * n / float64(q.square*q.square)
	}
	if matrix {
		p.Columns, p.Rows = largestLines(q.cols, float64(s.Rows)), largestLines(q.rows, float64(s.Cols))
	}
}

// largestLines returns the lines with the largest RMS, from their sums of n squares.
func largestLines(squares []float64, n float64) []Line {
	sorted := slices.Sorted(slices.Values(squares))
	median := math.Sqrt(sorted[len(sorted)/2] / n)
	order := make([]int, len(squares))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case squares[a] > squares[b]:
			return -1
		case squares[a] < squares[b]:
			return 1
		}
		return 0
	})
	var list []Line
	for _, i := range order[:min(lines, len(order))] {
		ratio := math.Sqrt(squares[i]/n) / median
		if math.IsNaN(ratio) || math.IsInf(ratio, 0) { // the median is 0
			ratio = 0
		}
		list = append(list, Line{int64(i), ratio})
	}
	return list
}
