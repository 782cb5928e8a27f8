package lora

import (
	"math"
	"slices"
	"sync"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/views"
	"github.com/tensorfs/tensorfs/views/kernel"
)

// delta is what a module of an adapter adds to rows of a tensor.
type delta struct {
	*pair
	from, n   int64 // rows of the tensor, all its matrices one after the other
	at        int64 // row of the pair that the first of them is
	factor    float32
	magnitude *magnitude // of DoRA; nil without it
}

// magnitude is what DoRA makes the length of each row, or of each column.
type magnitude struct {
	base    *tensorfs.Tensor
	columns bool
	at      int64 // of the first row in the vector

	mu      sync.Mutex
	values  []float32
	factors []float64 // of columns: what each is multiplied by; nil until it is known
}

// vector returns the lengths.
func (m *magnitude) vector() ([]float32, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.values == nil {
		v, err := views.Floats(m.base)
		if err != nil {
			return nil, err
		}
		m.values = v
	}
	return m.values, nil
}

// merged is Data of the numbers of a tensor with what adapters add.
type merged struct {
	base          tensorfs.Data // F32
	rows, columns int64
	deltas        []delta // in the order in which they are added
	rowWise       bool    // one of them needs whole rows
	from          []tensorfs.Data
	kept          *kept
}

var _ tensorfs.Checker = (*merged)(nil)

func (m *merged) Size() int64 { return 4 * m.rows * m.columns }

// Check asks the base and the adapters: kept results may come from a file that has changed.
func (m *merged) Check() error {
	if err := tensorfs.Check(m.base); err != nil {
		return err
	}
	return m.checkAdapters()
}

func (m *merged) checkAdapters() error {
	for _, d := range m.from {
		if err := tensorfs.Check(d); err != nil {
			return err
		}
	}
	return nil
}

// ReadAt computes whole numbers directly into p, and numbers that p covers only in part in
// a buffer.
func (m *merged) ReadAt(p []byte, off int64) (int, error) {
	n, eof := tensorfs.ClipRange(m.Size(), p, off)
	for done := 0; done < n; {
		at := off + int64(done)
		if take := (n - done) &^ 3; at%4 == 0 && take > 0 {
			if err := m.make(p[done:done+take], at/4); err != nil {
				return done, err
			}
			done += take
			continue
		}
		var one [4]byte
		if err := m.make(one[:], at/4); err != nil {
			return done, err
		}
		done += copy(p[done:n], one[at%4:])
	}
	if n > 0 {
		if err := m.checkAdapters(); err != nil {
			return 0, err
		}
	}
	return n, eof
}

// maxRun bounds how many bytes are made at a time, so that they stay in the processor's cache
// between the steps.
const maxRun = 1 << 18

var _ views.Computed = (*merged)(nil)

// Step is as many whole rows as fit the cache, a multiple of four if they are enough. Of
// long rows it is eight, if that is not too much: each read of the wide matrix then serves
// all of them.
func (m *merged) Step() int64 {
	width := 4 * m.columns
	rows := max(maxRun/width, min(2*maxRun/width, 8), 1)
	if rows > 4 {
		rows &^= 3
	}
	return rows * width
}

// make makes the numbers from first on: parts of rows, and whole rows.
func (m *merged) make(dst []byte, first int64) error {
	width := 4 * m.columns
	for len(dst) > 0 {
		row, column := first/m.columns, first%m.columns
		var n int64 // bytes
		var err error
		if whole := int64(len(dst)) / width; column == 0 && whole > 0 {
			rows := min(whole, m.Step()/width)
			n = rows * width
			err = m.added(dst[:n], row, rows, 0, m.columns)
		} else {
			n = min(int64(len(dst)), width-4*column)
			err = m.partOfRow(dst[:n], row, column)
		}
		if err != nil {
			return err
		}
		dst, first = dst[n:], first+n/4
	}
	return nil
}

// rowPool has memory for rows that are only needed in part.
var rowPool = sync.Pool{New: func() any { return new([]byte) }}

