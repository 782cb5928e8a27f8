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
	Kurtosis  float64 // the mean of x^4 by the square of that of x^2: 3 for a normal distribution
	// Bins count numbers in equal intervals from -6 to 6 RMS; what is beyond is in none.
	Bins [61]int64
	// Columns and Rows are those of the largest RMS, of a matrix; nil for others. Of stacks
	// of matrices, rows are counted through all of them.
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

// Survey describes tensors. add is told how many bytes were read; it may be nil. Every
// tensor is read twice.
func Survey(ctx context.Context, list []Surveyed, add func(int64)) ([]Profile, error) {
	r := newRun(ctx, add)
	all := make([]Profile, len(list))
	err := r.each(len(list), func(i int) (err error) {
		all[i], err = r.survey(&list[i])
		return err
	})
	return all, err
}

// powers are sums of the powers of some numbers.
type powers struct {
	nonFinite, zeros  int64
	min, max          float64
	sum, square, four float64
	cols              []float64 // sums of squares of each column
	first             int64     // row
	rows              []float64 // sums of squares of the rows from the first on
}

func (r *run) survey(s *Surveyed) (p Profile, err error) {
	p.Count = s.Count()
	p.Q4, p.Q8 = math.NaN(), math.NaN()
	matrix := s.Rows > 1 && s.Cols > 1 && s.Cols <= maxCols && s.Rows*s.Cols == p.Count
	cols := int64(block)
	if matrix {
		cols = s.Cols
	}
	parts, err := stretches(r, s.Name, p.Count, func(b *buffer, first, n int64) (q powers, err error) {
		q.min, q.max, q.first = math.Inf(1), math.Inf(-1), first/cols
		if matrix {
			q.cols = make([]float64, cols)
			q.rows = make([]float64, (first+n-1)/cols-q.first+1)
		}
		for end := first + n; first < end; {
			n := min(piece, end-first)
			data, err := r.read(s.Data, &b.a, 4*first, 4*n)
			if err != nil {
				return q, err
			}
			for len(data) > 0 {
				col := first % cols
				n := min(cols-col, int64(len(data)/4))
				var sums []float64
				if matrix {
					sums = q.cols[col:][:n]
				}
				square := q.add(data[:4*n], sums)
				q.square += square
				if matrix {
					q.rows[first/cols-q.first] += square
				}
				data, first = data[4*n:], first+n
			}
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
	return p, r.spread(&p, s)
}

// add adds the numbers of a run of columns, and returns the sum of their squares.
func (q *powers) add(data []byte, cols []float64) (square float64) {
	for i := 0; i < len(data); i += 4 {
		x := float64(float32At(data[i:]))
		if x-x != 0 { // infinite or NaN
			q.nonFinite++
			continue
		}
		if x == 0 {
			q.zeros++
		}
		s := float64(x * x)
		square += s
		q.four += float64(s * s)
		q.sum += x
		q.min, q.max = min(q.min, x), max(q.max, x)
		if cols != nil {
			cols[i/4] += s
		}
	}
	return square
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

// largestLines are those of the largest RMS, whose sums of n squares are given.
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

// spreads is what the second look at a stretch gives.
type spreads struct {
	bins   [61]int64
	q4, q8 float64 // sums of squares of what quantising changes
}

// spread counts the bins, and measures what quantising changes.
func (r *run) spread(p *Profile, s *Surveyed) error {
	cols := s.Cols
	if cols == 0 {
		cols = p.Count
	}
	const quantised = 32 // numbers of a block of Q4_0 and Q8_0
	blocks := cols%quantised == 0 && p.NonFinite == 0 && p.RMS > 0
	scale := 0.0
	if p.RMS > 0 {
		scale = float64(len(p.Bins)) / (12 * p.RMS)
	}
	parts, err := stretches(r, s.Name, p.Count, func(b *buffer, first, n int64) (x spreads, err error) {
		for end := first + n; first < end; first += piece {
			data, err := r.read(s.Data, &b.a, 4*first, 4*min(piece, end-first))
			if err != nil {
				return x, err
			}
			x.count(data, scale)
			if blocks {
				x.q4 += changed("Q4_0", data, &b.b)
				x.q8 += changed("Q8_0", data, &b.b)
			}
		}
		return x, nil
	})
	if err != nil {
		return err
	}
	var q4, q8 float64
	for i := range parts {
		for k, n := range parts[i].bins {
			p.Bins[k] += n
		}
		q4 += parts[i].q4
		q8 += parts[i].q8
	}
	if blocks {
		n := float64(p.Count)
		p.Q4, p.Q8 = math.Sqrt(q4/n)/p.RMS, math.Sqrt(q8/n)/p.RMS
	}
	return nil
}

func (x *spreads) count(data []byte, scale float64) {
	const half = float64(len(x.bins)) / 2
	for i := 0; i < len(data); i += 4 {
		at := float64(float64(float32At(data[i:]))*scale) + half
		if at >= 0 && at < float64(len(x.bins)) {
			x.bins[int(at)]++
		}
	}
}

// changed is the sum of the squares of what a type changes.
func changed(name string, data []byte, buf *[]byte) (sum float64) {
	e, ok := kernel.LookupEncoder(name)
	d, also := kernel.Single.Lookup(name)
	if !ok || !also {
		return math.NaN()
	}
	n := len(data) / (4 * e.Elems)
	if size := n*e.Bytes + len(data); cap(*buf) < size {
		*buf = make([]byte, size)
	}
	codes, back := (*buf)[:n*e.Bytes], (*buf)[n*e.Bytes:][:len(data)]
	e.Encode(codes, data)
	d.Decode(back, codes)
	for i := 0; i < len(data); i += 4 {
		v := float64(float32At(data[i:])) - float64(float32At(back[i:]))
		sum += float64(v * v)
	}
	return sum
}
