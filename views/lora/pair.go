package lora

import (
	"fmt"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/views"
	"github.com/tensorfs/tensorfs/views/kernel"
)

// pair is a module's A and B as a tall matrix and a wide one, whose product has the rows and
// columns of the base's weight. A stack of matrices has a wide one for each.
//
//	left  [rows, rank]              right  [matrices, rank, columns]
type pair struct {
	rows, columns, rank int64
	per                 int64 // rows of a matrix
	a, b                *tensorfs.Tensor
	from                func(a, b []float32, p *pair) (left, right []float32)
}

// matrices is how many there are.
func (p *pair) matrices() int64 { return p.rows / p.per }

// panels is how many numbers each wide matrix has when it is decoded.
func (p *pair) panels() int64 { return int64(kernel.PanelSize(int(p.rank), int(p.columns))) }

// bytes is what the decoded matrices take.
func (p *pair) bytes() int64 { return 4 * (p.rank*p.rows + p.matrices()*p.panels()) }

// maxPair bounds the bytes of a module's matrices as F32.
const maxPair = 1 << 29

// decode reads both matrices. The wide ones are in panels, one matrix after the other.
func (p *pair) decode() (left, right []float32, err error) {
	a, err := views.Floats(p.a)
	if err != nil {
		return nil, nil, err
	}
	b, err := views.Floats(p.b)
	if err != nil {
		return nil, nil, err
	}
	left, wide := p.from(a, b, p)
	right = make([]float32, 0, p.matrices()*p.panels())
	for size := p.rank * p.columns; len(wide) > 0; wide = wide[size:] {
		right = kernel.AppendPanels(right, wide[:size], int(p.rank), int(p.columns))
	}
	return left, right, nil
}

// transposed returns a matrix of so many rows with its columns as rows.
func transposed(m []float32, rows int64) []float32 {
	columns := int64(len(m)) / rows
	out := make([]float32, len(m))
	for r := range rows {
		for c := range columns {
			out[c*rows+r] = m[r*columns+c]
		}
	}
	return out
}

// The shapes of A and B, and the weights that they are for.

// linear is A [r, in] and B [out, r] for a weight [out, in].
func linear(a, b *tensorfs.Tensor) *pair {
	return &pair{b.Shape[0], a.Shape[1], a.Shape[0], b.Shape[0], a, b, func(a, b []float32, _ *pair) ([]float32, []float32) { return b, a }}
}

// turned is the same for a weight [in, out]; so are A [r, V] and B [H, r] of an embedding.
func turned(a, b *tensorfs.Tensor) *pair {
	return &pair{a.Shape[1], b.Shape[0], a.Shape[0], a.Shape[1], a, b, func(a, b []float32, p *pair) ([]float32, []float32) {
		return transposed(a, p.rank), transposed(b, p.columns)
	}}
}

// embedding is A [V, r] and B [H, r], as GGUF files have them.
func embedding(a, b *tensorfs.Tensor) *pair {
	return &pair{a.Shape[0], b.Shape[0], a.Shape[1], a.Shape[0], a, b, func(a, b []float32, p *pair) ([]float32, []float32) {
		return a, transposed(b, p.columns)
	}}
}

// stack is A [E, r, in] and B [E, out, r].
func stack(a, b *tensorfs.Tensor) *pair {
	return &pair{b.Shape[0] * b.Shape[1], a.Shape[2], a.Shape[1], b.Shape[1], a, b, func(a, b []float32, _ *pair) ([]float32, []float32) { return b, a }}
}

// experts is A [E*r, in] and B [out, r*E], the expert counting fastest in B, for a stack
// [E, out, in].
func experts(a, b *tensorfs.Tensor, rank int64) *pair {
	e := a.Shape[0] / rank
	return &pair{e * b.Shape[0], a.Shape[1], rank, b.Shape[0], a, b, func(a, b []float32, p *pair) ([]float32, []float32) {
		left := make([]float32, len(b))
		for o := range p.per {
			for k := range p.rank {
				for x := range e {
					left[(x*p.per+o)*p.rank+k] = b[(o*p.rank+k)*e+x]
				}
			}
		}
		return left, a
	}}
}

// expertsTurned is the same for a stack [E, in, out].
func expertsTurned(a, b *tensorfs.Tensor, rank int64) *pair {
	e := a.Shape[0] / rank
	return &pair{e * a.Shape[1], b.Shape[0], rank, a.Shape[1], a, b, func(a, b []float32, p *pair) ([]float32, []float32) {
		left, right := make([]float32, len(a)), make([]float32, len(b))
		for x := range e {
			for k := range p.rank {
				for i := range p.per {
					left[(x*p.per+i)*p.rank+k] = a[(x*p.rank+k)*p.per+i]
				}
				for o := range p.columns {
					right[(x*p.rank+k)*p.columns+o] = b[(o*p.rank+k)*e+x]
				}
			}
		}
		return left, right
	}}
}

// bias is what is added to a bias: a matrix of one column.
func bias(t *tensorfs.Tensor) *pair {
	n := t.Shape[0]
	return &pair{n, 1, 1, n, t, t, func(a, _ []float32, _ *pair) ([]float32, []float32) { return a, []float32{1} }}
}

// fits returns an error for a pair that takes more memory than any adapter's.
func (p *pair) fits(source string) error {
	if p.bytes() > maxPair {
		return fmt.Errorf("%s: A and B take %d bytes as F32, and at most %d are read", tensorfs.Quote(source), p.bytes(), maxPair)
	}
	return nil
}