// partOfRow makes some columns of a row.
func (m *merged) partOfRow(dst []byte, row, column int64) error {
	if !m.rowWise {
		return m.added(dst, row, 1, column, int64(len(dst)/4))
	}
	b := rowPool.Get().(*[]byte)
	defer rowPool.Put(b)
	*b = slices.Grow((*b)[:0], int(4*m.columns))[:4*m.columns]
	if err := m.added(*b, row, 1, 0, m.columns); err != nil {
		return err
	}
	copy(dst, (*b)[4*column:])
	return nil
}

// added makes n columns of rows. Deltas of DoRA need whole rows.
func (m *merged) added(dst []byte, row, rows, column, n int64) error {
	if err := tensorfs.ReadFull(m.base, dst, 4*(row*m.columns+column)); err != nil {
		return err
	}
	for i := range m.deltas {
		d := &m.deltas[i]
		from, to := max(row, d.from), min(row+rows, d.from+d.n)
		if from >= to {
			continue
		}
		part := dst[4*(from-row)*n:][:4*(to-from)*n]
		if err := m.add(part, d, from, to-from, column, n); err != nil {
			return err
		}
		if d.magnitude != nil {
			if err := m.scale(part, i, from, to-from, column, n); err != nil {
				return err
			}
		}
	}
	return nil
}

// add adds what d adds to n columns of rows.
func (m *merged) add(dst []byte, d *delta, row, rows, column, n int64) error {
	left, right, err := m.kept.get(d.pair)
	if err != nil {
		return err
	}
	for at := d.at + row - d.from; rows > 0; {
		matrix := at / d.per
		take := min(rows, (matrix+1)*d.per-at)
		k := kernel.LowRank{Left: left, Right: right[matrix*d.panels():], Rank: int(d.rank), Factor: d.factor}
		k.Add(dst[:4*take*n], int(at), int(take), int(column), int(n))
		dst, at, rows = dst[4*take*n:], at+take, rows-take
	}
	return nil
}

// scale gives rows, or columns, the lengths of a delta of DoRA.
func (m *merged) scale(dst []byte, i int, row, rows, column, n int64) error {
	d := &m.deltas[i]
	if d.magnitude.columns {
		factors, err := m.columnFactors(i)
		if err != nil {
			return err
		}
		for ; len(dst) > 0; dst = dst[4*n:] {
			kernel.MultiplyEach(dst[:4*n], factors[column:column+n])
		}
		return nil
	}
	lengths, err := d.magnitude.vector()
	if err != nil {
		return err
	}
	for r := range rows {
		one := dst[4*r*n:][:4*n]
		if norm := kernel.Norm(one); norm != 0 {
			kernel.MultiplyDouble(one, float64(lengths[d.magnitude.at+row+r-d.from])/norm)
		}
	}
	return nil
}

// columnFactors returns what columns are multiplied by, for which all rows are made once.
func (m *merged) columnFactors(i int) ([]float64, error) {
	mag := m.deltas[i].magnitude
	lengths, err := mag.vector()
	if err != nil {
		return nil, err
	}
	mag.mu.Lock()
	defer mag.mu.Unlock()
	if mag.factors != nil {
		return mag.factors, nil
	}
	one := *m // without the lengths, which are what is asked for
	one.deltas = slices.Clone(m.deltas[:i+1])
	one.deltas[i].magnitude = nil
	sums := make([]float64, m.columns)
	step := max(maxRun/(4*m.columns), 1)
	buf := make([]byte, 4*step*m.columns)
	for row := int64(0); row < m.rows; row += step {
		rows := min(step, m.rows-row)
		if err := one.added(buf[:4*rows*m.columns], row, rows, 0, m.columns); err != nil {
			return nil, err
		}
		for r := range rows {
			kernel.AddSquares(sums, buf[4*r*m.columns:][:4*m.columns])
		}
	}
	mag.factors = factorsOf(lengths, sums)
	return mag.factors, nil
}

// factorsOf returns lengths over the roots of sums of squares; 1 for a column of zeros.
func factorsOf(lengths []float32, sums []float64) []float64 {
	factors := make([]float64, len(sums))
	for i, s := range sums {
		if factors[i] = 1; s != 0 {
			factors[i] = float64(lengths[i]) / math.Sqrt(s)
		}
	}
	return factors
}
